//! Values by media type: one for all responses, or an object of types.

use std::collections::HashMap;

use crate::error::Error;
use crate::node::Node;

/// Values by media type. An exact type precedes `TYPE/*`, which precedes `*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ByType<T> {
    types: HashMap<String, T>,
    default: Option<T>,
}

impl<T> ByType<T> {
    /// Returns the value for a `Content-Type`, whose parameters are ignored. An empty one has the
    /// value of `*`.
    pub fn get(&self, content_type: &[u8]) -> Option<&T> {
        if self.types.is_empty() || content_type.is_empty() {
            return self.default.as_ref();
        }
        let essence = content_type.split(|byte| *byte == b';').next().unwrap_or_default();
        let essence = String::from_utf8_lossy(essence.trim_ascii()).to_ascii_lowercase();
        let of_main = || {
            let (main, _) = essence.split_once('/')?;
            self.types.get(&format!("{main}/*"))
        };
        self.types.get(&essence).or_else(of_main).or(self.default.as_ref())
    }

    /// Reads one value for all types, or an object of values by type.
    pub(crate) fn read(
        node: &Node<'_>,
        read: impl Fn(&Node<'_>) -> Result<T, Error>,
    ) -> Result<ByType<T>, Error> {
        if !node.value.is_object() {
            return Ok(ByType { types: HashMap::new(), default: Some(read(node)?) });
        }
        let mut all = ByType { types: HashMap::new(), default: None };
        for (name, value) in node.members()? {
            let own = read(&value)?;
            let name = name.to_ascii_lowercase();
            if name == "*" {
                all.default = Some(own);
            } else if !is_type(&name) {
                let error = value.invalid("is no media type");
                return Err(error.with_hint("write \"text/css\", \"image/*\" or \"*\""));
            } else if all.types.insert(name, own).is_some() {
                return Err(value.invalid("is a type that the object has in other case already"));
            }
        }
        Ok(all)
    }
}

/// Returns true for `TYPE/SUBTYPE` and `TYPE/*`.
fn is_type(name: &str) -> bool {
    let is_token = |text: &str| howdah_text::token::is_token(text) && !text.contains('*');
    name.split_once('/').is_some_and(|(main, sub)| is_token(main) && (sub == "*" || is_token(sub)))
}
