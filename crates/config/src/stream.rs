//! `streams`: steps that choose an upstream for a connection, and listeners whose connections are
//! passed on as they are.

use std::collections::HashSet;

use howdah_template::{Patterns, Subject};
use serde_json::{Map, Value};

use crate::address_pattern::AddressPatterns;
use crate::definitions::Definitions;
use crate::error::Error;
use crate::key::{Key, Kind, Shape};
use crate::node::{Node, Object, Shown};
use crate::patterns;
use crate::target::{Pass, Target};
use crate::tls::Alpn;
use crate::udp;

/// A step of `streams`.
pub(crate) static STREAM_STEP: Shape = Shape {
    name: "stream_step",
    parts: &[&[
        Key::new("match", Kind::Object(&STREAM_MATCH), "Conditions, all of which must hold")
            .default("always holds"),
        Key::new(
            "action",
            Kind::Object(&STREAM_ACTION),
            "What becomes of connections that meet the conditions",
        )
        .required(),
    ]],
};

/// `match` of a step of `streams`.
static STREAM_MATCH: Shape = Shape {
    name: "stream_match",
    parts: &[&[
        Key::new(
            "server_name",
            Kind::Texts,
            "Patterns of the name that the client asks for in its TLS handshake (SNI)",
        )
        .details(
            "[Patterns](configuration/routes.md#patterns). Without `tls` in the listener, the \
             handshake is read and passed on unchanged. A connection without TLS, or without a \
             name, meets no such condition (`ssl_preread`)",
        ),
        Key::new(
            "alpn",
            Kind::Texts,
            "Protocols, one of which the client must offer in its TLS handshake (ALPN)",
        ),
        Key::new("source", Kind::Texts, "Patterns of the client's address")
            .details("[Address patterns](configuration/routes.md#address-patterns)"),
        Key::new(
            "destination",
            Kind::Texts,
            "Patterns of the address that the client connected to",
        )
        .details("[Address patterns](configuration/routes.md#address-patterns)"),
    ]],
};

/// `action` of a step of `streams`.
static STREAM_ACTION: Shape = Shape {
    name: "stream_action",
    parts: &[&[
        Key::new(
            "pass",
            Kind::Text,
            "Upstream or further steps: `\"upstreams/NAME\"` or `\"streams/NAME\"`",
        )
        .kind(),
        Key::new("close", Kind::Switch, "Closes the connection: `true`").kind(),
    ]],
};

/// Keys of listeners that only HTTP heeds.
const HTTP_KEYS: [&str; 5] =
    ["application", "client_ip", "forwarded", "http2", "redirect_to_https"];

/// Keys of limits that not all sessions heed, with what they are about.
const SPECIAL_LIMITS: [(&str, &str); 9] = [
    ("announce", REQUESTS),
    ("bandwidth", "bytes of connections"),
    ("concurrency", LOGINS),
    ("delay", REQUESTS),
    ("except_names", REQUESTS),
    ("key", LOGINS),
    ("match", REQUESTS),
    ("preset", REQUESTS),
    ("processes", REQUESTS),
];

const REQUESTS: &str = "requests of HTTP";
const LOGINS: &str = "requests of HTTP and logins of mail";

/// Keys of upstreams that only requests of HTTP heed.
const HTTP_UPSTREAM_KEYS: [&str; 17] = [
    "buffering",
    "cookie_domain",
    "cookie_flags",
    "cookie_path",
    "forwarded",
    "headers",
    "host",
    "http2",
    "internal_redirect",
    "keepalive",
    "named_redirects",
    "request_buffering",
    "request_trailers",
    "retry",
    "rewrite_location",
    "sendfile",
    "sticky",
];

/// Protocol of a listener whose connections are not requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Session {
    /// The bytes of TCP connections, or of those to a unix socket, are passed on.
    Tcp,
    /// Datagrams are passed on.
    Udp,
    /// Mail, by the object of this name.
    Mail(String),
}

/// A list of steps. A connection for which no step holds is closed.
#[derive(Debug, Clone)]
pub struct Stream {
    /// The name in `streams`.
    pub name: String,
    /// The steps in order.
    pub steps: Vec<StreamStep>,
}

/// Conditions, and what becomes of connections that meet them.
#[derive(Debug, Clone)]
pub struct StreamStep {
    /// Patterns of the requested name, in lower case; `None` for all connections.
    pub server_name: Option<Patterns>,
    /// Protocols of which the client offers one; empty for all connections.
    pub alpn: Vec<String>,
    /// The client's address.
    pub source: Option<AddressPatterns>,
    /// The address that the client connected to.
    pub destination: Option<AddressPatterns>,
    /// The upstream or the further steps; `None` closes the connection.
    pub pass: Option<Target>,
}

impl Session {
    /// Reads the keys of a listener. `None` if its connections are requests. `is_udp` if its address
    /// is one of datagrams.
    pub(crate) fn read(
        object: &Object<'_>,
        pass: &Pass,
        is_udp: bool,
    ) -> Result<Option<Session>, Error> {
        let protocol = object.optional("protocol");
        let has_protocol = |name: &str| protocol.as_ref().is_some_and(|node| *node.value == *name);
        if let (true, Some(node)) = (is_udp && !has_protocol("udp"), &protocol) {
            let error = node.invalid("is not the \"udp\" of the address");
            return Err(error.with_hint("leave it out, or leave out \"udp:\" in the address"));
        }
        if is_udp || has_protocol("udp") {
            refuse_http_keys(object, "\"protocol\": \"udp\"")?;
            check_target(&object.required("pass")?, pass)?;
            udp::check_listener(object, pass)?;
            return Ok(Some(Session::Udp));
        }
        let is_tcp = has_protocol("tcp");
        if let (Pass::Fixed(Target::Mail(name)), false) = (pass, object.has("application")) {
            if let Some(node) = protocol {
                let error = node.invalid("stands in the object of \"mail\"");
                return Err(error.with_hint("leave it out here"));
            }
            refuse_http_keys(object, "mail")?;
            return Ok(Some(Session::Mail(name.clone())));
        }
        if !is_tcp {
            return match (pass, object.optional("pass")) {
                (Pass::Fixed(Target::Stream(_)), Some(node)) => {
                    let error = node.invalid("names steps for connections that are no requests");
                    Err(error.with_hint("write \"protocol\": \"tcp\" or \"udp\" in the listener"))
                }
                _ => Ok(None),
            };
        }
        refuse_http_keys(object, "\"protocol\": \"tcp\"")?;
        check_target(&object.required("pass")?, pass)?;
        Ok(Some(Session::Tcp))
    }

    /// Returns the protocols that clients may agree on in a handshake.
    pub(crate) fn alpn(&self, node: &Node<'_>) -> Alpn {
        let Session::Mail(name) = self else { return Alpn::Any };
        let mail = node.scope.definitions.named("mail").and_then(|mail| mail.get(name));
        match mail.and_then(|mail| mail.get("protocol")).and_then(Value::as_str) {
            Some("imap") => Alpn::Imap,
            Some("pop3") => Alpn::Pop3,
            _ => Alpn::Smtp,
        }
    }

    /// Checks the limits of a listener: they are about connections, and about logins of mail.
    pub(crate) fn check_limit(&self, object: &Object<'_>) -> Result<(), Error> {
        let Some(node) = object.optional("limit") else { return Ok(()) };
        for rule in node.one_or_many() {
            let is_wrong =
                |(key, _): &&(&str, &str)| rule.value.get(*key).is_some() && !self.heeds(key);
            if let Some((key, about)) = SPECIAL_LIMITS.iter().find(is_wrong) {
                let error = node.invalid(format_args!("has \"{key}\", which is about {about}"));
                return Err(error.with_hint("write {\"connections\": 10} or {\"rate\": \"10/m\"}"));
            }
            let has_conditions = |except: &Value| {
                except.is_object()
                    || except.as_array().is_some_and(|all| all.iter().any(Value::is_object))
            };
            if rule.value.get("except").is_some_and(has_conditions) {
                return Err(node.invalid("must have addresses in \"except\" only"));
            }
        }
        Ok(())
    }

    /// Returns true if a special key of limits has a meaning for these sessions.
    fn heeds(&self, key: &str) -> bool {
        match key {
            "bandwidth" => *self != Session::Udp,
            "concurrency" | "key" => matches!(self, Session::Mail(_)),
            _ => false,
        }
    }
}

impl Stream {
    /// Reads the members of `streams`.
    pub(crate) fn read_all(node: &Node<'_>) -> Result<Vec<Stream>, Error> {
        let mut streams = Vec::new();
        for (name, steps) in node.members()? {
            if let Some(steps) = node.part(StreamStep::read_all(&steps))? {
                streams.push(Stream { name: name.to_owned(), steps });
            }
        }
        check_rings(node, &streams)?;
        Ok(streams)
    }
}

impl StreamStep {
    fn read_all(node: &Node<'_>) -> Result<Vec<StreamStep>, Error> {
        node.elements()?.map(|step| StreamStep::read(&step)).collect()
    }

    fn read(node: &Node<'_>) -> Result<StreamStep, Error> {
        let object = node.object(&STREAM_STEP)?;
        let mut step = StreamStep {
            server_name: None,
            alpn: Vec::new(),
            source: None,
            destination: None,
            pass: None,
        };
        object.read("match", |node| {
            let object = node.object(&STREAM_MATCH)?;
            step.server_name =
                object.read("server_name", |node| patterns::read(node, Subject::Host))?;
            let alpn = object.read("alpn", |node| {
                node.strings()?.map(|one| one.text().map(str::to_owned)).collect()
            })?;
            step.alpn = alpn.unwrap_or_default();
            step.source = object.read("source", AddressPatterns::read)?;
            step.destination = object.read("destination", AddressPatterns::read)?;
            object.end()
        })?;
        let action = object.required("action")?;
        let action = action.object(&STREAM_ACTION)?;
        step.pass = match (action.optional("pass"), action.optional("close")) {
            (Some(node), None) => {
                let pass = Pass::read_of_stream(&node)?;
                check_target(&node, &pass)?;
                match pass {
                    Pass::Fixed(target) => Some(target),
                    Pass::Variable(_) => None, // refused by the check
                }
            }
            (None, Some(node)) if node.boolean()? => None,
            (None, Some(node)) => return Err(node.invalid("must be true")),
            (None, None) => return Err(action.missing(&["pass", "close"])),
            (Some(_), Some(node)) => return Err(node.invalid("cannot go with \"pass\"")),
        };
        action.end()?;
        object.end()?;
        Ok(step)
    }
}

fn refuse_http_keys(object: &Object<'_>, other: &str) -> Result<(), Error> {
    match HTTP_KEYS.into_iter().find_map(|key| object.optional(key)) {
        Some(node) => Err(node.invalid(format_args!("has no meaning with {other}"))),
        None => Ok(()),
    }
}

/// Checks that connections can be passed to a target: an upstream without keys of HTTP, or steps.
fn check_target(node: &Node<'_>, pass: &Pass) -> Result<(), Error> {
    match pass {
        Pass::Fixed(Target::Stream(_)) => Ok(()),
        Pass::Fixed(Target::Upstream(name)) => check_upstream(node, name),
        _ => {
            let error = node.invalid("must name servers that connections can be passed to");
            Err(error.with_hint("write \"upstreams/NAME\" or \"streams/NAME\""))
        }
    }
}

/// Checks that an upstream has no keys that only requests of HTTP heed.
pub(crate) fn check_upstream(node: &Node<'_>, name: &str) -> Result<(), Error> {
    let Some(key) = http_key(&node.scope.definitions, name) else { return Ok(()) };
    let message =
        format!("is upstream \"{}\", whose \"{key}\" is about requests of HTTP", Shown(name));
    Err(node.invalid(message).with_hint("use another upstream, or leave that key out"))
}

/// Returns the key of an upstream that only requests of HTTP heed, if it has one.
fn http_key(definitions: &Definitions<'_>, name: &str) -> Option<&'static str> {
    let upstream = definitions.named("upstreams")?.get(name)?;
    let has = |members: &Value, key: &str| {
        members.get(key).is_some_and(|value| *value != Value::Bool(false))
    };
    let health = upstream.get("health").and_then(Value::as_object);
    let is_http = |health: &Map<String, Value>| !health.contains_key("connect");
    if health.is_some_and(is_http) {
        return Some("health");
    }
    HTTP_UPSTREAM_KEYS.into_iter().find(|key| has(upstream, key))
}

/// Checks that no steps lead to themselves.
fn check_rings(node: &Node<'_>, streams: &[Stream]) -> Result<(), Error> {
    for stream in streams {
        let (mut seen, mut open) = (HashSet::new(), vec![stream.name.as_str()]);
        while let Some(name) = open.pop() {
            let found = streams.iter().find(|other| other.name == name);
            for step in found.into_iter().flat_map(|found| &found.steps) {
                let Some(Target::Stream(next)) = &step.pass else { continue };
                if *next == stream.name {
                    let message = format!("lead from \"{}\" to itself", Shown(next));
                    return Err(node.invalid(message));
                }
                if seen.insert(next.as_str()) {
                    open.push(next);
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::Config;

    fn read(extra: Value) -> Result<Config, Error> {
        let mut document = json!({
            "listeners": {"*:8443": {"protocol": "tcp", "pass": "streams/by_name"}},
            "streams": {
                "by_name": [
                    {"match": {"server_name": "A.example.org"}, "action": {"pass": "upstreams/a"}},
                    {"match": {"source": "10.0.0.0/8", "alpn": "h2"},
                     "action": {"pass": "streams/rest"}},
                    {"action": {"close": true}},
                ],
                "rest": [{"action": {"pass": "upstreams/a"}}],
            },
            "upstreams": {"a": {"servers": {"127.0.0.1:1": {}}}},
        });
        for (pointer, value) in extra.as_object().unwrap() {
            let (parent, key) = pointer.rsplit_once('/').unwrap();
            document.pointer_mut(parent).unwrap()[key] = value.clone();
        }
        Config::from_value(document)
    }

    #[test]
    fn connections_are_passed_by_name_protocol_and_address() {
        let config = read(json!({})).unwrap();
        assert_eq!(config.listeners[0].session, Some(Session::Tcp));
        assert_eq!(config.listeners[0].pass, Pass::Fixed(Target::Stream("by_name".to_owned())));
        let steps = &config.streams[0].steps;
        assert!(steps[0].server_name.as_ref().unwrap().matches(b"a.example.org"));
        assert_eq!(steps[1].alpn, ["h2"]);
        assert_eq!(steps[1].pass, Some(Target::Stream("rest".to_owned())));
        assert_eq!(steps[2].pass, None);
    }

    #[test]
    fn what_only_requests_have_is_refused_by_name() {
        let error = |pointer: &str, value: Value| {
            let error = read(json!({pointer: value})).unwrap_err();
            (error.path().to_owned(), error.to_string())
        };
        for (pointer, value, place) in [
            ("/listeners/*:8443/http2", json!(true), "/listeners/*:8443/http2"),
            (
                "/listeners/*:8443/forwarded",
                json!({"source": "unix"}),
                "/listeners/*:8443/forwarded",
            ),
            ("/listeners/*:8443/limit", json!({"concurrency": 1}), "/listeners/*:8443/limit"),
            (
                "/listeners/*:8443/limit",
                json!({"rate": "1/s", "except": {"uri": "/"}}),
                "/listeners/*:8443/limit",
            ),
            ("/listeners/*:8443/pass", json!("routes"), "/listeners/*:8443/pass"),
            ("/listeners/*:8443/pass", json!("streams/none"), "/listeners/*:8443/pass"),
            ("/listeners/*:8443/protocol", json!("http"), "/listeners/*:8443/pass"),
            ("/streams/rest/0/action/pass", json!("streams/by_name"), "/streams"),
            ("/streams/rest/0/action/pass", json!("applications/a"), "/streams/rest/0/action/pass"),
            ("/streams/by_name/2/action/close", json!(false), "/streams/by_name/2/action/close"),
        ] {
            let (found, text) = error(pointer, value);
            assert_eq!(found.replace("~1", "/"), place, "{text}");
        }
        let (place, text) = error("/upstreams/a/headers", json!({"X": "1"}));
        assert_eq!(place, "/streams/by_name/0/action/pass", "{text}");
        assert!(text.contains("\"headers\""), "{text}");
        assert!(read(json!({"/upstreams/a/health": {"uri": "/"}})).is_err());
        assert!(read(json!({"/upstreams/a/health": {"connect": true}})).is_ok());
        assert!(
            read(json!({"/listeners/*:8443/limit": {"connections": 2, "rate": "1/s"}})).is_ok()
        );
        assert!(read(json!({"/listeners/*:8443/limit": {"bandwidth": 1000}})).is_ok());
    }
}
