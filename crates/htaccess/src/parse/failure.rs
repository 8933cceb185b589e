//! Errors in a file.

/// An error in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    pub line: u32,
    pub text: String,
}

impl Failure {
    pub fn new(line: u32, text: impl Into<String>) -> Failure {
        Failure { line, text: text.into() }
    }
}
