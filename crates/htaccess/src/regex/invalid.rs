//! Patterns that cannot be compiled.

use std::fmt;

/// Maximum length of a pattern, in bytes. A line of Apache's configuration has at most 8192.
pub const MAX_PATTERN_BYTES: usize = 8192;

/// A pattern that cannot be compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidPattern {
    /// PCRE2's text.
    pub reason: String,
}

impl InvalidPattern {
    /// A limit that the file exceeds with it.
    pub(super) fn of_limit(limit: &str) -> InvalidPattern {
        InvalidPattern { reason: limit.to_owned() }
    }
}

impl fmt::Display for InvalidPattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.reason)
    }
}

impl std::error::Error for InvalidPattern {}
