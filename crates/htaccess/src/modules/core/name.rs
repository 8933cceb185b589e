//! Names of files, as `<Files>` and `<FilesMatch>` test them.

use howdah_text::wildcard::{self, Rules};

use crate::modules::pattern::Pattern;

/// Longest name that a wildcard is tried on.
const MAX_NAME_BYTES: usize = 4096;

/// Rules of [`wildcard`] for names of files.
const RULES: Rules =
    Rules { has_classes: true, has_escapes: true, is_path: true, ignores_case: false };

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
        if wildcard::is_pattern(name) {
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
                name.len() <= MAX_NAME_BYTES && wildcard::matches(pattern, name, RULES)
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

#[cfg(test)]
mod tests {
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
}
