//! `Cache-Status` (RFC 9211): how the cache has handled a request.

use std::fmt;

use crate::storing::Refusal;

/// Reason why a request was sent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forward {
    /// The configuration excludes the request.
    Bypass,
    /// The method is not answered from a cache.
    Method,
    /// No response is stored.
    UriMiss,
    /// Responses are stored, but for other values of the request fields that `Vary` names.
    VaryMiss,
    /// The stored response is stale.
    Stale,
    /// The request demands a validated response.
    Request,
    /// The request is for a part of a response that is not stored.
    Partial,
}

/// Reason why a stale response is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StaleUse {
    /// The origin failed.
    IfError,
    /// The client accepts it.
    MaxStale,
    /// This request starts its refresh.
    Refreshing,
    /// Another request refreshes it.
    Updating,
}

impl StaleUse {
    /// Returns the name of the directive that allows the use.
    pub fn name(self) -> &'static str {
        match self {
            StaleUse::IfError => "stale-if-error",
            StaleUse::MaxStale => "max-stale",
            StaleUse::Refreshing | StaleUse::Updating => "stale-while-revalidate",
        }
    }
}

/// The handling of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Answered from the cache; seconds until the response is stale, negative if it is.
    Hit {
        /// Remaining lifetime in seconds.
        ttl: i64,
        /// The response was made for another request that came at the same time.
        collapsed: bool,
        /// Reason, if the response is stale.
        detail: Option<StaleUse>,
    },
    /// Sent on.
    Forwarded {
        /// The reason.
        reason: Forward,
        /// Status of the answer, if it differs from that of the response: 304 after a validation.
        status: Option<u16>,
        /// The response is stored, or why not.
        stored: Option<Result<(), Refusal>>,
    },
    /// The request allows no forwarding (`only-if-cached`).
    NotForwarded,
}

impl Outcome {
    /// Returns the word of nginx's `$upstream_cache_status`; `None` where the cache had no part in
    /// the request.
    pub fn word(self) -> Option<&'static str> {
        Some(match self {
            Outcome::Hit { detail: None, .. } => "HIT",
            Outcome::Hit { detail: Some(StaleUse::Updating), .. } => "UPDATING",
            Outcome::Hit { detail: Some(_), .. } => "STALE",
            Outcome::Forwarded { status: Some(304), .. } => "REVALIDATED",
            Outcome::Forwarded { reason, .. } => match reason {
                Forward::Method => return None,
                // The stored response is fresh, and the client wants another one.
                Forward::Bypass | Forward::Request => "BYPASS",
                Forward::UriMiss | Forward::VaryMiss | Forward::Partial => "MISS",
                Forward::Stale => "EXPIRED",
            },
            Outcome::NotForwarded => "MISS",
        })
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Howdah")?;
        match self {
            Outcome::Hit { ttl, collapsed, detail } => {
                write!(f, "; hit; ttl={ttl}")?;
                if *collapsed {
                    f.write_str("; collapsed")?;
                }
                if let Some(detail) = detail {
                    write!(f, "; detail={}", detail.name())?;
                }
                Ok(())
            }
            Outcome::Forwarded { reason, status, stored } => {
                let reason = match reason {
                    Forward::Bypass => "bypass",
                    Forward::Method => "method",
                    Forward::UriMiss => "uri-miss",
                    Forward::VaryMiss => "vary-miss",
                    Forward::Stale => "stale",
                    Forward::Request => "request",
                    Forward::Partial => "partial",
                };
                write!(f, "; fwd={reason}")?;
                if let Some(status) = status {
                    write!(f, "; fwd-status={status}")?;
                }
                match stored {
                    None => Ok(()),
                    Some(Ok(())) => f.write_str("; stored"),
                    Some(Err(refusal)) => write!(f, "; detail=\"{refusal}\""),
                }
            }
            Outcome::NotForwarded => f.write_str("; detail=\"not stored, and only-if-cached\""),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_handling_of_a_request_is_shown_as_in_the_rfc() {
        let hit = Outcome::Hit { ttl: 376, collapsed: false, detail: None };
        assert_eq!(hit.to_string(), "Howdah; hit; ttl=376");
        let stale = Outcome::Hit { ttl: -4, collapsed: true, detail: Some(StaleUse::Updating) };
        assert_eq!(
            stale.to_string(),
            "Howdah; hit; ttl=-4; collapsed; detail=stale-while-revalidate"
        );
        let forwarded =
            |reason, status, stored| Outcome::Forwarded { reason, status, stored }.to_string();
        assert_eq!(forwarded(Forward::UriMiss, None, Some(Ok(()))), "Howdah; fwd=uri-miss; stored");
        assert_eq!(forwarded(Forward::Stale, Some(304), None), "Howdah; fwd=stale; fwd-status=304");
        assert_eq!(
            forwarded(Forward::VaryMiss, None, Some(Err(Refusal::SetCookie))),
            "Howdah; fwd=vary-miss; detail=\"it sets a cookie\""
        );
    }

    #[test]
    fn the_words_of_nginx_follow_from_the_handling() {
        let hit = |detail| Outcome::Hit { ttl: 0, collapsed: false, detail };
        let sent_on = |reason| Outcome::Forwarded { reason, status: None, stored: None };
        let validated = |reason| Outcome::Forwarded { reason, status: Some(304), stored: None };
        for (outcome, expected) in [
            (hit(None), Some("HIT")),
            (hit(Some(StaleUse::Refreshing)), Some("STALE")),
            (hit(Some(StaleUse::Updating)), Some("UPDATING")),
            (hit(Some(StaleUse::IfError)), Some("STALE")),
            (hit(Some(StaleUse::MaxStale)), Some("STALE")),
            (sent_on(Forward::Bypass), Some("BYPASS")),
            (sent_on(Forward::Request), Some("BYPASS")),
            (sent_on(Forward::Method), None),
            (sent_on(Forward::UriMiss), Some("MISS")),
            (sent_on(Forward::VaryMiss), Some("MISS")),
            (sent_on(Forward::Partial), Some("MISS")),
            (sent_on(Forward::Stale), Some("EXPIRED")),
            (validated(Forward::Stale), Some("REVALIDATED")),
            (validated(Forward::Request), Some("REVALIDATED")),
            (Outcome::NotForwarded, Some("MISS")),
        ] {
            assert_eq!(outcome.word(), expected, "{outcome}");
        }
    }
}
