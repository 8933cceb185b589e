//! Replacements of text in response header fields.

use howdah_template::{Substitution, Template};

use crate::error::Error;
use crate::node::Node;
use crate::templates;

/// A text and its replacement, or a regular expression and what replaces values that it matches.
#[derive(Debug, Clone, PartialEq)]
pub enum Replacement {
    /// A value that the expression matches, as a whole.
    Expression(Substitution),
    /// A text.
    Text {
        /// The text to replace.
        from: String,
        /// The replacement; `None` removes the text.
        to: Option<Template>,
    },
}

impl Replacement {
    /// Reads an object of texts or expressions after `~`, and templates. If `null` is true, the value
    /// `null` removes a text.
    pub(crate) fn read_all(node: &Node<'_>, null: bool) -> Result<Vec<Replacement>, Error> {
        let mut replacements = Vec::new();
        for (from, to) in node.members()? {
            if from.is_empty() {
                return Err(to.invalid("must have a name that is not empty"));
            }
            let is_removed = to.value.is_null() && null;
            replacements.push(if from.starts_with('~') {
                let text = if is_removed { "" } else { to.string()? };
                let substitution = templates::read_substitution(&to, from, &to, text)?;
                Replacement::Expression(substitution)
            } else {
                let to = if is_removed { None } else { Some(templates::read(&to)?) };
                Replacement::Text { from: from.to_owned(), to }
            });
        }
        Ok(replacements)
    }

    /// Reads `rewrite_location`: a boolean, or an object of further replacements.
    pub(crate) fn read_locations(node: &Node<'_>) -> Result<Option<Vec<Replacement>>, Error> {
        match node.value {
            serde_json::Value::Bool(on) => Ok(on.then(Vec::new)),
            serde_json::Value::Object(_) => Replacement::read_all(node, false).map(Some),
            _ => Err(node.wrong_type("true, false or an object of strings")),
        }
    }
}
