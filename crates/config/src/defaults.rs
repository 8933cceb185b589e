//! Defaults of a document that the command line chooses.

use std::time::Duration;

/// Defaults of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Defaults {
    /// The default of `settings.http.strict_requests`.
    pub strict_requests: bool,
    /// True if the query in a `rewrite` has an effect. Unit drops it.
    pub rewrites_query: bool,
    /// True if a `fallback` is also for a file that may not be read, as in Unit; otherwise that is
    /// 403.
    pub denied_has_fallback: bool,
    /// The default of `keepalive`: idle connections that each thread keeps to each HTTP server.
    pub keepalive: usize,
    /// The default of `access_log.flush`: the maximum time that a line waits for others. Unit
    /// writes each line at once.
    pub access_log_flush: Duration,
    /// True if `"return": 444` closes the connection without a response, as in nginx. Unit sends
    /// any status.
    pub closes_on_444: bool,
    /// True if conditions know cookies without `=`, which PHP takes for cookies without a value.
    pub takes_bare_cookies: bool,
}

impl Default for Defaults {
    /// Returns Howdah's defaults.
    fn default() -> Defaults {
        Defaults {
            strict_requests: true,
            rewrites_query: true,
            denied_has_fallback: false,
            keepalive: 32,
            access_log_flush: Duration::from_millis(10),
            closes_on_444: true,
            takes_bare_cookies: true,
        }
    }
}

impl Defaults {
    /// Returns NGINX Unit's defaults if `unit` is true, otherwise Howdah's.
    pub fn of(unit: bool) -> Defaults {
        if unit { Defaults::of_unit() } else { Defaults::default() }
    }

    /// Returns NGINX Unit's defaults, for clients whose requests are malformed.
    pub fn of_unit() -> Defaults {
        Defaults {
            strict_requests: false,
            rewrites_query: false,
            denied_has_fallback: true,
            keepalive: 0,
            access_log_flush: Duration::ZERO,
            closes_on_444: false,
            takes_bare_cookies: false,
        }
    }
}
