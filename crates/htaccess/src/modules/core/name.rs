//! Names of files, as `<Files>` and `<FilesMatch>` test them.

use crate::modules::pattern::Pattern;

/// Longest name that a wildcard is tried on.
const MAX_NAME_BYTES: usize = 4096;

/// A name, a name with wildcards, or a regular expression.
#[derive(Debug, Clone)]
pub enum NamePattern {
    /// The whole name.
    Exact(Vec<u8>),
    /// A name with `*`, `?` or `[…]`.
    Wildcard(Vec<u8>),
    /// A regular expression, which matches anywhere in the name.
    Regex(Pattern),
}

impl NamePattern {
    /// Reads the argument of `<Files>`, a relative path in its shortest form: `.` is the empty
    /// name, which requests for a directory with a slash at their end have.
    pub(crate) fn name(name: &[u8]) -> NamePattern {
        let mut name = name;
        while let Some(rest) = name.strip_prefix(b"./") {
            name = rest;
        }
        let name = if name == b"." { b"" } else { name };
        if has_wildcard(name) {
            NamePattern::Wildcard(name.to_vec())
        } else {
            NamePattern::Exact(name.to_vec())
        }
    }

    /// Reads the argument of `<FilesMatch>`.
    pub(crate) fn regex(pattern: &[u8]) -> Result<NamePattern, String> {
        Pattern::new(pattern, false).map(NamePattern::Regex)
    }

    /// Returns true if a name matches. A pattern that takes too long does not match, as in Apache.
    pub(crate) fn matches(&self, name: &[u8]) -> bool {
        match self {
            NamePattern::Exact(own) => own == name,
            NamePattern::Wildcard(pattern) => {
                name.len() <= MAX_NAME_BYTES && wildcard(pattern, name)
            }
            NamePattern::Regex(regex) => regex.is_match(name).unwrap_or(false),
        }
    }
}

impl NamePattern {
    /// Returns variables for the named groups of a name that matches: `MATCH_NAME` for
    /// `(?<name>…)`.
    pub(crate) fn variables(&self, name: &[u8]) -> Vec<(String, Vec<u8>)> {
        let NamePattern::Regex(regex) = self else { return Vec::new() };
        if regex.regex().names().next().is_none() {
            return Vec::new();
        }
        let Ok(Some(groups)) = regex.groups(name) else { return Vec::new() };
        let named = regex.regex().names().filter_map(|(number, group)| {
            let (start, end) = groups.get(number).copied().flatten()?;
            Some((format!("MATCH_{}", group.to_ascii_uppercase()), name.get(start..end)?.to_vec()))
        });
        named.collect()
    }
}

/// Returns true if a name has a wildcard that no backslash stands before.
fn has_wildcard(name: &[u8]) -> bool {
    let mut rest = name;
    let mut has_bracket = false;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'*' | b'?' => return true,
            b'\\' => rest = rest.get(1..).unwrap_or_default(),
            b'[' => has_bracket = true,
            b']' if has_bracket => return true,
            _ => {}
        }
    }
    false
}

/// Matches `*`, `?`, `[…]` and `\`. One star is tried at a time: the work is at most the product of
/// both lengths.
fn wildcard(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    loop {
        let step = match pattern.get(at) {
            Some(b'*') => {
                at += 1;
                star = Some((at, from));
                continue;
            }
            None if from == name.len() => return true,
            None => None,
            Some(_) => name.get(from).and_then(|&byte| single(&pattern[at..], byte)),
        };
        match (step, &mut star) {
            (Some(length), _) => {
                at += length;
                from += 1;
            }
            (None, Some((after, start))) if *start < name.len() => {
                *start += 1;
                (at, from) = (*after, *start);
            }
            _ => return false,
        }
    }
}

/// Matches one byte; returns the length of its part of the pattern.
fn single(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [b'?', ..] => (byte != b'/').then_some(1),
        [b'[', rest @ ..] => {
            let (is_negated, mut at) = match rest.first() {
                Some(b'!' | b'^') => (true, 1),
                _ => (false, 0),
            };
            let first = at;
            let mut is_in = false;
            loop {
                let mut low = *rest.get(at)?;
                if low == b']' && at > first {
                    break;
                }
                if low == b'\\' {
                    at += 1;
                    low = *rest.get(at)?;
                }
                at += 1;
                let mut high = low;
                if rest.get(at) == Some(&b'-') && rest.get(at + 1).is_some_and(|&end| end != b']') {
                    at += 1;
                    if rest[at] == b'\\' {
                        at += 1;
                    }
                    high = *rest.get(at)?;
                    at += 1;
                }
                is_in |= (low..=high).contains(&byte);
            }
            (is_in != is_negated && byte != b'/').then_some(at + 2)
        }
        [b'\\', escaped, ..] => (*escaped == byte).then_some(2),
        [own, ..] => (*own == byte).then_some(1),
        [] => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn is_match(pattern: &str, name: &str) -> bool {
        NamePattern::name(pattern.as_bytes()).matches(name.as_bytes())
    }

    #[test]
    fn wildcards_match_whole_names() {
        assert!(is_match("*.php", "a.php") && is_match("*", "") && is_match("a*b*c", "axxbbyc"));
        assert!(!is_match("*.php", "a.phpx") && !is_match("a?c", "ac"));
        assert!(is_match("[a-c]?[!x]", "bzy") && !is_match("[a-c]?[!x]", "bzx"));
        assert!(is_match("wp-config.php", "wp-config.php"));
        assert!(is_match("\\*", "\\*") && !is_match("\\*", "*"));
        assert!(is_match("\\*?", "*x") && !is_match("\\*?", "ax"));
    }

    proptest! {
        #[test]
        fn any_wildcard_ends(pattern in "[ab*?\\[\\]!\\\\-]{0,20}", name in "[ab]{0,40}") {
            wildcard(pattern.as_bytes(), name.as_bytes());
        }
    }
}
