//! The context of an evaluation of an expression, and its limits.

use std::fmt;

use crate::regex::{Captures, Overrun};

/// Maximum length of an expression, in bytes.
pub const MAX_EXPRESSION_BYTES: usize = 16_384;

/// Maximum length of a text that an expression makes, in bytes.
pub const MAX_TEXT_BYTES: usize = 1 << 20;

/// The results of an evaluation beside its value.
#[derive(Debug, Clone, Default)]
pub struct Context {
    /// Subject and captures of the last match of a pattern with groups.
    pub groups: Groups,
    /// Names of the request's header fields that a condition depends on, for the response's `Vary`.
    pub vary: Vec<u8>,
}

/// The captures that `$0` to `$9` refer to.
#[derive(Debug, Clone)]
pub struct Groups {
    /// Text that was matched.
    pub subject: Vec<u8>,
    /// Offsets in the text.
    pub captures: Captures,
}

impl Default for Groups {
    fn default() -> Groups {
        Groups { subject: Vec::new(), captures: Captures::NONE }
    }
}

/// An evaluation that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// A pattern took too much work: the request is answered with 500.
    Overrun,
    /// Any other reason, as Apache logs it.
    Other(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Overrun => Overrun.fmt(formatter),
            Failure::Other(reason) => formatter.write_str(reason),
        }
    }
}

impl std::error::Error for Failure {}

impl From<Overrun> for Failure {
    fn from(_: Overrun) -> Failure {
        Failure::Overrun
    }
}
