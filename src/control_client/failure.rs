//! Failures of the commands.

/// Reason why a command failed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// An error here, or a refusal of the server.
    Failed(String),
    /// No server answers.
    Unreachable(String),
}
