//! Reads a message as `sendmail` does, and passes it to the mail process of the server.
//!
//! The program `howdah-sendmail` and `mail()` of PHP use it. Both run with the rights of the
//! application, and so does all that interprets a message: the mail process, which knows
//! passwords, gets an envelope and bytes.
//!
//! - [`arguments`]: the command line; [`words`]: one that a shell would split.
//! - [`message`]: the fields of a message: recipients, missing fields, fields to remove.
//! - [`address`]: lists of addresses, and addresses that are safe in a command of SMTP.
//! - [`lines`]: the text as SMTP carries it.
//! - [`date`]: dates in messages.
//! - [`conversation`]: SMTP on standard input (`-bs`).
//! - [`submit`]: the connection to the mail process.
//! - [`program`]: the program.

#![forbid(unsafe_code)]

pub mod address;
pub mod arguments;
pub mod conversation;
pub mod date;
mod frames;
pub mod lines;
pub mod message;
pub mod program;
pub mod submit;
pub mod words;

pub use frames::MAX_FRAME;

/// Maximum length of a message in bytes.
pub const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// Maximum number of recipients of a message.
pub const MAX_RECIPIENTS: usize = 1000;

/// Exit statuses of sysexits.h. `EX_TEMPFAIL` (75) is not among them: PHP takes it for success, as
/// a program with a queue uses it.
pub mod status {
    /// Wrong arguments.
    pub const USAGE: u8 = 64;
    /// The message is not usable.
    pub const DATA: u8 = 65;
    /// A recipient is refused.
    pub const NO_USER: u8 = 67;
    /// The mail server does not answer.
    pub const UNAVAILABLE: u8 = 69;
    /// Internal error.
    pub const SOFTWARE: u8 = 70;
    /// Error while the message was read.
    pub const IO: u8 = 74;
    /// The mail server has broken its protocol.
    pub const PROTOCOL: u8 = 76;
    /// The limit of the application, or its password, does not permit it.
    pub const NO_PERMISSION: u8 = 77;
}

/// Reason why a message was not sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Exit status, one of [`status`].
    pub status: u8,
    /// Reason, and remedy.
    pub reason: String,
}

impl Failure {
    /// Creates a failure.
    pub fn new(status: u8, reason: impl Into<String>) -> Failure {
        Failure { status, reason: reason.into() }
    }
}
