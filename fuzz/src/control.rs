//! Requests to the control API.

use std::net::IpAddr;

use howdah_config::{json, parse};
use howdah_control::{
    Bundle, Change, Command, Next, Reply, Store, Token, Transport, guard, list_certificates, print,
    translate,
};
use serde_json::{Map, Value};

use crate::split;

/// Requests, each ended by the byte 0x1E: a line with method and target, then the body. A prepared
/// change has the requested effect at its place; the document that would be stored is the one that
/// would run, and is accepted at the next start.
pub fn requests(input: &[u8]) {
    let mut store = Store::empty();
    for request in input.split(|byte| *byte == 0x1e) {
        let (line, body) = split(request);
        let blank = line.iter().position(|byte| *byte == b' ').unwrap_or(line.len());
        let (method, target) = line.split_at(blank);
        match translate(method, target.get(1..).unwrap_or_default(), body) {
            Ok(Command::Change(change)) => prepare(&mut store, change),
            Ok(Command::GetConfig(path)) => {
                let found = path.find(store.document()).cloned();
                assert_eq!(found.map(Reply::value), reply(&store.get(&path)));
            }
            Ok(Command::GetCertificates(path)) => {
                reply(&list_certificates(&Map::new(), &path));
            }
            Ok(_) => {}
            Err(refusal) => assert_eq!(reply(&refusal.into()), None),
        }
    }
}

/// A reply that is no error.
fn reply(reply: &Reply) -> Option<Reply> {
    assert!(reply.status() == 200 || (400..500).contains(&reply.status()));
    assert_eq!(reply.status() == 405, reply.allow().is_some());
    let text = reply.clone().into_text();
    assert_eq!(json::parse(text.as_bytes()).as_ref(), Ok(reply.body()));
    (reply.status() == 200).then(|| reply.clone())
}

fn prepare(store: &mut Store, change: Change) {
    let prepared = match store.prepare(change.clone()) {
        Ok(Next::Apply(prepared)) => *prepared,
        // The supervisor compiles the sites.
        Ok(Next::Compile(document)) => {
            json::parse(&document).expect("it is sent as JSON");
            return;
        }
        Err(refusal) => {
            assert_eq!(reply(&refusal.into()), None);
            return;
        }
    };
    let document = prepared.store.document();
    let next = parse(&prepared.text).expect("what is stored is accepted at the next start");
    assert_eq!(&next.document, document);
    assert_eq!(json::parse(print(document).as_bytes()).as_ref(), Ok(document));
    let before = store.document();
    match change {
        Change::Put { path, value } => assert_eq!(path.find(document), Some(&value)),
        Change::Append { path, value } => {
            let elements = |root| path.find(root).and_then(Value::as_array).expect("an array");
            let (last, others) = elements(document).split_last().expect("one was added");
            assert_eq!((others, last), (&elements(before)[..], &value));
        }
        Change::Delete { path } => {
            assert!(path.find(before).is_some());
            let gone = path.find(document) != path.find(before) || count(document) < count(before);
            assert!(gone || path.is_empty());
        }
    }
    *store = prepared.store;
}

/// Number of values in a tree.
fn count(value: &Value) -> usize {
    match value {
        Value::Array(elements) => 1 + elements.iter().map(count).sum::<usize>(),
        Value::Object(members) => 1 + members.values().map(count).sum::<usize>(),
        _ => 1,
    }
}

/// Each line is a field, `name: value`. Over TCP nothing passes that a browser adds, no host that
/// is not this machine, and nothing without the token.
pub fn fields(input: &[u8]) {
    let fields: Vec<(&[u8], &[u8])> = input
        .split(|byte| *byte == b'\n')
        .filter_map(|line| {
            let colon = line.iter().position(|byte| *byte == b':')?;
            Some((&line[..colon], line[colon + 1..].trim_ascii()))
        })
        .collect();
    assert_eq!(guard(fields.iter().copied(), Transport::Unix, None), Ok(()));
    assert!(guard(fields.iter().copied(), Transport::Tcp, None).is_err());
    let token = Token::new("0123456789abcdef".to_owned());
    // Mostly without the right one, so that the rest is tried too.
    let has_own = fields.iter().any(|(name, _)| name.eq_ignore_ascii_case(b"authorization"));
    let ours: (&[u8], &[u8]) = (b"authorization", b"Bearer 0123456789abcdef");
    let all = fields.iter().copied().chain((!has_own).then_some(ours));
    if let Err(refusal) = guard(all, Transport::Tcp, Some(&token)) {
        assert_eq!(reply(&refusal.into()), None);
        return;
    }
    let own = fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case(b"authorization"));
    for (_, value) in own {
        assert!(value.ends_with(b"0123456789abcdef"));
    }
    for (name, value) in fields {
        let name = name.to_ascii_lowercase();
        assert!(name != b"origin" && !name.starts_with(b"sec-fetch-"));
        if name == b"host" {
            let host = String::from_utf8(value.to_ascii_lowercase()).expect("a host is ASCII");
            let end = if host.ends_with(']') {
                host.len()
            } else {
                host.rfind(':').unwrap_or(host.len())
            };
            let name = host[..end].trim_start_matches('[').trim_end_matches(']');
            let loopback = name.parse().is_ok_and(|address: IpAddr| address.is_loopback());
            assert!(name == "localhost" || loopback, "{host}");
        }
    }
}

/// A certificate bundle is refused with a reason, or has a printable description.
pub fn bundle(input: &[u8]) {
    match Bundle::read(input.to_vec()) {
        Ok(bundle) => {
            let description = bundle.description();
            assert!(description["chain"].as_array().is_some_and(|chain| !chain.is_empty()));
            assert!(description["key"].is_string());
            let text = print(description);
            assert_eq!(json::parse(text.as_bytes()), Ok(description.clone()));
        }
        Err(refusal) => assert_eq!(reply(&refusal.into()), None),
    }
}
