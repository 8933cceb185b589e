use howdah_http::fixture;
use http::StatusCode;
use proptest::prelude::*;

use super::*;

fn encoded(fields: &[(&str, &str)], changes: &HeadChanges) -> http::Request<()> {
    let request = fixture::request("/a?b=c", fields);
    let address = Address::Inet(([127, 0, 0, 1], 8080).into());
    let outline =
        Outline { address: &address, is_secure: false, takes_trailers: true, length: Some(3) };
    encode(&request, changes, outline).unwrap()
}

#[test]
fn a_request_is_written_without_what_belongs_to_its_connection() {
    let head = encoded(
        &[
            ("Host", "shop.example"),
            ("Connection", "keep-alive, X-Hop"),
            ("X-Hop", "1"),
            ("Transfer-Encoding", "chunked"),
            ("TE", "trailers"),
            ("Upgrade", "h2c"),
            ("Content-Length", "77"),
            ("X-Kept", "2"),
        ],
        &HeadChanges::default(),
    );
    assert_eq!(head.uri().to_string(), "http://shop.example/a?b=c");
    let names: Vec<_> = head.headers().keys().map(HeaderName::as_str).collect();
    assert_eq!(names, ["x-kept", "content-length", "te"]);
    assert_eq!(head.headers()["content-length"], "3");
    assert_eq!(head.headers()["te"], "trailers");
}

#[test]
fn the_host_is_that_of_the_settings_or_of_the_server() {
    let host = Some(b"inside".to_vec());
    let changes = HeadChanges { host, ..HeadChanges::default() };
    assert_eq!(encoded(&[("Host", "a")], &changes).uri().authority().unwrap(), "inside");
    let usual = HeadChanges::default();
    assert_eq!(encoded(&[], &usual).uri().authority().unwrap(), "127.0.0.1:8080");
    assert_eq!(encoded(&[("Host", "")], &usual).uri().authority().unwrap(), "127.0.0.1:8080");
}

#[test]
fn messages_of_grpc_are_known_by_their_type() {
    let is = |media_type: &str| is_grpc(&fixture::request("/", &[("Content-Type", media_type)]));
    for media_type in
        ["application/grpc", "application/grpc+proto", "Application/GRPC; a=b", "application/grpc "]
    {
        assert!(is(media_type), "{media_type}");
    }
    for media_type in ["application/grpc-web", "application/grp", "", "text/plain"] {
        assert!(!is(media_type), "{media_type}");
    }
}

fn map(fields: &[(&str, &str)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    fields.iter().for_each(|(name, value)| put(&mut map, name.as_bytes(), value.as_bytes()));
    map
}

#[test]
fn a_response_has_no_fields_of_its_connection() {
    let fields =
        map(&[("server", "x"), ("content-length", "5"), ("date", "d"), ("a", "1"), ("a", "2")]);
    let head = decode(StatusCode::OK, &fields).unwrap();
    assert_eq!((head.length, head.has_date), (Some(5), true));
    assert_eq!(head.fields.as_bytes(), b"date: d\r\na: 1\r\na: 2\r\n");
}

#[test]
fn a_response_that_can_be_read_in_two_ways_is_refused() {
    for fields in [
        &[("content-length", "5"), ("content-length", "6")][..],
        &[("content-length", "5"), ("content-length", "5")],
        &[("content-length", "+5")],
        &[("content-length", "5, 5")],
    ] {
        assert!(decode(StatusCode::OK, &map(fields)).is_err(), "{fields:?}");
    }
    let status = StatusCode::from_u16(777).unwrap();
    assert!(decode(status, &HeaderMap::new()).is_err());
}

#[test]
fn a_trailer_tells_the_status_of_grpc_and_nothing_of_a_head() {
    let fields = map(&[
        ("grpc-status", "0"),
        ("grpc-message", "ok"),
        ("content-length", "9"),
        ("host", "a"),
    ]);
    assert_eq!(&*decode_trailer(&fields), b"grpc-status: 0\r\ngrpc-message: ok\r\n");
    assert_eq!(trailer(b"A: 1\r\nB: 2\r\n").len(), 2);
}

proptest! {
    /// For any method, target, host and fields of a client, there is a request or a reason, and no
    /// field of the connection.
    #[test]
    fn every_request_is_written_or_refused(
        method in proptest::collection::vec(any::<u8>(), 0..8),
        target in proptest::collection::vec(any::<u8>(), 0..40),
        host in "\\PC{0,20}",
        name in "[!#$%&'*+.^_`|~0-9a-zA-Z-]{1,12}",
        value in "[ -~]{0,12}",
    ) {
        let mut request = fixture::request("/x", &[("Host", &host), (&name, &value)]);
        request.method = method.into();
        request.target = target.into();
        let address = Address::Unix("/run/a.sock".into());
        let outline =
            Outline { address: &address, is_secure: true, takes_trailers: false, length: None };
        if let Ok(head) = encode(&request, &HeadChanges::default(), outline) {
            for absent in ["connection", "transfer-encoding", "upgrade", "keep-alive", "te"] {
                prop_assert!(!head.headers().contains_key(absent));
            }
        }
    }
}
