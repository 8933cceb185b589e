use bytes::Bytes;
use howdah_config as config;
use howdah_http::fixture::request;
use howdah_http::message::Version;
use howdah_http::variables::VariableSource;

use super::*;

fn written(request: &Request, body: u64, keep: bool) -> String {
    written_for(
        request,
        body,
        if keep { ConnectionOption::KeepAlive } else { ConnectionOption::Close },
    )
}

fn written_for(request: &Request, body: u64, option: ConnectionOption<'_>) -> String {
    let address = Address::Inet(([127, 0, 0, 1], 8080).into());
    let head =
        head(request, &address, &HeadChanges::default(), Some(body), option).expect("a target");
    String::from_utf8(head).expect("a head in ASCII")
}

fn with(fields: &[(&str, &str)]) -> Request {
    request("/a%20b/?c=d%2F", fields)
}

#[test]
fn target_host_and_fields_are_those_of_the_client() {
    let request = with(&[("Host", "example.org:81"), ("X-A", "1"), ("x-a", "2")]);
    assert_eq!(
        written(&request, 0, false),
        "GET /a%20b/?c=d%2F HTTP/1.1\r\nConnection: close\r\nHost: example.org:81\r\nX-A: 1\r\n\
         x-a: 2\r\n\r\n"
    );
}

/// Scenario: `pass_request_headers` is false.
#[test]
fn only_the_host_of_a_client_is_passed_if_no_field_may_be() {
    let request = with(&[
        ("Host", "example.org"),
        ("Cookie", "a"),
        ("Authorization", "b"),
        ("Content-Length", "3"),
        ("Content-Type", "c"),
    ]);
    let changes = HeadChanges {
        removes_all: true,
        set: vec![("X-A".to_owned(), b"1".to_vec())],
        ..HeadChanges::default()
    };
    let address = Address::Inet(([127, 0, 0, 1], 8080).into());
    let written = |length| {
        let head = head(&request, &address, &changes, Some(length), ConnectionOption::Close);
        String::from_utf8(head.expect("a target")).expect("a head in ASCII")
    };
    let expected =
        "GET /a%20b/?c=d%2F HTTP/1.1\r\nConnection: close\r\nHost: example.org\r\nX-A: 1\r\n";
    assert_eq!(written(0), format!("{expected}\r\n"));
    assert_eq!(written(3), format!("{expected}Content-Length: 3\r\n\r\n"));
}

#[test]
fn a_request_without_host_gets_one() {
    let old = Request { version: Version::Http10, ..with(&[]) };
    assert!(
        written(&old, 0, true).contains("\r\nHost: 127.0.0.1:8080\r\nConnection: keep-alive\r\n")
    );
}

#[test]
fn the_body_is_framed_by_us_alone() {
    for fields in [
        &[("Transfer-Encoding", "chunked")][..],
        &[("Content-Length", "5")],
        &[("content-length", "005"), ("Expect", "100-continue"), ("TE", "trailers")],
    ] {
        let written = written(&with(fields), 5, false).to_ascii_lowercase();
        assert_eq!(written.matches("content-length").count(), 1, "{written}");
        assert!(written.ends_with("\r\ncontent-length: 5\r\n\r\n"), "{written}");
        for name in ["transfer-encoding", "expect", "te:", "trailer"] {
            assert!(!written.contains(&format!("\r\n{name}")), "{written}");
        }
    }
    assert!(written(&with(&[("Content-Length", "0")]), 0, false).contains("Content-Length: 0\r\n"));
    assert!(!written(&with(&[]), 0, false).contains("Content-Length"));
}

#[test]
fn only_fields_of_the_connection_end_with_it() {
    let written = written(
        &with(&[
            ("Connection", "close, X-Forwarded-For, Authorization, x-hop"),
            ("Connection", "Host, Content-Length,, X-Real-IP"),
            ("Host", "example.org"),
            ("X-Forwarded-For", "10.0.0.1"),
            ("Authorization", "Basic x"),
            ("X-Real-IP", "10.0.0.1"),
            ("X-Hop", "1"),
            ("Keep-Alive", "timeout=5"),
            ("Proxy-Connection", "keep-alive"),
            ("TE", "trailers"),
            ("Trailer", "X"),
            ("Upgrade", "websocket"),
            ("HTTP2-Settings", "x"),
        ]),
        3,
        false,
    );
    assert_eq!(
        written,
        "GET /a%20b/?c=d%2F HTTP/1.1\r\nConnection: close\r\nHost: example.org\r\n\
         X-Forwarded-For: 10.0.0.1\r\nAuthorization: Basic x\r\nX-Real-IP: 10.0.0.1\r\n\
         Content-Length: 3\r\n\r\n"
    );
}

#[test]
fn a_rewritten_path_is_encoded_and_keeps_the_query() {
    let line = |path: &'static [u8]| {
        let request = Request { path: Bytes::from_static(path), ..with(&[]) };
        written(&request, 0, false).lines().next().map(str::to_owned)
    };
    assert_eq!(line(b"/foo/foo").as_deref(), Some("GET /foo/foo?c=d%2F HTTP/1.1"));
    // Hardening 22 and 23: decoded characters of a path neither end it nor add a line.
    assert_eq!(
        line(b"/a?b#c%2e/\r\nX: y \xff").as_deref(),
        Some("GET /a%3Fb%23c%252e/%0D%0AX:%20y%20%FF?c=d%2F HTTP/1.1")
    );
}

#[test]
fn what_others_take_for_a_separator_is_passed_on_as_part_of_a_name() {
    let line = |target: &[u8]| {
        let text = std::str::from_utf8(target).expect("UTF-8");
        let mut request = Request { target: Bytes::copy_from_slice(target), ..request(text, &[]) };
        let sent = written(&request, 0, false).lines().next().map(str::to_owned);
        // The same with a path that a route has changed: the query is the client's.
        request.path = Bytes::from_static(b"/new\\path");
        let rewritten = written(&request, 0, false).lines().next().map(str::to_owned);
        (sent.expect("a line"), rewritten.expect("a line"))
    };
    assert_eq!(
        line("/a\\..\\b\u{a0}c?d\\e=\u{e9}?\"<>^`{|}".as_bytes()),
        (
            "GET /a%5C..%5Cb%C2%A0c?d%5Ce=%C3%A9?\"<>^`{|} HTTP/1.1".to_owned(),
            "GET /new%5Cpath?d%5Ce=%C3%A9?\"<>^`{|} HTTP/1.1".to_owned()
        )
    );
}

#[test]
fn a_path_of_nothing_is_no_target() {
    let request = Request { path: Bytes::new(), ..with(&[]) };
    let address = Address::Abstract("a".to_owned());
    assert_eq!(
        head(&request, &address, &HeadChanges::default(), Some(0), ConnectionOption::Close),
        None
    );
}

#[test]
fn an_upstream_changes_host_and_fields() {
    let request =
        request("/a%0d%0aEvil:%201", &[("Host", "a"), ("X-Old", "1"), ("X-Set", "client")]);
    let template = |text| config::Template::parse(text).unwrap();
    let upstream = config::Upstream {
        host: Some(template("backend")),
        headers: vec![
            ("X-Old".to_owned(), None),
            ("x-set".to_owned(), Some(template("$uri"))),
            ("X-Empty".to_owned(), Some(template("$arg_none"))),
        ],
        ..config::Upstream::new("u", Vec::new())
    };
    let source = VariableSource::of(&request, std::time::Instant::now());
    let changes = HeadChanges::new(&upstream, &config::ServerOptions::default(), &request, &source);
    let address = Address::Inet(([127, 0, 0, 1], 8080).into());
    let head = head(&request, &address, &changes, Some(0), ConnectionOption::Close).unwrap();
    let expected = "GET /a%0d%0aEvil:%201 HTTP/1.1\r\nHost: backend\r\nConnection: close\r\n\
        x-set: /a%0D%0AEvil: 1\r\n\r\n";
    assert_eq!(String::from_utf8(head).unwrap(), expected);
}

#[test]
fn another_protocol_is_asked_for_as_the_client_does() {
    let offered = |connection, protocols: &str| {
        let request = with(&[("Host", "a"), ("Connection", connection), ("Upgrade", protocols)]);
        upgrade(&request).map(|names| {
            let head = written_for(&request, 0, ConnectionOption::Upgrade(&names));
            assert!(head.contains("\r\nConnection: upgrade\r\nUpgrade: "), "{head}");
            assert_eq!(head.matches("pgrade: ").count(), 1, "{head}");
            String::from_utf8(names).unwrap()
        })
    };
    assert_eq!(offered("Upgrade", "websocket").as_deref(), Some("websocket"));
    assert_eq!(
        offered("keep-alive, UPGRADE", "WebSocket ,,x/1").as_deref(),
        Some("WebSocket, x/1")
    );
    assert_eq!(offered("keep-alive", "websocket"), None);
    assert_eq!(offered("upgrade", " , "), None);
    let old = with(&[("Connection", "upgrade"), ("Upgrade", "websocket")]);
    assert_eq!(upgrade(&Request { version: Version::Http10, ..old }), None);
}

#[test]
fn no_tunnel_carries_http() {
    for name in ["h2c", "H2C", "h2", "h3", "HTTP/2.0", "http/1.1", "TLS/1.0", "h2c, TLS/1.2"] {
        let request = with(&[("Connection", "Upgrade, HTTP2-Settings"), ("Upgrade", name)]);
        assert_eq!(upgrade(&request), None, "{name}");
    }
    let both = with(&[("Connection", "Upgrade"), ("Upgrade", "h2c, websocket")]);
    assert_eq!(upgrade(&both).as_deref(), Some(&b"websocket"[..]));
    assert!(is_offered(b"WebSocket", b"a, websocket") && !is_offered(b"h2c", b"websocket"));
}
