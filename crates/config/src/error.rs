//! Errors of a document: the place, the problem and the allowed values.

use std::fmt;

/// An error in a document. `Display` is one line that names the place and the remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    path: String,
    position: Option<Position>,
    message: String,
    hint: Option<String>,
}

/// Reason why a document is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Not JSON, or a limit is exceeded; [`Error::position`] has the place.
    Syntax,
    /// An object has a member that is not known there.
    UnknownKey,
    /// An object lacks a required member.
    MissingKey,
    /// A value has a JSON type that its key does not accept.
    WrongType,
    /// A value has the right type but is not valid.
    InvalidValue,
    /// A `pass` or `scripts` refers to a part that the document does not define.
    UnknownTarget,
    /// A key that NGINX Unit has and Howdah does not support.
    Unavailable,
}

/// A place in the text of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Bytes before the place.
    pub offset: usize,
    /// Line, from 1.
    pub line: usize,
    /// Character in the line, from 1.
    pub column: usize,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, path: String, message: impl Into<String>) -> Error {
        Error { kind, path, position: None, message: message.into(), hint: None }
    }

    pub(crate) fn syntax(position: Position, message: &str) -> Error {
        Error {
            kind: ErrorKind::Syntax,
            path: String::new(),
            position: Some(position),
            message: message.to_owned(),
            hint: None,
        }
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Error {
        self.hint = Some(hint.into());
        self
    }

    /// Returns the reason why the document is refused.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the place in the document as a path of the control API: `/routes/0/action/share`. A
    /// `/`, `%` or control character inside a name is percent-encoded. Empty for the document
    /// itself and for syntax errors.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the place in the text; only syntax errors have one.
    pub fn position(&self) -> Option<Position> {
        self.position
    }

    /// Returns the message without the place and the hint.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the remedy, if the message does not contain it.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.position {
            Some(at) => write!(f, "line {}, column {}: ", at.line, at.column)?,
            None if self.path.is_empty() => f.write_str("the document: ")?,
            None => write!(f, "{}: ", self.path)?,
        }
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}
