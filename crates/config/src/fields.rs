//! Conditions on named values: `headers`, `cookies` and `arguments` of a `match`.

use howdah_template::php_name::{is_known_as, php_name};
use howdah_template::{Patterns, Subject};
use howdah_text::percent;

use crate::error::Error;
use crate::node::Node;
use crate::patterns;

/// Alternatives, of which one must hold. An alternative holds if each of its names does. A name
/// holds if it occurs, and its patterns accept the value of every occurrence. Without alternatives,
/// the condition always holds.
#[derive(Debug, Clone)]
pub struct FieldPatterns {
    names: Names,
    takes_bare: bool,
    alternatives: Vec<Vec<FieldPattern>>,
}

/// Names of cookies in conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CookieNames {
    /// As written, and as PHP reads them.
    Exact,
    /// As PHP reads them; `*` stands for any bytes.
    Php,
}

/// Comparison of names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Names {
    Exact,
    AnyCase,
    Php,
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

    /// Returns true if text without `=` in a `Cookie` field is the name of a cookie without a
    /// value.
    pub fn takes_bare(&self) -> bool {
        self.takes_bare
    }

    fn holds<'r>(
        &self,
        field: &FieldPattern,
        fields: impl Iterator<Item = (&'r [u8], &'r [u8])>,
    ) -> bool {
        let is_named = |name: &[u8]| match self.names {
            Names::AnyCase => name.eq_ignore_ascii_case(&field.name),
            Names::Exact => is_known_as(name, &field.name),
            Names::Php => {
                is_php_name(&field.name, name) || is_php_name(&field.name, &php_name(name))
            }
        };
        let mut values =
            fields.filter(|(name, _)| is_named(name)).map(|(_, value)| value).peekable();
        values.peek().is_some() && values.all(|value| field.patterns.matches(value))
    }

    /// Reads an object, or an array of objects. The names of arguments are percent-decoded.
    pub(crate) fn read(node: &Node<'_>, subject: Subject) -> Result<FieldPatterns, Error> {
        let names = match subject {
            Subject::Header => Names::AnyCase,
            _ => Names::Exact,
        };
        FieldPatterns::read_with(node, subject, names)
    }

    /// Reads conditions on cookies.
    pub(crate) fn read_cookies(
        node: &Node<'_>,
        names: CookieNames,
    ) -> Result<FieldPatterns, Error> {
        let names = match names {
            CookieNames::Exact => Names::Exact,
            CookieNames::Php => Names::Php,
        };
        FieldPatterns::read_with(node, Subject::Cookie, names)
    }

    fn read_with(node: &Node<'_>, subject: Subject, names: Names) -> Result<FieldPatterns, Error> {
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
                fields.push(FieldPattern { name, patterns: patterns::read(&patterns, subject)? });
            }
            alternatives.push(fields);
        }
        let takes_bare = node.scope.defaults.takes_bare_cookies;
        Ok(FieldPatterns { names, takes_bare, alternatives })
    }
}

/// Returns true if PHP reads a cookie of this name as one that the pattern stands for. PHP replaces
/// bytes that no variable has by `_`, so that a client can name a cookie in several ways.
fn is_php_name(pattern: &[u8], name: &[u8]) -> bool {
    let byte_matches = |wanted: u8, byte: u8| {
        wanted == byte || (wanted == b'_' && matches!(byte, b' ' | b'.' | b'[' | b'+'))
    };
    let starts = |text: &[u8], with: &[u8]| {
        text.len() >= with.len() && with.iter().zip(text).all(|(w, b)| byte_matches(*w, *b))
    };
    let mut pieces = pattern.split(|byte| *byte == b'*');
    let first = pieces.next().unwrap_or_default();
    if !starts(name, first) {
        return false;
    }
    let mut rest = name.get(first.len()..).unwrap_or_default();
    let mut pieces = pieces.peekable();
    if pieces.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(piece) = pieces.next() {
        let from = match pieces.peek() {
            // The last piece must be at the end.
            None => rest.len().checked_sub(piece.len()),
            Some(_) => {
                (0..=rest.len()).find(|at| starts(rest.get(*at..).unwrap_or_default(), piece))
            }
        };
        match from.and_then(|from| rest.get(from..)).filter(|found| starts(found, piece)) {
            Some(found) => rest = found.get(piece.len()..).unwrap_or_default(),
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(pattern: &str, name: &str) -> bool {
        is_php_name(pattern.as_bytes(), name.as_bytes())
    }

    #[test]
    fn a_star_in_the_name_of_a_cookie_stands_for_any_bytes() {
        assert!(found("wordpress_logged_in_*", "wordpress_logged_in_5f4d"));
        assert!(found("wordpress_logged_in_*", "wordpress_logged_in_"));
        assert!(!found("wordpress_logged_in_*", "wordpress_logged_in"));
        assert!(found("*UserID", "wikidbUserID") && !found("*UserID", "wikidbUserIDs"));
        assert!(found("a*b*c", "a-b-b-c") && !found("a*b*c", "a-c-b"));
        assert!(found("SESS*", "SESS1") && !found("SESS*", "sess1"));
        assert!(found("*", "") && !found("", "a"));
    }

    /// PHP turns the dot into an underscore, so that a script sees the cookie of a user.
    #[test]
    fn a_cookie_that_php_reads_under_another_name_is_recognised() {
        for name in ["wordpress.logged.in.a", "wordpress logged in a", "wordpress[logged_in_a"] {
            assert!(found("wordpress_logged_in_*", name), "{name}");
        }
    }

    proptest! {
        #[test]
        fn names_match_themselves_and_no_other(name in "[a-z_.]{0,12}", other in "[a-z]{1,12}") {
            let (longer, star) = (format!("{name}{other}"), format!("{name}*"));
            prop_assert!(found(&name, &name) && found(&star, &longer));
            prop_assert!(!found(&name, &longer));
        }
    }
}
