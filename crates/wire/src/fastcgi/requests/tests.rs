use proptest::prelude::*;

use super::*;
use crate::fastcgi::{put_begin, put_end_of_stream, put_params, put_stream};

/// An event without borrowed bytes. Pieces of a body are joined: their lengths depend on the cut.
#[derive(Debug, PartialEq, Eq)]
enum Event {
    Head(RequestHead),
    Body(Vec<u8>),
    BodyEnd,
    Abort,
    Reply(Reply),
}

fn events(bytes: &[u8], cut: usize) -> (Vec<Event>, bool) {
    let (mut requests, mut all) = (Requests::default(), Vec::new());
    for mut input in bytes.chunks(cut.max(1)) {
        loop {
            let event = match requests.next(&mut input) {
                Ok(Some(event)) => event,
                Ok(None) => break,
                Err(Malformed) => return (all, false),
            };
            let event = match event {
                Received::Body(bytes) => {
                    if let Some(Event::Body(body)) = all.last_mut() {
                        body.extend_from_slice(bytes);
                        continue;
                    }
                    Event::Body(bytes.to_vec())
                }
                Received::Head(head) => Event::Head(head),
                Received::BodyEnd => Event::BodyEnd,
                Received::Abort => Event::Abort,
                Received::Reply(reply) => Event::Reply(reply),
            };
            all.push(event);
        }
    }
    (all, true)
}

fn record(kind: u8, id: u16, content: &[u8]) -> Vec<u8> {
    let mut out = vec![1, kind];
    out.extend_from_slice(&id.to_be_bytes());
    out.extend_from_slice(&(content.len() as u16).to_be_bytes());
    out.extend_from_slice(&[3, 0]);
    out.extend_from_slice(content);
    out.extend_from_slice(b"pad");
    out
}

fn begin(id: u16, role: u8, flags: u8) -> Vec<u8> {
    record(1, id, &[0, role, flags, 0, 0, 0, 0, 0])
}

fn head(id: u16, keep: bool, params: &[u8]) -> Event {
    Event::Head(RequestHead { id, role: Role::Responder, keep, params: params.to_vec() })
}

fn refused(id: u16, protocol: Protocol, keep: bool) -> Event {
    Event::Reply(Reply::Refused { id, protocol, keep })
}

/// Events of well-formed records.
fn read(records: &[Vec<u8>]) -> Vec<Event> {
    let (events, is_whole) = events(&records.concat(), usize::MAX);
    assert!(is_whole);
    events
}

fn is_malformed(records: &[Vec<u8>]) -> bool {
    !events(&records.concat(), usize::MAX).1
}

#[test]
fn a_request_is_read_whatever_the_cut() {
    let mut bytes = Vec::new();
    put_begin(Role::Responder, true, 7, &mut bytes);
    put_params(7, [(&b"A"[..], &b"b"[..])].into_iter(), &mut bytes);
    put_stream(Kind::Stdin, 7, b"body", &mut bytes);
    put_end_of_stream(Kind::Stdin, 7, &mut bytes);
    for cut in 1..=bytes.len() {
        let (events, is_whole) = events(&bytes, cut);
        let body = Event::Body(b"body".to_vec());
        assert!(is_whole);
        assert_eq!(events, [head(7, true, b"\x01\x01Ab"), body, Event::BodyEnd], "{cut}");
    }
}

#[test]
fn another_request_meanwhile_is_refused_and_its_records_are_skipped() {
    let events = read(&[
        begin(1, 1, 1),
        record(4, 1, b"\x01\x01Ab"),
        begin(2, 1, 0),
        record(4, 2, b"\x01\x01Cd"),
        record(4, 2, b""),
        record(5, 2, b"evil"),
        record(4, 1, b""),
        record(5, 1, b"body"),
    ]);
    let cannot = refused(2, Protocol::CannotMultiplex, true);
    let body = Event::Body(b"body".to_vec());
    assert_eq!(events, [cannot, head(1, true, b"\x01\x01Ab"), body]);
}

#[test]
fn a_request_that_is_answered_makes_room_for_the_next() {
    let mut requests = Requests::default();
    let bytes = [begin(1, 1, 1), record(4, 1, b""), record(5, 1, b"x")].concat();
    let mut input = &bytes[..];
    assert!(matches!(requests.next(&mut input), Ok(Some(Received::Head(_)))));
    requests.end();
    assert!(!requests.has_begun() || !input.is_empty());
    assert_eq!(requests.next(&mut input), Ok(None), "the rest of its body is skipped");
    let bytes = [record(5, 1, b""), begin(1, 1, 0), record(4, 1, b"")].concat();
    let mut input = &bytes[..];
    assert!(matches!(requests.next(&mut input), Ok(Some(Received::Head(_)))));
}

#[test]
fn questions_are_answered_with_the_known_variables() {
    let mut names = Vec::new();
    for name in ["FCGI_MPXS_CONNS", "FCGI_MAX_REQS", "FCGI_MPXS_CONNS", "EVIL"] {
        put_pair(name.as_bytes(), b"", &mut names);
    }
    let mut values = Vec::new();
    put_pair(b"FCGI_MAX_REQS", b"65535", &mut values);
    put_pair(b"FCGI_MPXS_CONNS", b"0", &mut values);
    let reply = Reply::Values(values.clone());
    let mut out = Vec::new();
    reply.put(&mut out);
    assert_eq!(out[..8], [1, 10, 0, 0, 0, values.len() as u8, 0, 0]);
    assert_eq!(read(&[record(9, 0, &names)]), [Event::Reply(reply)]);
    assert_eq!(read(&[record(9, 0, b"")]), [Event::Reply(Reply::Values(Vec::new()))]);
    assert!(is_malformed(&[record(9, 0, b"\x05\x00ab")]));
    assert!(is_malformed(&[record(9, 0, &vec![0; MAX_QUESTION_BYTES + 2])]));
}

#[test]
fn an_unknown_type_is_named_in_the_answer() {
    for id in [0, 1] {
        assert_eq!(read(&[record(99, id, b"?")]), [Event::Reply(Reply::UnknownType(99))]);
    }
    let mut out = Vec::new();
    Reply::UnknownType(99).put(&mut out);
    assert_eq!(out, b"\x01\x0b\0\0\0\x08\0\0\x63\0\0\0\0\0\0\0");
}

#[test]
fn a_role_that_php_does_not_have_is_refused() {
    assert_eq!(read(&[begin(3, 3, 1)]), [refused(3, Protocol::UnknownRole, true)]);
    assert_eq!(read(&[begin(3, 0, 0)]), [refused(3, Protocol::UnknownRole, false)]);
    let authorizer = read(&[begin(3, 2, 0), record(4, 3, b"")]);
    assert!(matches!(&authorizer[..], [Event::Head(head)] if head.role == Role::Authorizer));
}

#[test]
fn an_abort_ends_a_request_whose_parameters_are_missing() {
    let events = read(&[begin(1, 1, 1), record(2, 1, b""), begin(1, 1, 1), record(4, 1, b"")]);
    assert_eq!(events, [refused(1, Protocol::RequestComplete, true), head(1, true, b"")]);
    let events = read(&[begin(1, 1, 1), record(4, 1, b""), record(2, 1, b"")]);
    assert_eq!(events, [head(1, true, b""), Event::Abort]);
    assert_eq!(read(&[record(2, 1, b"")]), []);
}

#[test]
fn records_that_violate_the_protocol_end_the_connection() {
    let long = vec![b'x'; 60_000];
    let many = b"\x01\x00a".repeat(MAX_PARAMS + 1);
    let endless: Vec<_> = [begin(1, 1, 0)]
        .into_iter()
        .chain((0..=MAX_PARAMS_BYTES / long.len()).map(|_| record(4, 1, &long)))
        .collect();
    for records in [
        &[b"\x02\x01\0\x01\0\0\0\0".to_vec()][..],
        &[begin(0, 1, 0)],
        &[record(1, 1, b"1234567")],
        &[record(1, 1, b"123456789")],
        &[begin(1, 1, 0), begin(1, 1, 0)],
        &[begin(1, 1, 0), record(5, 1, b"body before parameters")],
        &[begin(1, 1, 0), record(4, 1, b""), record(4, 1, b"more")],
        &[begin(1, 1, 0), record(4, 1, b"\x05\x01short"), record(4, 1, b"")],
        &[begin(1, 1, 0), record(4, 1, b"\xff\xff\xff\xff\x01a"), record(4, 1, b"")],
        &[begin(1, 1, 0), record(4, 1, &many), record(4, 1, b"")],
        &[record(3, 1, b"")],
        &[record(6, 1, b"")],
        &[record(7, 0, b"")],
        &[record(4, 0, b"")],
        &[record(5, 0, b"")],
        &[record(2, 0, b"")],
        &endless,
    ] {
        assert!(is_malformed(records), "{:?}", records.iter().map(Vec::len).collect::<Vec<_>>());
    }
}

proptest! {
    #[test]
    fn any_bytes_mean_the_same_whatever_the_cut(
        records in prop::collection::vec(
            (0u8..13, 0u16..3, prop::collection::vec(0u8..4, 0..12)), 0..12),
        cut in 1usize..40,
    ) {
        let bytes: Vec<u8> =
            records.iter().flat_map(|(kind, id, content)| record(*kind, *id, content)).collect();
        prop_assert_eq!(events(&bytes, cut), events(&bytes, usize::MAX));
    }

    #[test]
    fn parameters_are_read_back(
        pairs in prop::collection::vec(("[A-Z_]{0,200}", "[ -~]{0,300}"), 0..20),
    ) {
        let mut bytes = begin(1, 1, 0);
        let all = pairs.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        put_params(1, all.clone(), &mut bytes);
        let (events, is_whole) = events(&bytes, 17);
        prop_assert!(is_whole);
        let [Event::Head(head)] = &events[..] else { panic!("{events:?}") };
        prop_assert!(Pairs::new(&head.params).eq(all.map(Ok)));
    }
}
