//! Settings of upstreams that have no effect without others.

use super::line::{Advice, add};
use howdah_config::{Config, Retry, Servers, Shown, Upstream, path};

/// Keys of an upstream that only requests of HTTP heed.
const HTTP_KEYS: [&str; 11] = [
    "keepalive",
    "buffering",
    "request_buffering",
    "internal_redirect",
    "named_redirects",
    "sendfile",
    "host",
    "headers",
    "forwarded",
    "rewrite_location",
    "request_trailers",
];

/// Checks upstreams whose servers run applications of type `fastcgi`.
pub(super) fn of_fastcgi(config: &Config, all: &mut Vec<Advice>) {
    for application in &config.fastcgi {
        let Servers::Upstream(name) = &application.servers else { continue };
        let upstream = config.document.get("upstreams").and_then(|upstreams| upstreams.get(name));
        let Some(upstream) = upstream else { continue };
        for key in HTTP_KEYS.iter().filter(|key| upstream.get(**key).is_some()) {
            let message = format!(
                "has no effect on the application \"{}\" of type \"fastcgi\"; {}",
                Shown(&application.name),
                match *key {
                    "host" | "headers" | "forwarded" => "write \"params\" in the application",
                    "rewrite_location" | "request_trailers" => "leave it out",
                    _ => "write it in the application",
                }
            );
            add(all, path(["upstreams", &**name, *key]), message);
        }
    }
}

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
        let message = "has no effect, as each request is tried on one server; write \"tries\": 2 \
                       in the upstream";
        add(all, place(&["retry"]), message);
    }
    if notices_failures || !has_one_try {
        return;
    }
    for server in servers.iter().filter(|server| server.backup) {
        let message = "gets no requests when other servers fail, as failures are not noticed; \
                       write \"failures\": {}, \"tries\": 2 in the upstream";
        add(all, place(&["servers", &server.address.to_string(), "backup"]), message);
    }
}
