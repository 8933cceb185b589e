//! Failures of the commands.

/// Reason why a command failed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// An error here, or a refusal of the server.
    Failed(String),
    /// The command has done its work, and parts of the configuration are out or will be soon: the
    /// exit status.
    PartsOut(u8),
    /// No server answers.
    Unreachable(String),
}
