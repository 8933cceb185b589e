//! Patterns in the names of files.

use howdah_text::wildcard::{Rules, matches};

pub(super) fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?'])
}

/// Returns true for a file that a pattern names.
pub(super) fn is_named(pattern: &str, file: &str) -> bool {
    !file.starts_with('.') && matches(pattern.as_bytes(), file.as_bytes(), Rules::default())
}
