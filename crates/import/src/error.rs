use std::fmt;
use std::path::{Path, PathBuf};

/// A configuration that cannot be read, such as one with an open block or a missing include.
/// No document is written then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// The file as it was read.
    pub file: PathBuf,
    /// The line of the problem, from 1; none if the whole file is the problem.
    pub line: Option<u32>,
    /// What is wrong, and what to do.
    pub message: String,
}

impl Error {
    /// An error in a line of a file.
    pub fn at(file: &Path, line: u32, message: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line: Some(line), message: message.into() }
    }

    /// An error that concerns a whole file.
    pub fn file(file: &Path, message: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line: None, message: message.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for Error {}
