//! Replacements of text in response header fields.

use howdah_template::Template;

use crate::error::Error;
use crate::node::Node;
use crate::templates;

/// A text and its replacement.
#[derive(Debug, Clone, PartialEq)]
pub struct Replacement {
    /// The text to replace.
    pub from: String,
    /// The replacement; `None` removes the text.
    pub to: Option<Template>,
}

impl Replacement {
    /// Reads an object of texts and templates. If `null` is true, the value `null` removes a text.
    pub(crate) fn read_all(node: &Node<'_>, null: bool) -> Result<Vec<Replacement>, Error> {
        let mut replacements = Vec::new();
        for (from, to) in node.members()? {
            if from.is_empty() {
                return Err(to.invalid("must have a name that is not empty"));
            }
            let to = if to.value.is_null() && null { None } else { Some(templates::read(&to)?) };
            replacements.push(Replacement { from: from.to_owned(), to });
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
