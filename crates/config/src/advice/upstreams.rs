//! Settings of upstreams that have no effect without others.

use super::line::{Advice, add};
use crate::node::path;
use crate::retry::Retry;
use crate::upstream::Upstream;

/// Checks that failures are noticed where settings are about failed servers.
pub(super) fn of_upstream(upstream: &Upstream, all: &mut Vec<Advice>) {
    let place = |keys: &[&str]| path([&["upstreams", &*upstream.name], keys].concat());
    let Upstream { failures, health, slow_start, retry, servers, .. } = upstream;
    let notices_failures = failures.max > 0 || health.is_some();
    let has_one_try = upstream.tries == Some(1);
    if slow_start.is_some() && !notices_failures {
        let message = "has no effect, as no server is ever taken out; write \"failures\": {}, or \
                       \"health\", in the upstream";
        add(all, place(&["slow_start"]), message);
    }
    if *retry != Retry::default() && has_one_try {
        let message = "has no effect, as each request is tried on one server; write \"tries\": 2 in \
                       the upstream";
        add(all, place(&["retry"]), message);
    }
    if notices_failures || !has_one_try {
        return;
    }
    for server in servers.iter().filter(|server| server.backup) {
        let message = "gets no requests when other servers fail, as failures are not noticed; write \
                       \"failures\": {}, \"tries\": 2 in the upstream";
        add(all, place(&["servers", &server.address.to_string(), "backup"]), message);
    }
}
