//! Substitutions: matches of a regular expression in a text are replaced by a template, which may
//! name the expression's groups.

use std::fmt;

use crate::captures::Captures;
use crate::groups::Groups;
use crate::pattern::{Pattern, PatternError, Subject};
use crate::template::{DefinedVariables, Template, TemplateError, Variable};

/// A regular expression and what its matches are replaced by.
#[derive(Debug, Clone)]
pub struct Substitution {
    text: String,
    pattern: Pattern,
    replacement: Template,
}

/// Reason why an expression and a template are no substitution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubstitutionError {
    /// The text does not begin with `~`.
    NoExpression,
    /// The text is no regular expression.
    Pattern(PatternError),
    /// The replacement is no template.
    Template(TemplateError),
}

impl Substitution {
    /// Reads an expression, which begins with `~`, and its replacement with `$1` to `$9`, groups by
    /// name, and other variables.
    pub fn parse(
        expression: &str,
        replacement: &str,
        variables: &DefinedVariables,
    ) -> Result<Substitution, SubstitutionError> {
        if !expression.starts_with('~') {
            return Err(SubstitutionError::NoExpression);
        }
        let pattern =
            Pattern::parse(expression, Subject::Cookie).map_err(SubstitutionError::Pattern)?;
        let groups = Groups::of_map(Some(&pattern));
        let replacement = Template::parse_in(replacement, &groups, variables)
            .map_err(SubstitutionError::Template)?;
        Ok(Substitution { text: expression.to_owned(), pattern, replacement })
    }

    /// Returns the replacement.
    pub fn replacement(&self) -> &Template {
        &self.replacement
    }

    /// Returns the replacement alone for a text that the expression matches, as nginx's
    /// `proxy_redirect` does. `value` appends the value of a variable. `None` if it does not match,
    /// or the result is over [`MAX_RESULT_BYTES`].
    pub fn value(&self, text: &[u8], value: &dyn Fn(&Variable, &mut Vec<u8>)) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        if self.pattern.matches(text) {
            self.expand(text, &mut out, value);
            return (out.len() <= MAX_RESULT_BYTES).then_some(out);
        }
        None
    }

    /// Appends the replacement of the first match in a text.
    fn expand(&self, text: &[u8], out: &mut Vec<u8>, value: &dyn Fn(&Variable, &mut Vec<u8>)) {
        let captures = Captures::of_text(&self.pattern, text);
        self.replacement.expand(out, |variable, out| match variable {
            Variable::Capture(group) => {
                out.extend_from_slice(captures.get(group).unwrap_or_default());
            }
            other => value(other, out),
        });
    }

    /// Returns the text with its first match replaced, or all matches, each searched for in the
    /// rest behind the former, as Apache's `Header edit*` does. `value` appends the value of a
    /// variable. `None` if nothing matches, or the result is over [`MAX_RESULT_BYTES`].
    pub fn apply(
        &self,
        text: &[u8],
        all: bool,
        value: &dyn Fn(&Variable, &mut Vec<u8>),
    ) -> Option<Vec<u8>> {
        let regex = self.pattern.regex()?;
        let (mut out, mut rest) = (Vec::new(), text);
        for count in 0..MAX_MATCHES {
            let Some(found) = regex.find(rest) else {
                if count == 0 {
                    return None;
                }
                break;
            };
            let (start, end) = (found.start(), found.end());
            out.extend_from_slice(rest.get(..start).unwrap_or_default());
            self.expand(rest, &mut out, value);
            rest = rest.get(end..).unwrap_or_default();
            if out.len() + rest.len() > MAX_RESULT_BYTES {
                return None;
            }
            if !all || rest.is_empty() {
                break;
            }
            // An empty match consumes a byte, so that the search continues.
            if start == end {
                let (byte, after) = rest.split_at(1);
                out.extend_from_slice(byte);
                rest = after;
                if rest.is_empty() {
                    break;
                }
            }
        }
        out.extend_from_slice(rest);
        Some(out)
    }
}

impl PartialEq for Substitution {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text && self.replacement == other.replacement
    }
}

impl Eq for Substitution {}

impl fmt::Display for SubstitutionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SubstitutionError::NoExpression => {
                f.write_str("must be a regular expression after \"~\", such as \"~^(.*)$\"")
            }
            SubstitutionError::Pattern(error) => error.fmt(f),
            SubstitutionError::Template(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SubstitutionError {}

/// Maximum size of a result in bytes.
pub const MAX_RESULT_BYTES: usize = 64 * 1024;

/// Maximum number of matches in a text that are replaced: each may search the whole rest.
const MAX_MATCHES: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    fn replaced(expression: &str, replacement: &str, text: &str, all: bool) -> Option<String> {
        let variables = DefinedVariables::default();
        let substitution = Substitution::parse(expression, replacement, &variables).unwrap();
        let value = |variable: &Variable, out: &mut Vec<u8>| {
            out.extend_from_slice(variable.constant_name().unwrap_or("?").as_bytes());
        };
        let found = substitution.apply(text.as_bytes(), all, &value)?;
        Some(String::from_utf8(found).unwrap())
    }

    #[test]
    fn matches_are_replaced_by_groups_and_variables() {
        for (expression, replacement, text, first, all) in [
            ("~^(.*)$", "$1; Secure", "a=1", "a=1; Secure", "a=1; Secure"),
            ("~a", "b", "aaa", "baa", "bbb"),
            (
                "~(?i)HTTP://([^/]+)",
                "$scheme://$1.x",
                "http://a/",
                "scheme://a.x/",
                "scheme://a.x/",
            ),
            ("~(?P<one>.)(.)", "$2$one", "abcde", "bacde", "badce"),
            ("~x*", "-", "axb", "-axb", "-a--b"),
            // Each search begins anew.
            ("~^a", "", "aab", "ab", "b"),
            ("~a(b)?", "[$1]", "aab", "[]ab", "[][b]"),
        ] {
            let (one, every) =
                [false, true].map(|all| replaced(expression, replacement, text, all)).into();
            assert_eq!(one.as_deref(), Some(first), "{expression}");
            assert_eq!(every.as_deref(), Some(all), "{expression}");
        }
        assert_eq!(replaced("~b", "", "aaa", true), None);
        let variables = DefinedVariables::default();
        let whole = Substitution::parse("~^http://([^/]+)", "/$1", &variables).unwrap();
        assert_eq!(whole.value(b"http://a/b", &|_, _| {}), Some(b"/a".to_vec()));
        assert_eq!(whole.value(b"https://a/b", &|_, _| {}), None);
    }

    #[test]
    fn a_result_is_bounded_in_size_and_in_matches() {
        let long = "a".repeat(20_000);
        let doubled = replaced("~a", "bb", &long, true).unwrap();
        assert_eq!(doubled.len(), 20_000 + MAX_MATCHES);
        assert_eq!(replaced("~(a+)", "$1$1$1$1", &long, false), None);
    }

    #[test]
    fn only_expressions_with_known_groups_are_taken() {
        let refused = |expression: &str, replacement: &str| {
            let variables = DefinedVariables::default();
            Substitution::parse(expression, replacement, &variables).unwrap_err().to_string()
        };
        assert!(refused("abc", "").contains("regular expression after"));
        assert!(refused("!~abc", "").contains("regular expression after"));
        assert!(refused("~*abc", "").contains("(?i)abc"));
        assert!(refused("~(", "").contains("no usable regular expression"));
        assert!(refused("~a", "$1").contains("$1"));
        assert!(refused("~(a)", "$nothing").contains("nothing"));
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic_or_leaves_the_bounds(
            expression in "~[ab*+?|()^$.]{0,8}", replacement in "[ab$1-3{}]{0,6}",
            text in proptest::collection::vec(0u8..=255, 0..60),
        ) {
            let variables = DefinedVariables::default();
            if let Ok(found) = Substitution::parse(&expression, &replacement, &variables) {
                for all in [false, true] {
                    let edited = found.apply(&text, all, &|_, _| {});
                    proptest::prop_assert_eq!(edited.is_some(), found.pattern.matches(&text));
                    let longest = text.len() + (text.len() + 1) * 3 * (text.len() + 6);
                    proptest::prop_assert!(edited.unwrap_or_default().len() <= longest);
                }
            }
        }
    }
}
