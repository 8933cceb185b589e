//! What takes the place of texts in the fields of responses.

use crate::error::Error;
use crate::node::Node;
use crate::template::Template;

/// A text and what takes its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Replacement {
    /// The text.
    pub from: String,
    /// What takes its place; nothing if `None`.
    pub to: Option<Template>,
}

impl Replacement {
    /// Reads an object of texts and templates, or `null` where a text may be taken out.
    pub(crate) fn read_all(node: &Node<'_>, null: bool) -> Result<Vec<Replacement>, Error> {
        let mut replacements = Vec::new();
        for (from, to) in node.members()? {
            if from.is_empty() {
                return Err(to.invalid("must have a name that is not empty"));
            }
            let to = match to.value.is_null() && null {
                true => None,
                false => Some(Template::read(&to)?),
            };
            replacements.push(Replacement { from: from.to_owned(), to });
        }
        Ok(replacements)
    }

    /// Reads `rewrite_location`: a switch, or an object that says what else is replaced.
    pub(crate) fn read_locations(node: &Node<'_>) -> Result<Option<Vec<Replacement>>, Error> {
        match node.value {
            serde_json::Value::Bool(on) => Ok(on.then(Vec::new)),
            serde_json::Value::Object(_) => Replacement::read_all(node, false).map(Some),
            _ => Err(node.wrong_type("true, false or an object of strings")),
        }
    }
}
