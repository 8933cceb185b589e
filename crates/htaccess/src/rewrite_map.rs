//! Maps of mod_rewrite (`RewriteMap`): values by key that rules look up with `${NAME:KEY|DEFAULT}`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use howdah_text::hex;

use crate::uri;

/// A map of the server's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RewriteMap {
    /// A function of Apache (`int:`).
    Function(Function),
    /// Values by key; of several for one key, requests get them in turns (`txt:`, `rnd:`).
    Values(BTreeMap<Vec<u8>, Vec<Vec<u8>>>),
}

/// A function that Apache has for maps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Function {
    /// The key with escaped characters of a path.
    Escape,
    /// The key in lower case.
    ToLower,
    /// The key in upper case.
    ToUpper,
    /// The key without escapes.
    Unescape,
}

impl Function {
    /// Returns the function of a name: `tolower`, `toupper`, `escape` or `unescape`.
    pub fn of_name(name: &str) -> Option<Function> {
        Some(match name {
            "escape" => Function::Escape,
            "tolower" => Function::ToLower,
            "toupper" => Function::ToUpper,
            "unescape" => Function::Unescape,
            _ => return None,
        })
    }

    fn value(self, key: &[u8]) -> Vec<u8> {
        match self {
            Function::Escape => uri::escaped(key),
            Function::ToLower => key.to_ascii_lowercase(),
            Function::ToUpper => key.to_ascii_uppercase(),
            Function::Unescape => unescaped(key),
        }
    }
}

impl RewriteMap {
    /// Returns the value of a key; `None` if the map does not have it.
    pub(crate) fn value(&self, key: &[u8]) -> Option<Vec<u8>> {
        /// Numbers all choices of the process.
        static TURN: AtomicUsize = AtomicUsize::new(0);
        match self {
            RewriteMap::Function(function) => Some(function.value(key)),
            RewriteMap::Values(values) => match values.get(key)?.as_slice() {
                [] => None,
                [value] => Some(value.clone()),
                all => all.get(TURN.fetch_add(1, Ordering::Relaxed) % all.len()).cloned(),
            },
        }
    }
}

/// Returns a text with its escapes decoded; those that are none stay.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [byte, tail @ ..] = rest {
        let escape = match (byte, tail) {
            (b'%', [high, low, tail @ ..]) => {
                hex::digit(*high).zip(hex::digit(*low)).map(|(high, low)| (high << 4 | low, tail))
            }
            _ => None,
        };
        let (byte, tail) = escape.unwrap_or((*byte, tail));
        decoded.push(byte);
        rest = tail;
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_and_values_are_looked_up() {
        let of = |name: &str, key: &str| {
            let value =
                RewriteMap::Function(Function::of_name(name).unwrap()).value(key.as_bytes());
            String::from_utf8(value.unwrap()).unwrap()
        };
        assert_eq!(of("tolower", "/Ab%41"), "/ab%41");
        assert_eq!(of("toupper", "/Ab%41"), "/AB%41");
        assert_eq!(of("unescape", "a%20b%4"), "a b%4");
        assert_eq!(of("escape", "/a b?"), "/a%20b%3f");
        assert_eq!(Function::of_name("rot13"), None);
        let map = RewriteMap::Values(BTreeMap::from([
            (b"a".to_vec(), vec![b"1".to_vec()]),
            (b"b".to_vec(), vec![b"2".to_vec(), b"3".to_vec()]),
        ]));
        assert_eq!(map.value(b"a"), Some(b"1".to_vec()));
        assert_eq!(map.value(b"c"), None);
        let turns: Vec<_> = (0..20).filter_map(|_| map.value(b"b")).collect();
        assert!(turns.contains(&b"2".to_vec()) && turns.contains(&b"3".to_vec()), "{turns:?}");
    }
}
