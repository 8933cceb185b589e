//! Conditions on named values: `headers`, `cookies` and `arguments` of a `match`.

use crate::error::Error;
use crate::node::Node;
use crate::pattern::{Patterns, Subject};
use crate::percent;

/// Alternatives, of which one must hold. An alternative holds if each of its names does. A name
/// holds if it occurs, and its patterns accept the value of every occurrence. Without alternatives,
/// the condition always holds.
#[derive(Debug, Clone)]
pub struct FieldPatterns {
    any_case: bool,
    alternatives: Vec<Vec<FieldPattern>>,
}

#[derive(Debug, Clone)]
struct FieldPattern {
    name: Vec<u8>,
    patterns: Patterns,
}

impl FieldPatterns {
    /// Returns true if the conditions hold for these names and values.
    pub fn matches<'r>(&self, fields: impl Iterator<Item = (&'r [u8], &'r [u8])> + Clone) -> bool {
        let holds = |field: &FieldPattern| self.holds(field, fields.clone());
        self.alternatives.is_empty()
            || self.alternatives.iter().any(|alternative| alternative.iter().all(holds))
    }

    fn holds<'r>(
        &self,
        field: &FieldPattern,
        fields: impl Iterator<Item = (&'r [u8], &'r [u8])>,
    ) -> bool {
        let is_named = |name: &[u8]| match self.any_case {
            true => name.eq_ignore_ascii_case(&field.name),
            false => name == field.name,
        };
        let mut values =
            fields.filter(|(name, _)| is_named(name)).map(|(_, value)| value).peekable();
        values.peek().is_some() && values.all(|value| field.patterns.matches(value))
    }

    /// Reads an object, or an array of objects. The names of arguments are percent-decoded.
    pub(crate) fn read(node: &Node<'_>, subject: Subject) -> Result<FieldPatterns, Error> {
        if !node.value.is_object() && !node.value.is_array() {
            return Err(node.wrong_type("an object or an array of objects"));
        }
        let mut alternatives = Vec::new();
        for alternative in node.one_or_many() {
            let mut fields = Vec::new();
            for (name, patterns) in alternative.members()? {
                let decoded = match subject {
                    Subject::Argument => percent::decode_form(name.as_bytes()),
                    _ => Some(name.as_bytes().to_vec()),
                };
                let name = match decoded {
                    Some(name) if !name.is_empty() => name,
                    Some(_) => return Err(patterns.invalid("must have a name that is not empty")),
                    None => {
                        let message =
                            "must have two hexadecimal digits after each \"%\" of its name";
                        return Err(patterns.invalid(message));
                    }
                };
                fields.push(FieldPattern { name, patterns: Patterns::read(&patterns, subject)? });
            }
            alternatives.push(fields);
        }
        Ok(FieldPatterns { any_case: subject == Subject::Header, alternatives })
    }
}
