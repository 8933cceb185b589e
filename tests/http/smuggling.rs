//! Requests that could be read in two ways: where a body ends, which host is meant, and where the
//! next request on a connection begins.

use harness::{Server, Site};
use serde_json::json;

/// Returns the method, target and body of the request.
pub const ECHO: &str = "echo $_SERVER['REQUEST_METHOD'], ' ', $_SERVER['REQUEST_URI'], ' [',
    file_get_contents('php://input'), ']';";

pub fn site() -> Site {
    Site::script("a.php", ECHO)
        .file("a.txt", "some file")
        .with(json!({"settings": {"http": {"chunked_transform": true}}}))
}

/// The bytes that an attacker wants to be read as a request of its own.
const SMUGGLED: &str = "GET /a.php?smuggled HTTP/1.1\r\nHost: a\r\n\r\n";

/// Ends a connection that the request before has not ended.
const LAST: &str = "GET /a.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

/// Sends a request and a last one, and takes all responses until the server closes the
/// connection.
fn answers(server: &Server, request: &str) -> (Vec<u16>, String) {
    let mut client = server.connect();
    let _ = client.try_send(format!("{request}{LAST}"));
    let (mut statuses, mut text) = (Vec::new(), String::new());
    while let Some(response) = client.next_response() {
        statuses.push(response.status);
        text += &response.text();
    }
    (statuses, text)
}

#[test]
fn a_body_that_can_be_framed_in_two_ways_is_refused() {
    let server = site().serve();
    let framings = [
        "Content-Length: 6\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 6",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        "Transfer-Encoding: identity, chunked",
        "Transfer-Encoding: chunked, chunked",
        "Transfer-Encoding: chunked, identity",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding: chunked;q=1",
        "Transfer-Encoding: \"chunked\"",
        "Transfer-Encoding:\x0bchunked",
        "Transfer-Encoding\t: chunked",
        "Transfer-Encoding : chunked",
        "X: y\r\n Transfer-Encoding: chunked",
        "X: y\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chu\rnked",
        "Content-Length: 0\r\nContent-Length: 40",
        "Content-Length: 0, 40",
        "Content-Length: +0",
        "Content-Length: -1",
        "Content-Length: 0x0",
        "Content-Length: 0 0",
        "Content-Length: ",
        "Content-Length: 18446744073709551656",
        "Content-Length : 0",
        "Content-Length:\x000",
        "Content\0Length: 0",
    ];
    for target in ["/a.php", "/a.txt"] {
        for framing in framings {
            let request = format!(
                "POST {target} HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n0\r\n\r\n{SMUGGLED}"
            );
            let (statuses, text) = answers(&server, &request);
            assert!(!text.contains("smuggled"), "{target} {framing:?}: {text}");
            assert!(
                matches!(statuses.as_slice(), [400 | 411 | 501]),
                "{target} {framing:?}: {statuses:?} {text}"
            );
        }
    }
}

#[test]
fn old_versions_cannot_bring_chunks() {
    let server = site().serve();
    let head = "POST /a.php HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n";
    for more in ["", "Connection: keep-alive\r\n"] {
        let (statuses, text) = answers(&server, &format!("{head}{more}\r\n0\r\n\r\n{SMUGGLED}"));
        assert!(!text.contains("smuggled"), "{text}");
        assert!(matches!(statuses.as_slice(), [400 | 411 | 501]), "{statuses:?}");
    }
}

#[test]
fn a_body_that_nobody_reads_is_never_taken_for_a_request() {
    let server = site().serve();
    // Neither a file nor an error uses a body, and a script need not read it.
    for (target, status) in [("/a.txt", 405), ("/none", 404), ("/a.php/x", 200), ("/.env", 404)] {
        let length = SMUGGLED.len();
        let request = format!(
            "POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{SMUGGLED}"
        );
        let (statuses, text) = answers(&server, &request);
        assert!(!text.contains("GET /a.php?smuggled []"), "{target}: {text}");
        assert_eq!(statuses.first(), Some(&status), "{target}: {text}");
        let size = format!("{length:x}");
        let chunked = format!(
            "POST {target} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
             {size}\r\n{SMUGGLED}\r\n0\r\n\r\n"
        );
        let (_, text) = answers(&server, &chunked);
        assert!(!text.contains("GET /a.php?smuggled []"), "{target}: {text}");
    }
}

#[test]
fn a_body_that_was_only_expected_is_never_taken_for_a_request() {
    let server = site().serve();
    for target in ["/a.txt", "/none"] {
        let mut client = server.connect();
        client.send(format!(
            "PUT {target} HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\
             Content-Length: {}\r\n\r\n",
            SMUGGLED.len()
        ));
        assert!(matches!(client.response().status, 404 | 405), "{target}");
        // The client may send the body all the same.
        let _ = client.try_send(SMUGGLED);
        if let Some(next) = client.next_response() {
            panic!("{target}: {next:?}");
        }
    }
}

#[test]
fn nothing_but_http_follows_a_request() {
    let server = site().serve();
    // No tunnel is opened by asking for one.
    for head in [
        "GET /a.php HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
        "GET /a.php HTTP/1.1\r\nHost: a\r\nConnection: upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\
         HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n",
        "CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n",
    ] {
        let (statuses, text) = answers(&server, &format!("{head}\x01\x02 no HTTP\r\n\r\n"));
        assert!(!statuses.contains(&101), "{head}: {statuses:?} {text}");
        assert!(statuses.last().is_some_and(|last| *last >= 400), "{head}: {statuses:?} {text}");
    }
}

#[test]
fn a_host_that_can_be_read_in_two_ways_is_refused() {
    let server = site().serve();
    let requests = [
        "GET /a.php HTTP/1.1\r\n\r\n",
        "GET /a.php HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        "GET /a.php HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n",
        "GET /a.php HTTP/1.1\r\nHost: a, b\r\n\r\n",
        "GET /a.php HTTP/1.1\r\nHost: u@a\r\n\r\n",
        "GET /a.php HTTP/1.1\r\nHost: u:p@a\r\n\r\n",
        "GET /a.php HTTP/1.1\r\nHost: a:x\r\n\r\n",
        "GET /a.php HTTP/1.1\r\nHost: a:99999\r\n\r\n",
        "GET /a.php HTTP/1.1\r\nHost: a/b\r\n\r\n",
        "GET /a.php HTTP/1.1\r\nHost: a b\r\n\r\n",
        "GET /a.php HTTP/1.1\r\nHost: a\x00\r\n\r\n",
        "GET /a.php HTTP/1.1\r\nHost: <script>\r\n\r\n",
        "GET /a.php HTTP/1.1\r\nHost: [::1\r\n\r\n",
        "GET /a.php HTTP/1.1\r\nHost : a\r\n\r\n",
        "GET http://u@a/a.php HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET http:///a.php HTTP/1.1\r\nHost: a\r\n\r\n",
    ];
    for request in requests {
        let (statuses, text) = answers(&server, request);
        assert_eq!(statuses, [400], "{request:?}: {text}");
    }
}

#[test]
fn lenient_reading_leaves_nothing_to_read_in_two_ways() {
    let code = "echo json_encode([$_SERVER['REQUEST_URI'], $_GET, $_SERVER['HTTP_HOST'] ?? null]);";
    let server = Site::script("a.php", code)
        .file("a.txt", "some file")
        .with(json!({"settings": {"http": {"strict_requests": false}}}))
        .serve();
    for (request, seen) in [
        ("GET /a.php HTTP/1.1\r\n\r\n", r#"["\/a.php",[],null]"#),
        ("GET  /a.php  HTTP/1.1\r\n\r\n", r#"["\/a.php",[],null]"#),
        (
            "GET /a.php?b= c  d HTTP/1.1\r\nHost: a\r\n\r\n",
            r#"["\/a.php?b=%20c%20%20d",{"b":" c  d"},"a"]"#,
        ),
        (
            "GET /a.php?b HTTP/1.1 HTTP/1.1\r\nHost: <a>\r\n\r\n",
            r#"["\/a.php?b%20HTTP\/1.1",{"b_HTTP\/1_1":""},"%3Ca%3E"]"#,
        ),
    ] {
        let (statuses, text) = answers(&server, request);
        assert_eq!((statuses.as_slice(), &*text), (&[200, 200][..], &*format!("{seen}some file")));
    }
    for request in [
        "GET /a.php HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
        "GET /a.php HTTP/1.1\r\nHost: a b\r\n\r\n",
        "GET /a.php HTTP/1.1\r\nHost: a/b\r\n\r\n",
        "GET /a.php HTTP/1.1\r\nHost: ..\r\n\r\n",
        "GET /a.php HTTP/1.1\r\nHost: a\0\r\n\r\n",
        "GET /a.php HTTP/1.1\r\nHost : a\r\n\r\n",
        "GET /a \0.php HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /a \t.php HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /a \r.php HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / /../../a.php HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /a.php  HTTP/1.1 \r\nHost: a\r\n\r\n",
        "GET http://a b/a.php HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET   HTTP/1.1\r\nHost: a\r\n\r\n",
    ] {
        let (statuses, text) = answers(&server, request);
        assert_eq!(statuses, [400], "{request:?}: {text}");
    }
}

#[test]
fn a_script_is_told_one_host_only() {
    let code = "echo $_SERVER['HTTP_HOST'], ' ', $_SERVER['SERVER_NAME'];";
    let server = Site::script("host.php", code).serve();
    let response = server.send("GET http://b/host.php HTTP/1.1\r\nHost: a\r\n\r\n");
    // RFC 9112, 3.2.2: the target's host counts. Refusing the request is right as well.
    assert!(response.status == 400 || response.text() == "b b", "{response:?}");
}

#[test]
fn chunks_are_read_as_the_rfc_says_or_not_at_all() {
    let server = site().serve();
    let post = |body: &str| {
        answers(
            &server,
            &format!("POST /a.php HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{body}"),
        )
    };
    for whole in [
        "5\r\nhello\r\n0\r\n\r\n",
        "5;ext\r\nhello\r\n0\r\n\r\n",
        "5;ext=\"a;b\\\"c\"\r\nhello\r\n0;last\r\n\r\n",
        "0005\r\nhello\r\n000\r\nTrailer: x\r\n\r\n",
        "2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
    ] {
        let (statuses, text) = post(whole);
        let expected = "POST /a.php [hello]some file";
        assert_eq!((statuses, text.as_str()), (vec![200, 200], expected), "{whole:?}");
    }
    for broken in [
        "5 5\r\nhello\r\n0\r\n\r\n",
        "5\nhello\r\n0\r\n\r\n",
        "5\0\r\nhello\r\n0\r\n\r\n",
        "5;a\nb\r\nhello\r\n0\r\n\r\n",
        "5;a\0b\r\nhello\r\n0\r\n\r\n",
        "+5\r\nhello\r\n0\r\n\r\n",
        "-5\r\nhello\r\n0\r\n\r\n",
        "0x5\r\nhello\r\n0\r\n\r\n",
        "5\r\nhelloX\r\n0\r\n\r\n",
        "5\r\nhello0\r\n\r\n",
        "ffffffffffffffff5\r\nhello\r\n0\r\n\r\n",
        "\r\nhello\r\n0\r\n\r\n",
        "g\r\nhello\r\n0\r\n\r\n",
        "5\r\nhello\r\n0\r\nTransfer-Encoding: chunked\n\r\n",
    ] {
        let (statuses, text) = post(&format!("{broken}{SMUGGLED}"));
        assert!(!text.contains("smuggled []"), "{broken:?}: {text}");
        assert!(matches!(statuses.as_slice(), [400 | 413]), "{broken:?}: {statuses:?} {text}");
    }
}
