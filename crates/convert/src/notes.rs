//! What a conversion says about directives.

use std::fmt;

/// What became of a directive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It has no equivalent and was left out.
    LeftOut,
    /// It has no equivalent and protects something: all that it may deny is refused.
    Refused,
    /// It was converted, with a difference that opens nothing.
    Remark,
}

/// A remark on a directive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Path of the file.
    pub file: String,
    /// Number of the line, from 1; 0 for the file itself.
    pub line: u32,
    /// Directive with its arguments.
    pub directive: String,
    /// What became of it.
    pub kind: Kind,
    /// Reason.
    pub reason: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.file)?;
        if self.line > 0 {
            write!(f, "line {}: {}: ", self.line, self.directive)?;
        }
        let kind = match self.kind {
            Kind::LeftOut => "not converted",
            Kind::Refused => "not converted, what it may deny is refused",
            Kind::Remark => "note",
        };
        write!(f, "{kind}: {}", self.reason)
    }
}
