//! Compares requests with the conditions of steps.
//!
//! Cheap conditions are compared first. No condition allocates: query and cookies are decoded once
//! per request, into buffers that the thread reuses.

use std::time::Instant;

use howdah_config::{Captures, Match, Scheme};
use howdah_http::message::Request;
use howdah_http::query::{self, Query};
use howdah_http::variables::VariableSource;

/// Reusable buffers for conditions.
#[derive(Debug, Default)]
pub struct Scratch {
    query: Query,
    text: Vec<u8>,
    /// Numbers of the steps that can hold, from the index.
    pub(super) steps: Vec<u32>,
}

impl Scratch {
    /// Clears the values of the last request.
    pub fn clear(&mut self) {
        self.query.clear();
        self.text.clear();
    }
}

/// Returns true if all conditions hold, except for those on files. `started_at` is the time of the
/// first byte of the request.
pub fn holds(
    conditions: &Match,
    request: &Request,
    started_at: Instant,
    scratch: &mut Scratch,
) -> bool {
    holds_for(conditions, &[&request.path], request, started_at, scratch)
}

/// As [`holds`], for a request that is known by several paths: one of them has to be accepted, and
/// none excluded.
pub fn holds_for(
    conditions: &Match,
    paths: &[&[u8]],
    request: &Request,
    started_at: Instant,
    scratch: &mut Scratch,
) -> bool {
    let Match {
        method,
        scheme,
        host,
        source,
        destination,
        uri,
        query,
        arguments,
        headers,
        cookies,
        files: _, // `Routing::files_hold`
        condition,
    } = conditions;
    let connection = &request.connection;
    uri.as_ref().is_none_or(|uri| uri.matches_any(paths))
        && method.as_ref().is_none_or(|method| method.matches(&request.method))
        && host.as_ref().is_none_or(|host| host.matches(&request.host))
        && scheme.is_none_or(|scheme| connection.tls == (scheme == Scheme::Https))
        && source.as_ref().is_none_or(|source| source.matches(connection.peer))
        && destination.as_ref().is_none_or(|local| local.matches(connection.local))
        && headers.as_ref().is_none_or(|headers| headers.matches(request.fields.iter()))
        && cookies
            .as_ref()
            .is_none_or(|cookies| cookies.matches(cookies_of(request, cookies.takes_bare())))
        && query.as_ref().is_none_or(|query| query.matches(scratch.query.text(&request.query)))
        && arguments
            .as_ref()
            .is_none_or(|arguments| arguments.matches(scratch.query.arguments(&request.query)))
        && condition.as_ref().is_none_or(|condition| {
            let source = VariableSource::of(request, started_at);
            condition.holds(&mut scratch.text, |variable, out| {
                source.write(variable, out);
            })
        })
}

/// Returns the captures of the regular expressions of conditions that hold.
pub fn captures(conditions: &Match, request: &Request) -> Captures {
    let uri = conditions.uri.as_ref().map(|uri| (uri, &*request.path));
    let host = conditions.host.as_ref().map(|host| (host, &*request.host));
    Captures::of(uri, host)
}

fn cookies_of(request: &Request, takes_bare: bool) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
    request.fields.get_all("cookie").flat_map(move |field| query::cookies(field, takes_bare))
}

#[cfg(test)]
mod tests;
