//! The steps of the document, and the upstream that they choose for a connection.

use std::net::SocketAddr;

use howdah_config::{Stream, StreamStep, Target};

use crate::client_hello::ClientHello;

/// Facts about a connection that conditions are compared with.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// Address of the client; `None` on a unix socket.
    pub peer: Option<SocketAddr>,
    /// Address that the client connected to; `None` on a unix socket.
    pub local: Option<SocketAddr>,
    /// What is known of the TLS handshake.
    pub hello: Hello<'a>,
}

/// What is known of the TLS handshake of a connection.
#[derive(Debug, Clone, Copy)]
pub enum Hello<'a> {
    /// Nothing yet.
    Unread,
    /// The client does not speak TLS.
    None,
    /// The client's hello.
    Read(&'a ClientHello),
}

/// What becomes of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision<'s> {
    /// It is passed to the upstream of this name.
    Upstream(&'s str),
    /// The steps need the client's hello.
    NeedsHello,
    /// It is closed: a step says so, or no step holds.
    Close,
}

/// Result of the conditions of a step.
enum Outcome {
    Holds,
    Fails,
    Unknown,
}

/// Maximum number of lists of steps that lead from one to another. `howdah-config` refuses rings.
const MAX_LISTS: usize = 64;

/// Chooses the upstream of a connection. The first step whose conditions hold decides.
pub fn choose<'s>(streams: &'s [Stream], target: &'s Target, facts: &Facts<'_>) -> Decision<'s> {
    let mut target = target;
    for _ in 0..MAX_LISTS {
        let name = match target {
            Target::Upstream(name) => return Decision::Upstream(name),
            Target::Stream(name) => name,
            _ => return Decision::Close,
        };
        let Some(stream) = streams.iter().find(|stream| stream.name == *name) else { break };
        let mut next = None;
        for step in &stream.steps {
            match holds(step, facts) {
                Outcome::Holds => {
                    next = step.pass.as_ref();
                    break;
                }
                Outcome::Unknown => return Decision::NeedsHello,
                Outcome::Fails => {}
            }
        }
        match next {
            Some(found) => target = found,
            None => break,
        }
    }
    Decision::Close
}

fn holds(step: &StreamStep, facts: &Facts<'_>) -> Outcome {
    let StreamStep { server_name, alpn, source, destination, pass: _ } = step;
    if source.as_ref().is_some_and(|source| !source.matches(facts.peer))
        || destination.as_ref().is_some_and(|destination| !destination.matches(facts.local))
    {
        return Outcome::Fails;
    }
    if server_name.is_none() && alpn.is_empty() {
        return Outcome::Holds;
    }
    let hello = match facts.hello {
        Hello::Unread => return Outcome::Unknown,
        Hello::None => return Outcome::Fails,
        Hello::Read(hello) => hello,
    };
    let is_named = server_name
        .as_ref()
        .is_none_or(|names| !hello.server_name.is_empty() && names.matches(&hello.server_name));
    let offers = |wanted: &String| hello.protocols.iter().any(|one| one == wanted.as_bytes());
    if is_named && (alpn.is_empty() || alpn.iter().any(offers)) {
        Outcome::Holds
    } else {
        Outcome::Fails
    }
}

#[cfg(test)]
mod tests {
    use howdah_config::Config;
    use serde_json::json;

    use super::*;

    fn config() -> Config {
        let upstream = json!({"servers": {"127.0.0.1:1": {}}});
        Config::from_value(json!({
            "listeners": {"*:1": {"protocol": "tcp", "pass": "streams/all"}},
            "upstreams": {"a": upstream, "b": upstream, "c": upstream},
            "streams": {
                "all": [
                    {"match": {"source": "192.0.2.9"}, "action": {"pass": "upstreams/c"}},
                    {"match": {"server_name": ["*.example.org", "!x.example.org"]},
                     "action": {"pass": "upstreams/a"}},
                    {"match": {"alpn": ["h2", "imap"], "source": "10.0.0.0/8"},
                     "action": {"pass": "streams/more"}},
                    {"match": {"destination": "*:25"}, "action": {"close": true}},
                    {"match": {"source": "!unix"}, "action": {"pass": "upstreams/c"}},
                ],
                "more": [{"match": {"source": "10.0.0.0/16"}, "action": {"pass": "upstreams/b"}}],
            },
        }))
        .unwrap()
    }

    fn choose_for(peer: &str, port: u16, hello: Hello<'_>) -> String {
        let (config, target) = (config(), Target::Stream("all".to_owned()));
        let peer = Some(SocketAddr::new(peer.parse().unwrap(), 5));
        let facts = Facts { peer, local: Some(([127, 0, 0, 1], port).into()), hello };
        format!("{:?}", choose(&config.streams, &target, &facts))
    }

    #[test]
    fn the_first_step_that_holds_decides() {
        let hello = |name: &str, protocol: &str| ClientHello {
            server_name: name.as_bytes().to_vec(),
            protocols: vec![protocol.as_bytes().to_vec()],
        };
        let www = hello("www.example.org", "h2");
        assert_eq!(choose_for("192.0.2.1", 1, Hello::Read(&www)), "Upstream(\"a\")");
        let x = hello("x.example.org", "imap");
        assert_eq!(choose_for("192.0.2.1", 1, Hello::Read(&x)), "Upstream(\"c\")");
        assert_eq!(choose_for("10.0.0.1", 1, Hello::Read(&x)), "Upstream(\"b\")");
        assert_eq!(choose_for("10.1.0.1", 1, Hello::Read(&x)), "Close", "no further step holds");
        assert_eq!(choose_for("10.0.0.1", 25, Hello::None), "Close");
        assert_eq!(choose_for("10.0.0.1", 1, Hello::None), "Upstream(\"c\")");
        let nameless = hello("", "pop3");
        assert_eq!(choose_for("192.0.2.1", 1, Hello::Read(&nameless)), "Upstream(\"c\")");
    }

    #[test]
    fn the_hello_is_read_only_if_a_step_needs_it() {
        assert_eq!(choose_for("192.0.2.9", 1, Hello::Unread), "Upstream(\"c\")");
        assert_eq!(choose_for("192.0.2.1", 1, Hello::Unread), "NeedsHello");
    }
}
