//! Failures of orders and accounts, classified by their remedy.

use std::time::Duration;

use instant_acme::{Error, Problem};

use super::client::Client;

/// Maximum number of times that a request is repeated after `badNonce`.
pub(super) const MAX_NONCE_RETRIES: u32 = 8;
/// Maximum length of an authority's message in the log, in characters.
const MAX_MESSAGE_CHARS: usize = 600;

/// The reason why there is no certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    /// One line for the log.
    pub message: String,
    pub kind: FailureKind,
    /// Pause that the authority asks for (`Retry-After`).
    pub retry_after: Option<Duration>,
}

/// Kinds of failures, by the remedy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FailureKind {
    /// A name was not proved; another type of challenge may work.
    Challenge,
    /// The authority does not know the account; a new account is needed.
    Account,
    /// The authority refuses to replace the named certificate; an order without it may work.
    Replacement,
    /// Any other failure.
    Other,
}

/// Awaits a call, and repeats it while the authority answers `badNonce` (RFC 8555, 6.5).
macro_rules! retry_bad_nonce {
    ($call:expr) => {{
        let mut retries = 0;
        loop {
            match $call.await {
                Err(instant_acme::Error::Api(problem))
                    if $crate::failure::is_bad_nonce(&problem)
                        && retries < $crate::failure::MAX_NONCE_RETRIES =>
                {
                    retries += 1
                }
                result => break result,
            }
        }
    }};
}
pub(super) use retry_bad_nonce;

impl Failure {
    /// Creates a failure that neither the account nor a challenge explains.
    pub fn other(message: String) -> Failure {
        Failure { message: sanitize(&message), kind: FailureKind::Other, retry_after: None }
    }

    /// Creates a failure that a new account remedies.
    pub fn account(message: String) -> Failure {
        Failure { kind: FailureKind::Account, ..Failure::other(message) }
    }

    /// Creates a failure that another type of challenge may remedy.
    pub fn challenge(message: String) -> Failure {
        Failure { kind: FailureKind::Challenge, ..Failure::other(message) }
    }

    /// Returns the failure for an error of the authority or of the connection to it.
    pub fn from_error(error: &Error, client: &Client) -> Failure {
        let retry_after = client.take_retry_after();
        let (message, urn) = match error {
            Error::Api(problem) => {
                (describe(problem), problem.r#type.as_deref().unwrap_or_default())
            }
            error => (error.to_string(), ""),
        };
        let kind = match urn.strip_prefix("urn:ietf:params:acme:error:") {
            Some("accountDoesNotExist") => FailureKind::Account,
            Some("caa" | "connection" | "dns" | "incorrectResponse" | "tls" | "unauthorized") => {
                FailureKind::Challenge
            }
            _ => FailureKind::Other,
        };
        Failure { message: sanitize(&message), kind, retry_after }
    }

    /// Returns the failure with this kind, unless the authority gave a more specific reason or a
    /// pause.
    pub fn or_kind(self, kind: FailureKind) -> Failure {
        match (self.kind, self.retry_after) {
            (FailureKind::Other, None) => Failure { kind, ..self },
            _ => self,
        }
    }
}

/// Returns true if the authority refused a request because of its nonce.
pub(super) fn is_bad_nonce(problem: &Problem) -> bool {
    problem.r#type.as_deref() == Some("urn:ietf:params:acme:error:badNonce")
}

/// Returns the text of a problem document (RFC 8555, 6.7).
pub(super) fn describe(problem: &Problem) -> String {
    let urn = problem.r#type.as_deref().unwrap_or_default();
    let kind = urn.rsplit(':').next().unwrap_or_default();
    match &problem.detail {
        Some(detail) => format!("{detail} ({kind})"),
        None => kind.to_owned(),
    }
}

/// Converts an authority's text into one short line without control characters.
pub(super) fn sanitize(text: &str) -> String {
    let printable = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut line: String = printable.take(MAX_MESSAGE_CHARS).collect();
    if text.chars().nth(MAX_MESSAGE_CHARS).is_some() {
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_authority_says_is_one_short_line() {
        let failure = Failure::other(format!("a\r\nb\u{1b}[31m{}", "x".repeat(10_000)));
        assert!(failure.message.starts_with("a  b [31mx") && failure.message.len() < 700);
    }
}
