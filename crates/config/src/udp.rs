//! Listeners for datagrams (UDP), and the sessions of their clients.

use std::time::Duration;

use serde_json::Value;

use crate::definitions::Definitions;
use crate::error::Error;
use crate::key::{COUNT, Key, Kind, Shape};
use crate::node::{Node, Object, Shown};
use crate::target::{Pass, Target};

/// `udp` of an upstream.
pub(crate) static UDP: Shape = Shape {
    name: "udp",
    parts: &[&[
        Key::new(
            "requests",
            Kind::Integer(1, COUNT),
            "Number of datagrams of a client after which its next one begins another session",
        )
        .default("unlimited")
        .details("`proxy_requests`"),
        Key::new(
            "responses",
            Kind::Integer(0, COUNT),
            "Number of datagrams of a server that answer one of a client; with the last of them \
             the session ends",
        )
        .default("unlimited")
        .details(
            "`proxy_responses`. 1 for DNS; 0 for servers that do not answer, such as syslog's. A \
             server that does not answer in time has failed (`failures`)",
        ),
    ]],
};

/// Keys of listeners that datagrams do not heed.
const STREAM_KEYS: [&str; 4] = ["backlog", "proxy_protocol", "socket", "tls"];

/// Silence of both ends that ends a session, unless the upstream has `tunnel`.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Sessions of the clients of a listener for datagrams at an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UdpSessions {
    /// Number of datagrams of the client after which the next one begins another session.
    pub requests: Option<u32>,
    /// Number of the server's answers to each datagram of the client.
    pub responses: Option<u32>,
    /// Silence of both ends that ends a session.
    pub timeout: Duration,
}

impl Default for UdpSessions {
    fn default() -> Self {
        UdpSessions { requests: None, responses: None, timeout: TIMEOUT }
    }
}

impl UdpSessions {
    /// Reads the key of an upstream. `tunnel` is that of its `timeouts`, if it has one.
    pub(crate) fn read(
        object: &Object<'_>,
        tunnel: Option<Duration>,
    ) -> Result<UdpSessions, Error> {
        let sessions = object.read("udp", |node| {
            let object = node.object(&UDP)?;
            let (requests, responses) = (object.integer("requests")?, object.integer("responses")?);
            object.end()?;
            Ok(UdpSessions { requests, responses, timeout: TIMEOUT })
        })?;
        let sessions = sessions.unwrap_or_default();
        Ok(UdpSessions { timeout: tunnel.unwrap_or(TIMEOUT), ..sessions })
    }
}

/// Checks the keys of a listener for datagrams, and the upstreams to which it passes.
pub(crate) fn check_listener(object: &Object<'_>, pass: &Pass) -> Result<(), Error> {
    if let Some(node) = STREAM_KEYS.into_iter().find_map(|key| object.optional(key)) {
        return Err(node.invalid("has no meaning for datagrams (\"protocol\": \"udp\")"));
    }
    let node = object.required("pass")?;
    let mut targets = Vec::new();
    match pass {
        Pass::Fixed(Target::Upstream(name)) => targets.push(name.as_str()),
        Pass::Fixed(Target::Stream(name)) => {
            upstreams_of(&node.scope.definitions, name, &mut Vec::new(), &mut targets);
        }
        _ => {} // refused elsewhere
    }
    targets.into_iter().try_for_each(|name| check_upstream(&node, name))
}

/// Collects the upstreams to which steps lead.
fn upstreams_of<'d>(
    definitions: &Definitions<'d>,
    name: &'d str,
    seen: &mut Vec<&'d str>,
    found: &mut Vec<&'d str>,
) {
    if seen.contains(&name) {
        return;
    }
    seen.push(name);
    let steps = definitions.named("streams").and_then(|streams| streams.get(name)?.as_array());
    for step in steps.into_iter().flatten() {
        let Some(pass) = step.pointer("/action/pass").and_then(Value::as_str) else { continue };
        if let Some(upstream) = pass.strip_prefix("upstreams/") {
            found.push(upstream);
        } else if let Some(stream) = pass.strip_prefix("streams/") {
            upstreams_of(definitions, stream, seen, found);
        }
    }
}

/// Checks that an upstream has nothing that datagrams cannot have.
fn check_upstream(node: &Node<'_>, name: &str) -> Result<(), Error> {
    let Some(upstream) = node.scope.definitions.named("upstreams").and_then(|all| all.get(name))
    else {
        return Ok(()); // refused elsewhere
    };
    let servers = upstream.get("servers").and_then(Value::as_object);
    let is_unix = servers.is_some_and(|all| all.keys().any(|one| one.starts_with("unix:")));
    let problem = match () {
        () if upstream.get("tls").is_some_and(|tls| *tls != Value::Bool(false)) => {
            "has \"tls\", which datagrams cannot have"
        }
        () if upstream.get("proxy_protocol").is_some_and(|version| *version == 1) => {
            "has version 1 of \"proxy_protocol\", which is for connections; write 2"
        }
        () if upstream.get("bandwidth").is_some() => "has \"bandwidth\", which is for connections",
        () if is_unix => "has a server at a unix socket, which takes no datagrams",
        () => return Ok(()),
    };
    Err(node.invalid(format_args!("leads to upstream \"{}\", which {problem}", Shown(name))))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{Config, Session};

    fn read(listener: Value, upstream: Value) -> Result<Config, Error> {
        let mut whole = json!({"protocol": "udp", "pass": "streams/all"});
        let mut one = json!({"servers": {"127.0.0.1:1": {}}});
        for (into, from) in [(&mut whole, listener), (&mut one, upstream)] {
            let members = from.as_object().unwrap().clone();
            into.as_object_mut().unwrap().extend(members);
        }
        Config::from_value(json!({
            "listeners": {"*:53": whole},
            "streams": {"all": [{"action": {"pass": "streams/more"}}],
                        "more": [{"action": {"pass": "upstreams/a"}}]},
            "upstreams": {"a": one},
        }))
    }

    #[test]
    fn a_listener_for_datagrams_has_sessions_with_counts_and_a_timeout() {
        let config = read(json!({}), json!({})).unwrap();
        let listener = &config.listeners[0];
        assert_eq!((listener.key.as_str(), listener.name.as_str()), ("*:53", "udp:*:53"));
        assert_eq!(listener.session, Some(Session::Udp));
        assert_eq!(config.upstreams[0].udp, UdpSessions::default());
        let more = json!({"udp": {"requests": 2, "responses": 0}, "timeouts": {"tunnel": 5}});
        let udp = read(json!({}), more).unwrap().upstreams[0].udp.clone();
        let timeout = Duration::from_secs(5);
        assert_eq!(udp, UdpSessions { requests: Some(2), responses: Some(0), timeout });
    }

    #[test]
    fn an_address_may_have_both_protocols() {
        let listener = json!({"pass": "upstreams/a"});
        let tcp = json!({"protocol": "tcp", "pass": "upstreams/a"});
        let upstreams = json!({"a": {"servers": {"127.0.0.1:1": {}}}});
        let document = |key: &str, other: &Value| {
            Config::from_value(json!({
                "listeners": {"*:53": other, key: listener}, "upstreams": upstreams,
            }))
        };
        let names = document("udp:*:53", &tcp).unwrap();
        let names: Vec<_> = names.listeners.iter().map(|one| one.name.clone()).collect();
        assert_eq!(names, ["*:53", "udp:*:53"]);
        let udp = json!({"protocol": "udp", "pass": "upstreams/a"});
        assert!(document("udp:*:53", &udp).is_err(), "it is the same address");
    }

    #[test]
    fn what_datagrams_cannot_have_is_refused_by_name() {
        for (listener, upstream, part) in [
            (json!({"tls": {"certificate": "a"}}), json!({}), "no meaning for datagrams"),
            (json!({"proxy_protocol": {"source": "10.0.0.1"}}), json!({}), "no meaning"),
            (json!({"http2": true}), json!({}), "no meaning"),
            (json!({"limit": {"concurrency": 1}}), json!({}), "about requests of HTTP"),
            (json!({}), json!({"tls": true}), "\"a\", which has \"tls\""),
            (json!({}), json!({"proxy_protocol": 1}), "write 2"),
            (json!({}), json!({"servers": {"unix:/run/a": {}}}), "unix socket"),
        ] {
            let error = read(listener, upstream).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
        let unix = json!({"protocol": "udp", "pass": "upstreams/a"});
        let error = Config::from_value(json!({"listeners": {"unix:/run/a": unix},
            "upstreams": {"a": {"servers": {"127.0.0.1:1": {}}}}}));
        assert!(error.unwrap_err().to_string().contains("has no address of UDP"));
        let tcp = json!({"protocol": "tcp", "pass": "upstreams/a"});
        let error = Config::from_value(json!({"listeners": {"udp:*:53": tcp},
            "upstreams": {"a": {"servers": {"127.0.0.1:1": {}}}}}));
        assert!(error.unwrap_err().to_string().contains("\"udp\""));
    }
}
