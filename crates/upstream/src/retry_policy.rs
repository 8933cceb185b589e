//! Decides whether another server may get a request, without I/O and clock.
//!
//! The usual rule repeats only requests that cannot take effect twice: the method is idempotent,
//! there is no body, and no byte of a response has arrived. `retry` of the configuration changes
//! it. A body that is still arriving is never sent twice.

use howdah_config::Retry;

use crate::failure::Failure;

/// The settings for one request.
#[derive(Debug, Clone, Copy)]
pub struct RetryPolicy<'r> {
    /// Settings of the upstream or the action.
    pub retry: &'r Retry,
    /// Without settings, another server is asked after a timeout.
    pub after_timeout: bool,
}

/// Body of a request, as far as it matters whether it can be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyKind {
    /// No body.
    Empty,
    /// A complete body.
    Stored,
    /// A body that is still arriving.
    Streamed,
}

impl RetryPolicy<'_> {
    /// Returns true if a request may be sent twice.
    pub fn may_repeat(&self, method: &[u8], body: BodyKind) -> bool {
        match &self.retry.methods {
            None => body == BodyKind::Empty && is_idempotent(method),
            Some(methods) => {
                let is_listed = methods.iter().any(|other| other.as_bytes() == method);
                is_listed && body != BodyKind::Streamed
            }
        }
    }

    /// Returns true if another server is asked after this failure of a server that has got the
    /// request.
    pub fn is_after(&self, failure: &Failure, has_input: bool) -> bool {
        let Some(on) = &self.retry.on else {
            let is_timeout = matches!(failure, Failure::HeadTimeout) && self.after_timeout;
            return !has_input && (failure.is_closed_connection() || is_timeout);
        };
        match failure {
            Failure::HeadTimeout | Failure::SendTimeout => on.timeout,
            Failure::Malformed(_) | Failure::UnexpectedUpgrade => on.invalid_response,
            failure if failure.is_closed_connection() && has_input => on.invalid_response,
            failure => failure.is_closed_connection() && on.error,
        }
    }
}

/// Returns true if a response with this status is a failure of its server, if the settings say that
/// another one is asked: not if the requested resource is missing or forbidden.
pub fn is_failure(status: u16) -> bool {
    status == 429 || status >= 500
}

/// Returns true if a second request with this method has no further effect (RFC 9110, 9.2.2).
fn is_idempotent(method: &[u8]) -> bool {
    matches!(method, b"GET" | b"HEAD" | b"OPTIONS" | b"TRACE" | b"PUT" | b"DELETE")
}

#[cfg(test)]
mod tests {
    use std::io;

    use howdah_config::RetryConditions;
    use proptest::prelude::*;

    use super::*;
    use crate::failure::Malformed;

    fn failures() -> Vec<Failure> {
        vec![
            Failure::ServerClosed,
            Failure::Read(io::ErrorKind::ConnectionReset.into()),
            Failure::Send(io::ErrorKind::BrokenPipe.into()),
            Failure::HeadTimeout,
            Failure::SendTimeout,
            Failure::Malformed(Malformed("x")),
            Failure::UnexpectedUpgrade,
            Failure::ClientGone,
        ]
    }

    /// Returns a letter for each failure after which another server is asked, in upper case after
    /// input.
    fn asked(retry: &Retry, after_timeout: bool) -> String {
        let policy = RetryPolicy { retry, after_timeout };
        let letters = "crsthmug".chars();
        letters
            .zip(failures())
            .flat_map(|(letter, failure)| {
                let before = policy.is_after(&failure, false).then_some(letter);
                let after = policy.is_after(&failure, true);
                before.into_iter().chain(after.then(|| letter.to_ascii_uppercase()))
            })
            .collect()
    }

    fn on(change: impl Fn(&mut RetryConditions)) -> Retry {
        let mut on = RetryConditions::default();
        change(&mut on);
        Retry { on: Some(on), ..Retry::default() }
    }

    #[test]
    fn each_condition_has_its_failures() {
        assert_eq!(asked(&Retry::default(), true), "crst");
        assert_eq!(asked(&Retry::default(), false), "crs");
        assert_eq!(asked(&on(|_| {}), true), "");
        assert_eq!(asked(&on(|on| on.error = true), true), "crs");
        assert_eq!(asked(&on(|on| on.timeout = true), false), "tThH");
        assert_eq!(asked(&on(|on| on.invalid_response = true), true), "CRSmMuU");
    }

    #[test]
    fn only_listed_methods_are_sent_twice_with_a_body() {
        let retry = Retry { methods: Some(vec!["POST".to_owned()]), ..Retry::default() };
        let policy = RetryPolicy { retry: &retry, after_timeout: true };
        assert!(policy.may_repeat(b"POST", BodyKind::Stored));
        assert!(policy.may_repeat(b"POST", BodyKind::Empty));
        assert!(!policy.may_repeat(b"POST", BodyKind::Streamed));
        assert!(!policy.may_repeat(b"GET", BodyKind::Empty));
        let usual = Retry::default();
        let policy = RetryPolicy { retry: &usual, after_timeout: true };
        assert!(policy.may_repeat(b"PUT", BodyKind::Empty));
        assert!(!policy.may_repeat(b"PUT", BodyKind::Stored));
        assert!(!policy.may_repeat(b"POST", BodyKind::Empty));
        assert!(!policy.may_repeat(b"get", BodyKind::Empty));
    }

    proptest! {
        /// For any method of a client, a request that is still arriving is sent once, and, without
        /// settings, a body is.
        #[test]
        fn no_method_makes_a_body_repeatable(
            method in proptest::collection::vec(any::<u8>(), 0..12),
        ) {
            let usual = Retry::default();
            let policy = RetryPolicy { retry: &usual, after_timeout: true };
            prop_assert!(!policy.may_repeat(&method, BodyKind::Stored));
            let all = Retry { methods: Some(vec![String::from_utf8_lossy(&method).into_owned()]),
                ..usual.clone() };
            let policy = RetryPolicy { retry: &all, after_timeout: true };
            prop_assert!(!policy.may_repeat(&method, BodyKind::Streamed));
        }
    }
}
