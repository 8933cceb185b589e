//! Errors of a document: the place, the problem and the allowed values.

use std::fmt;

use crate::place::split_path;

/// An error in a document. `Display` is one line that names the place and the remedy;
/// [`Error::lines`] shows further mistakes of the document as well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    path: Box<str>,
    position: Option<Position>,
    message: Box<str>,
    hint: Option<Box<str>>,
    /// The key that was meant or is missing.
    key: Option<&'static str>,
    /// The mistake behind it has been kept.
    is_follow_on: bool,
    more: Option<Box<More>>,
}

/// The parts that few errors have. Behind a pointer, so that results with errors stay small.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct More {
    /// Further mistakes of the document.
    others: Vec<Error>,
    unknown: Option<Unknown>,
}

/// Names of a document that Howdah does not know. They may be those of another server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unknown {
    /// A key of an object.
    Key {
        /// The key.
        name: String,
        /// The keys that the object could have.
        known: Vec<&'static str>,
        /// The one of them that is probably meant.
        nearest: Option<&'static str>,
    },
    /// The keys of an action or listener, some of which may be known, that has none of those it
    /// needs.
    InsteadOf {
        /// The keys, in the document's order.
        names: Vec<String>,
        /// The keys of which one is needed.
        missing: Vec<&'static str>,
    },
    /// A variable, without `$`.
    Variable(String),
}

/// Reason why a document is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

/// Number of mistakes at which the reading ends: each may cost a look at all names of the document.
const MAX_MISTAKES: usize = 100;

/// Length of all errors at which the reading ends, in bytes: they go through messages and the log.
pub(crate) const MAX_BYTES: usize = 16 << 10;

/// Maximum number of mistakes that are shown.
const MAX_SHOWN: usize = 20;

impl Error {
    pub(crate) fn new(kind: ErrorKind, path: String, message: impl Into<String>) -> Error {
        let message = Into::<String>::into(message).into_boxed_str();
        let path = path.into_boxed_str();
        Error {
            kind,
            path,
            position: None,
            message,
            hint: None,
            key: None,
            is_follow_on: false,
            more: None,
        }
    }

    pub(crate) fn syntax(position: Position, message: &str) -> Error {
        Error {
            kind: ErrorKind::Syntax,
            path: Box::default(),
            position: Some(position),
            message: message.into(),
            hint: None,
            key: None,
            is_follow_on: false,
            more: None,
        }
    }

    /// Returns the first of several errors, which has the others. `None` if there is none.
    pub(crate) fn of_all(errors: Vec<Error>) -> Option<Error> {
        let mut errors = errors.into_iter();
        let mut first = errors.next()?;
        let others: Vec<_> = errors.collect();
        if !others.is_empty() {
            first.more.get_or_insert_default().others = others;
        }
        Some(first)
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Error {
        self.hint = Some(hint.into().into_boxed_str());
        self
    }

    /// Adds the unknown names that the error is about, for [`Error::with_hints`].
    pub(crate) fn about(mut self, unknown: Unknown) -> Error {
        self.more.get_or_insert_default().unknown = Some(unknown);
        self
    }

    /// Replaces the hints of errors about unknown names by those that `hint` returns, also in
    /// [`Error::others`].
    pub fn with_hints(mut self, hint: &dyn Fn(&Unknown) -> Option<String>) -> Error {
        if let Some(More { others, unknown }) = self.more.as_deref_mut() {
            let explained = others.drain(..).map(|other| other.with_hints(hint)).collect();
            *others = explained;
            if let Some(hint) = unknown.as_ref().and_then(hint) {
                return self.with_hint(hint);
            }
        }
        self
    }

    /// Adds the known key that is nearest to an unknown one, or the key that is missing.
    pub(crate) fn with_key(self, key: Option<&'static str>) -> Error {
        Error { key, ..self }
    }

    /// Returns the error as one that only follows from another one, which has been kept.
    pub(crate) fn follow_on(self) -> Error {
        Error { is_follow_on: true, ..self }
    }

    /// Returns true if it only follows from another error, which has been kept.
    pub(crate) fn is_follow_on(&self) -> bool {
        self.is_follow_on
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

    /// Returns the place in the document as a JSON pointer (RFC 6901): of the object that has an
    /// unknown key, of the value that is not valid, or of the member that is missing. `None` for
    /// syntax errors.
    pub fn pointer(&self) -> Option<String> {
        if self.kind == ErrorKind::Syntax {
            return None;
        }
        let missing = self.key.filter(|_| self.kind == ErrorKind::MissingKey);
        let mut steps = split_path(&self.path);
        steps.extend(missing.map(str::to_owned));
        Some(
            steps
                .iter()
                .map(|step| format!("/{}", step.replace('~', "~0").replace('/', "~1")))
                .collect(),
        )
    }

    /// Returns the unknown names that the error is about.
    pub fn unknown(&self) -> Option<&Unknown> {
        self.more.as_ref()?.unknown.as_ref()
    }

    /// Returns the known key that is nearest to an unknown one, if it is near.
    pub fn suggestion(&self) -> Option<&'static str> {
        self.key.filter(|_| self.kind == ErrorKind::UnknownKey)
    }

    /// Returns the place in the text; only syntax errors have one.
    pub fn position(&self) -> Option<Position> {
        self.position
    }

    /// Returns the message without the place and the hint.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the message and the hint, without the place.
    pub(crate) fn text(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{}; {hint}", self.message),
            None => self.message.to_string(),
        }
    }

    /// Returns further mistakes of the document, in the order in which they were found. If there
    /// are too many, some are missing.
    pub fn others(&self) -> &[Error] {
        self.more.as_ref().map_or(&[], |more| &more.others)
    }

    /// Returns all mistakes as lines, at most about twenty; `show` returns the line of one.
    pub fn lines(&self, show: impl Fn(&Error) -> String) -> String {
        let all: Vec<_> = [self].into_iter().chain(self.others()).collect();
        lines(&all, |error| show(error))
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

/// Returns errors as lines: the first twenty, and the number of others.
pub(crate) fn lines<E: fmt::Display>(errors: &[E], show: impl Fn(&E) -> String) -> String {
    let mut lines: Vec<_> = errors.iter().take(MAX_SHOWN).map(show).collect();
    let others = errors.len().saturating_sub(MAX_SHOWN);
    if others > 0 {
        let least = if is_too_much(errors.iter()) { "at least " } else { "" };
        lines.push(format!("and {least}{others} more"));
    }
    lines.join("\n")
}

/// Returns true for so many errors that the reading ends.
pub(crate) fn is_too_much<'e, E: fmt::Display + 'e>(errors: impl Iterator<Item = &'e E>) -> bool {
    let (mut number, mut bytes) = (0, 0);
    for error in errors {
        (number, bytes) = (number + 1, bytes + error.to_string().len());
    }
    number >= MAX_MISTAKES || bytes > MAX_BYTES
}
