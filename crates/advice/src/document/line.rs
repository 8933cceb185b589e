//! One line of advice.

use howdah_config::Shown;

/// A line of advice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    /// The place in the document, as [`howdah_config::Error::path`] gives it.
    pub path: String,
    /// The problem and the remedy.
    pub message: String,
    /// True if it may be intended.
    pub is_note: bool,
}

/// Adds a line.
pub(super) fn add(all: &mut Vec<Advice>, path: String, message: impl Into<String>) {
    all.push(Advice { path, message: message.into(), is_note: false });
}

/// Adds a line about a setting that may be intended.
pub(super) fn note(all: &mut Vec<Advice>, path: String, message: impl Into<String>) {
    all.push(Advice { path, message: message.into(), is_note: true });
}

/// Creates the line about the file name `text`, which is not absolute.
pub(super) fn relative(path: String, text: &str) -> Advice {
    let message = format!(
        "\"{}\" does not begin with a slash, so it depends on the directory in which the server is \
         started; write it in full",
        Shown(text)
    );
    Advice { path, message, is_note: false }
}
