//! The whole server as a proxy, in front of a real nginx and of a server that reports its requests:
//! additions of an action to responses apply to those of other servers too.

use std::fs;
use std::io::Read;

use flate2::read::GzDecoder;
use harness::backends::Backend;
use harness::client::Response;
use harness::{Server, Site};
use serde_json::{Value, json};

/// Serves everything with this action.
fn serve(action: Value, http: Value) -> Server {
    let changes = json!({"routes": [{"action": action}], "settings": {"http": http}});
    Site::new().with(changes).serve()
}

/// Passes everything on, and nothing else.
fn plain(backend: &Backend) -> Server {
    serve(json!({"proxy": backend.url()}), json!({}))
}

fn compressing(backend: &Backend) -> Server {
    let compressors = json!([{"encoding": "gzip", "min_length": 100}]);
    serve(json!({"proxy": backend.url()}), json!({"compression": {"compressors": compressors}}))
}

/// A request with these fields, and its response; the connection stays open.
fn ask(server: &Server, method: &str, target: &str, fields: &str) -> Response {
    let mut client = server.connect();
    client.send(format!("{method} {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
    let response = if method == "HEAD" { client.head_response() } else { client.response() };
    if !response.cut {
        // In all cases, the next response on the connection is in its place.
        client.send("OPTIONS /none HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        client.response();
        assert!(client.is_closed());
    }
    response
}

fn gunzipped(response: &Response) -> Vec<u8> {
    assert_eq!(response.field("Content-Encoding"), Some("gzip"), "{response:?}");
    let mut plain = Vec::new();
    GzDecoder::new(&*response.body).read_to_end(&mut plain).expect("whole gzip");
    plain
}

/// The request as the server in Python reports it.
fn echoed(response: &Response) -> Value {
    assert_eq!(response.status, 200, "{response:?}");
    serde_json::from_slice(&response.body).expect("JSON")
}

// -- passing on --

#[test]
fn files_of_nginx_come_as_nginx_sends_them() {
    let nginx = Backend::nginx();
    let page = "<p>some page</p>".repeat(10_000);
    fs::write(nginx.root().join("a.html"), &page).unwrap();
    fs::create_dir(nginx.root().join("directory")).unwrap();
    let server = plain(&nginx);
    let get = ask(&server, "GET", "/a.html", "");
    assert_eq!((get.status, get.text() == page), (200, true));
    let length = page.len().to_string();
    assert_eq!(get.field("Content-Length"), Some(&*length));
    assert_eq!(get.field("Accept-Ranges"), Some("bytes"));
    assert!(get.field("Server").is_some_and(|server| server.starts_with("Howdah")));
    let (tag, date) = (get.field("ETag").unwrap(), get.field("Last-Modified").unwrap());

    let head = ask(&server, "HEAD", "/a.html", "");
    assert_eq!((head.field("ETag"), head.field("Content-Length")), (Some(tag), Some(&*length)));
    for condition in [format!("If-None-Match: {tag}\r\n"), format!("If-Modified-Since: {date}\r\n")]
    {
        let response = ask(&server, "GET", "/a.html", &condition);
        assert_eq!((response.status, response.field("ETag")), (304, Some(tag)));
    }
    let part = ask(&server, "GET", "/a.html", "Range: bytes=3-10\r\n");
    assert_eq!((part.status, part.text().as_str()), (206, "some pag"));
    assert_eq!(part.field("Content-Range"), Some(&*format!("bytes 3-10/{length}")));
    assert_eq!(ask(&server, "GET", "/a.html", "Range: bytes=999999-\r\n").status, 416);
    let moved = ask(&server, "GET", "/directory", "");
    assert_eq!(moved.status, 301);
    assert!(moved.field("Location").is_some_and(|to| to.ends_with("/directory/")), "{moved:?}");
    assert!(ask(&server, "GET", "/missing", "").text().contains("nginx"), "its own page");
}

/// Sends six requests, and returns the number of connections to nginx that they took.
fn connections_to_nginx(action: fn(&str) -> Value, keepalive: Option<usize>, unit: bool) -> usize {
    let nginx = Backend::nginx();
    fs::write(nginx.root().join("a.txt"), "some file").unwrap();
    let mut upstream = json!({"servers": {nginx.address.to_string(): {}}});
    if let Some(keepalive) = keepalive {
        upstream["keepalive"] = json!(keepalive);
    }
    let site = Site::new().with(json!({
        "routes": [{"action": action(&nginx.address.to_string())}],
        "upstreams": {"nginx": upstream},
        "settings": {"listen_threads": 1},
    }));
    let server = if unit { site.argument("--unit").serve() } else { site.serve() };
    let mut client = server.connect();
    for target in ["/a.txt", "/missing", "/a.txt", "/a.txt"] {
        client.get(target);
    }
    client.send("HEAD /a.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    client.head_response();
    client.get("/a.txt");
    let seen = harness::eventually("all requests are logged", || {
        Some(nginx.seen()).filter(|seen| seen.len() == 6)
    });
    let mut connections: Vec<_> =
        seen.iter().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
    connections.sort();
    connections.dedup();
    connections.len()
}

#[test]
fn connections_to_servers_are_kept_unless_the_document_says_otherwise() {
    let upstream = |_: &str| json!({"pass": "upstreams/nginx"});
    let proxy = |address: &str| json!({"proxy": format!("http://{address}")});
    for (action, keepalive, unit, expected) in [
        (upstream as fn(&str) -> Value, Some(2), false, 1),
        (upstream, None, false, 1),
        (proxy, None, false, 1),
        (upstream, Some(0), false, 6),
        (upstream, None, true, 6),
        (proxy, None, true, 6),
        (upstream, Some(2), true, 1),
    ] {
        let found = connections_to_nginx(action, keepalive, unit);
        assert_eq!(found, expected, "{keepalive:?} {unit}");
    }
}

#[test]
fn request_bodies_arrive_whole_however_they_were_framed() {
    let (nginx, python) = (Backend::nginx(), Backend::python());
    let body: Vec<u8> =
        (0..3_000_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for len in [0, 1, 1000, 100_000, body.len()] {
        let body = &body[..len];
        let mut chunked = Vec::new();
        for piece in body.chunks(7777) {
            chunked.extend_from_slice(format!("{:x};x=y\r\n", piece.len()).as_bytes());
            chunked.extend_from_slice(piece);
            chunked.extend_from_slice(b"\r\n");
        }
        chunked.extend_from_slice(b"0\r\nX-Trailer: y\r\n\r\n");
        let framed = [
            (format!("Content-Length: {len}\r\n"), body.to_vec()),
            ("Transfer-Encoding: chunked\r\n".to_owned(), chunked),
        ];
        for (field, bytes) in framed {
            let server = plain(&python);
            let mut client = server.connect();
            client.send(format!("POST /echo HTTP/1.1\r\nHost: a\r\n{field}\r\n"));
            client.send(&bytes);
            let echo = echoed(&client.response());
            let mut crc = flate2::Crc::new();
            crc.update(body);
            assert_eq!(
                (&echo["length"], &echo["crc"]),
                (&json!(len), &json!(crc.sum())),
                "{field}"
            );
            assert_eq!(echo["fields"]["content-length"], json!(len.to_string()));
            assert_eq!(echo["fields"].get("transfer-encoding"), None);

            let server = plain(&nginx);
            let mut client = server.connect();
            client.send(format!("PUT /b.bin HTTP/1.1\r\nHost: a\r\n{field}\r\n"));
            client.send(&bytes);
            assert!(matches!(client.response().status, 201 | 204));
            assert!(client.get("/b.bin").body == body, "{field}");
        }
    }
}

#[test]
fn a_client_that_expects_100_gets_it_from_us() {
    let python = Backend::python();
    let server = plain(&python);
    let mut client = server.connect();
    client.send(
        "POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n",
    );
    assert_eq!(client.response().status, 100);
    let echo = echoed(&client.send("body").response());
    assert_eq!((&echo["length"], echo["fields"].get("expect")), (&json!(4), None));
}

#[test]
fn spaces_of_a_target_arrive_escaped_and_as_one_request() {
    let python = Backend::python();
    let server = serve(json!({"proxy": python.url()}), json!({"strict_requests": false}));
    for (line, passed) in [
        ("GET /echo/a b?c= d HTTP/1.1", "GET /echo/a%20b?c=%20d HTTP/1.1"),
        ("GET  /echo  HTTP/1.1", "GET /echo HTTP/1.1"),
        ("GET /echo HTTP/1.1 HTTP/1.1", "GET /echo%20HTTP/1.1 HTTP/1.1"),
        ("GET /echo? /x HTTP/1.0 HTTP/1.1", "GET /echo?%20/x%20HTTP/1.0 HTTP/1.1"),
        ("GET http://b/echo x HTTP/1.1", "GET /echo%20x HTTP/1.1"),
    ] {
        let mut client = server.connect();
        client.send(format!("{line}\r\nHost: b\r\nConnection: close\r\n\r\n"));
        assert_eq!(echoed(&client.response())["line"], json!(passed));
        assert!(client.is_closed());
    }
    let before = python.seen();
    assert_eq!(before.len(), 5, "{before:?}");
    for line in ["GET /echo \r/x HTTP/1.1", "GET /echo \t HTTP/1.1", "GET /echo \0 HTTP/1.1"] {
        let mut client = server.connect();
        client.send(format!("{line}\r\nHost: b\r\n\r\n"));
        assert_eq!(client.response().status, 400, "{line:?}");
    }
    assert_eq!(python.seen(), before, "nothing of these has reached it");
}

#[test]
fn a_request_without_host_is_passed_on_with_one() {
    let python = Backend::python();
    let server = serve(json!({"proxy": python.url()}), json!({"strict_requests": false}));
    for version in ["HTTP/1.0", "HTTP/1.1"] {
        let response = server.send(format!("GET /echo {version}\r\nConnection: close\r\n\r\n"));
        assert_eq!(echoed(&response)["fields"]["host"], json!(python.address.to_string()));
    }
}

#[test]
fn a_rewritten_path_is_passed_on_with_the_query() {
    let python = Backend::python();
    let action = json!({"rewrite": "/echo/x%20y$uri", "proxy": python.url()});
    let server = serve(action, json!({"strict_requests": false}));
    let response = ask(&server, "GET", "/a%2Fb%20c?d=%20e f", "");
    assert_eq!(echoed(&response)["line"], json!("GET /echo/x%20y/a/b%20c?d=%20e%20f HTTP/1.1"));
}

#[test]
fn a_response_that_is_cut_behind_us_is_cut_before_us() {
    let python = Backend::python();
    let response = ask(&plain(&python), "GET", "/cut", "");
    assert!(response.cut && response.status == 200 && response.body.len() == 100, "{response:?}");
    // With other framing the client must notice as well.
    let server = compressing(&python);
    let response = ask(&server, "GET", "/cut", "Accept-Encoding: gzip\r\n");
    assert!(response.cut, "{response:?}");
}

// -- additions of actions --

#[test]
fn responses_of_other_servers_are_compressed() {
    let python = Backend::python();
    let server = compressing(&python);
    let accepts = "Accept-Encoding: gzip\r\n";
    for target in ["/text", "/chunks"] {
        let plain = ask(&server, "GET", target, "");
        assert_eq!(plain.field("Content-Encoding"), None);
        assert_eq!(plain.field("Vary"), Some("Accept-Encoding"));
        let compressed = ask(&server, "GET", target, accepts);
        assert!(gunzipped(&compressed) == plain.body, "{target}");
        assert!(compressed.body.len() * 4 < plain.body.len());
        assert_eq!(compressed.field("Vary"), Some("Accept-Encoding"));
    }
    assert_eq!(ask(&server, "GET", "/text", accepts).field("ETag"), Some("W/\"t\""));
    // A response that the server has compressed itself is not compressed again.
    let encoded = ask(&server, "GET", "/encoded", accepts);
    assert!(gunzipped(&encoded) == ask(&server, "GET", "/text", "").body);
}

#[test]
fn files_of_nginx_are_compressed_unless_a_part_is_asked_for() {
    let nginx = Backend::nginx();
    let text = "some text ".repeat(10_000);
    for name in ["a.txt", "a.png"] {
        fs::write(nginx.root().join(name), &text).unwrap();
    }
    let server = compressing(&nginx);
    let accepts = "Accept-Encoding: gzip\r\n";
    assert!(gunzipped(&ask(&server, "GET", "/a.txt", accepts)) == text.as_bytes());
    assert!(ask(&server, "GET", "/a.png", accepts).text() == text);
    let part = ask(&server, "GET", "/a.txt", &format!("{accepts}Range: bytes=0-999\r\n"));
    assert_eq!((part.status, part.field("Content-Encoding")), (206, None));
    assert!(part.text() == text[..1000]);
}

#[test]
fn head_has_the_fields_of_a_compressed_get_and_no_body() {
    let (nginx, python) = (Backend::nginx(), Backend::python());
    fs::write(nginx.root().join("text"), "some text ".repeat(10_000)).unwrap();
    for backend in [&nginx, &python] {
        let server = compressing(backend);
        for accepts in ["", "Accept-Encoding: gzip\r\n"] {
            for target in ["/text", "/chunks", "/encoded", "/broken"] {
                let get = ask(&server, "GET", target, accepts);
                let head = ask(&server, "HEAD", target, accepts);
                assert_eq!(head.status, get.status);
                for name in ["Content-Type", "Content-Encoding", "Vary", "ETag"] {
                    assert_eq!(head.field(name), get.field(name), "{target} {accepts:?}: {name}");
                }
                // A length is the one of GET, or it is not told.
                if let Some(length) = head.field("Content-Length") {
                    assert_eq!(length, get.body.len().to_string(), "{target} {accepts:?}");
                }
            }
        }
    }
}

#[test]
fn error_pages_stand_for_our_errors_and_not_for_those_of_the_application() {
    let mut python = Backend::python();
    let site = Site::new().file("sorry.html", "<p>back soon</p>");
    let page = site.root().join("sorry.html");
    let action = json!({
        "proxy": python.url(),
        "error_pages": {"500": page, "502": page},
        "security_headers": true,
    });
    let server = site.with(json!({"routes": [{"action": action}]})).serve();
    let broken = ask(&server, "GET", "/broken", "");
    assert_eq!((broken.status, broken.text().as_str()), (500, "the application's own page"));
    python.end();
    let down = ask(&server, "GET", "/broken", "");
    assert_eq!((down.status, down.text().as_str()), (502, "<p>back soon</p>"));
    assert_eq!(down.field("Content-Type"), Some("text/html"));
    assert_eq!(down.field("X-Content-Type-Options"), Some("nosniff"));
}

#[test]
fn fields_are_set_in_responses_of_other_servers() {
    let python = Backend::python();
    let action = json!({
        "proxy": python.url(),
        "security_headers": true,
        "response_headers": {"X-Path": "$uri", "ETag": null, "Content-Type": "text/x-own"},
        "cors": {"origins": "https://example.org"},
    });
    let server = serve(action, json!({}));
    let origin = "Origin: https://example.org\r\n";
    let text = ask(&server, "GET", "/text", origin);
    assert_eq!(text.field("X-Path"), Some("/text"));
    assert_eq!((text.field("ETag"), text.field("Content-Type")), (None, Some("text/x-own")));
    assert_eq!(text.field("X-Frame-Options"), Some("SAMEORIGIN"));
    assert_eq!(text.field("Access-Control-Allow-Origin"), Some("https://example.org"));
    let head = ask(&server, "HEAD", "/text", origin);
    assert_eq!((head.field("X-Path"), head.field("ETag")), (Some("/text"), None));
    // The application's own field counts.
    assert_eq!(ask(&server, "GET", "/chunks", "").field("X-Frame-Options"), Some("DENY"));
    // Errors keep their fields, but are as careful.
    let broken = ask(&server, "GET", "/broken", "");
    assert_eq!((broken.status, broken.field("X-Path")), (500, None));
    assert_eq!(broken.field("Content-Type"), Some("text/html"));
    assert_eq!(broken.field("Referrer-Policy"), Some("strict-origin-when-cross-origin"));
}
