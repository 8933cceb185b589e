//! Which requests are refused, and that routes, scripts and other servers read the same host and
//! the same target in those that are not.

use std::net::SocketAddr;

use harness::client::{Client, Response};
use harness::fastcgi::{Socket, fpm};
use harness::raw::Raw;
use harness::{Server, Site, eventually, free_address, processes};
use rustix::process::Signal;
use serde_json::{Value, json};

/// Heads that only a lenient reading takes.
const LENIENT: [&str; 12] = [
    "GET / HTTP/1.1\r\n",
    "GET / HTTP/1.1\r\nHost: secret.test:x@evil\r\n",
    "GET / HTTP/1.1\r\nHost: a@b\r\n",
    "GET / HTTP/1.1\r\nHost: a\\b\r\n",
    "GET / HTTP/1.1\r\nHost: a?b\r\n",
    "GET / HTTP/1.1\r\nHost: a#b\r\n",
    "GET / HTTP/1.1\r\nHost: a:99999\r\n",
    "GET / HTTP/1.1\r\nHost: [::1\r\n",
    "GET / HTTP/1.0\r\nHost: <a>\r\n",
    "GET /a b HTTP/1.1\r\nHost: a\r\n",
    "GET  / HTTP/1.1\r\nHost: a\r\n",
    "GET /#/../private/s HTTP/1.1\r\nHost: a\r\n",
];

/// Heads that no parser accepts.
const REFUSED: [&str; 10] = [
    "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\nhost: b\r\n",
    "GET / HTTP/1.1\r\nHost: a/b\r\n",
    "GET / HTTP/1.1\r\nHost: a b\r\n",
    "GET http://u@a/ HTTP/1.1\r\nHost: a\r\n",
    "GET http://a#/../b HTTP/1.1\r\nHost: a\r\n",
    "GET http://a\\b/ HTTP/1.1\r\nHost: a\r\n",
    "GET http://a/ HTTP/1.1\r\nHost: a\r\nHost: a\r\n",
    "GET /\t HTTP/1.1\r\nHost: a\r\n",
    "GET /\x01 HTTP/1.1\r\nHost: a\r\n",
];

fn ask(address: SocketAddr, head: &str) -> Response {
    Client::connect(address).send(format!("{head}Connection: close\r\n\r\n")).response()
}

/// Returns true if the server accepts heads that only a lenient reading accepts: all of them, or
/// none.
fn is_lenient(address: SocketAddr) -> bool {
    assert_eq!(ask(address, "GET / HTTP/1.1\r\nHost: a\r\n").status, 204);
    assert_eq!(ask(address, "GET / HTTP/1.0\r\n").status, 204);
    for head in REFUSED {
        assert_eq!(ask(address, head).status, 400, "{head:?}");
    }
    let taken: Vec<_> =
        LENIENT.iter().map(|head| (*head, ask(address, head).status == 204)).collect();
    let lenient = taken[0].1;
    assert!(taken.iter().all(|(_, one)| *one == lenient), "{taken:?}");
    lenient
}

/// Answers everything with 204.
fn empty(http: Value) -> Site {
    let routes = json!([{"action": {"return": 204}}]);
    Site::new().with(json!({"routes": routes, "settings": {"http": http}}))
}

// -- refused --

#[test]
fn a_document_that_does_not_say_otherwise_is_served_strictly() {
    assert!(!is_lenient(empty(json!({})).serve().address));
    assert!(!is_lenient(empty(json!({"strict_requests": true})).serve().address));
    assert!(is_lenient(empty(json!({"strict_requests": false})).serve().address));
}

#[test]
fn an_option_makes_units_ways_the_default_and_the_document_still_counts() {
    let unit = |http| empty(http).argument("--unit").serve();
    assert!(is_lenient(unit(json!({})).address));
    assert!(!is_lenient(unit(json!({"strict_requests": true})).address));
}

#[test]
fn a_directory_is_served_strictly_unless_the_option_is_given() {
    let site = || Site::new().file("index.html", "a page");
    let status =
        |server: &Server| server.send("GET / HTTP/1.1\r\nConnection: close\r\n\r\n").status;
    assert_eq!(status(&site().serve()), 400);
    assert_eq!(status(&site().argument("--unit").serve()), 200);
}

#[test]
fn what_the_control_api_is_told_is_served_as_strictly_also_by_another_router() {
    for (argument, lenient) in [(None, false), (Some("--unit"), true)] {
        let site = Site::new().controlled();
        let site = argument.into_iter().fold(site, Site::argument);
        let server = site.serve();
        let address = free_address();
        let document = |http: Value| {
            json!({
                "listeners": {address.to_string(): {"pass": "routes"}},
                "routes": [{"action": {"return": 204}}],
                "settings": {"http": http},
            })
        };
        server.put("/config", &document(json!({})));
        assert_eq!(is_lenient(address), lenient);
        for said in [true, false] {
            server.put("/config/settings/http/strict_requests", &json!(said));
            assert_eq!(is_lenient(address), !said, "as the document says");
        }
        server.control("DELETE", "/config/settings", "").succeeded();
        assert_eq!(is_lenient(address), lenient);
        server.control("POST", "/control/reload", "").succeeded();
        assert_eq!(is_lenient(address), lenient);
        let router = server.router();
        processes::signal(router, Signal::KILL);
        eventually("there is another router", || (server.router() != router).then_some(()));
        assert_eq!(is_lenient(address), lenient);
    }
}

// -- passed on --

/// The request as a script reports it.
const FACTS: &str = "header('Content-Type: application/json'); echo json_encode([
    $_SERVER['SCRIPT_NAME'] . ($_SERVER['PATH_INFO'] ?? ''), $_SERVER['REQUEST_URI'],
    $_SERVER['HTTP_HOST'] ?? null, $_SERVER['SERVER_NAME']],
    JSON_UNESCAPED_SLASHES | JSON_INVALID_UTF8_SUBSTITUTE);";

/// `/private` is refused, the rest is passed to another server.
fn guarded(raw: &Raw, http: Value) -> Server {
    let routes = json!([
        {"match": {"uri": ["/private", "/private/*"]}, "action": {"return": 403}},
        {"action": {"proxy": raw.url(), "response_headers": {"X-Path": "$uri"}}},
    ]);
    Site::new().with(json!({"routes": routes, "settings": {"http": http}})).serve()
}

const ANSWER: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

/// The target that the other server got last.
fn passed_on(raw: &Raw) -> String {
    let asked = raw.asked().pop().expect("a request");
    asked.split(' ').nth(1).expect("a target").to_owned()
}

fn field(head: &str, name: &str) -> Option<String> {
    let mut lines = head.lines().filter_map(|line| line.split_once(": "));
    let found = lines.find(|(other, _)| other.eq_ignore_ascii_case(name));
    assert!(!lines.any(|(other, _)| other.eq_ignore_ascii_case(name)), "{name} is there twice");
    found.map(|(_, value)| value.to_owned())
}

#[test]
fn a_fragment_does_not_lead_around_a_route() {
    let raw = Raw::answering(ANSWER);
    let targets = ["/public#/../private/s", "/public?a#/../private/s", "/#", "/public%2f#x"];
    let strict = guarded(&raw, json!({}));
    for target in targets {
        let head = format!("GET {target} HTTP/1.1\r\nHost: a\r\n");
        assert_eq!(ask(strict.address, &head).status, 400, "{target}");
        let head = format!("GET http://a{target} HTTP/1.1\r\nHost: a\r\n");
        assert_eq!(ask(strict.address, &head).status, 400, "{target}");
    }
    assert!(raw.asked().is_empty());
    // Unit takes them. The parts that the rules have not seen are not passed on.
    let lenient = guarded(&raw, json!({"strict_requests": false}));
    for target in targets {
        let head = format!("GET {target} HTTP/1.1\r\nHost: a\r\n");
        assert_eq!(ask(lenient.address, &head).status, 200, "{target}");
        assert_eq!(Some(&*passed_on(&raw)), target.split('#').next());
    }
    assert_eq!(ask(lenient.address, "GET /private/x#y HTTP/1.1\r\nHost: a\r\n").status, 403);
}

#[test]
fn routes_scripts_and_other_servers_see_the_same_target() {
    let raw = Raw::answering(ANSWER);
    for http in [json!({}), json!({"strict_requests": false})] {
        let proxy = guarded(&raw, http.clone());
        let php = Site::script("a.php", FACTS)
            .with(json!({"settings": {"http": http}}))
            .with(json!({"routes": [{"action": {
                "pass": "applications/site", "response_headers": {"X-Path": "$uri"},
            }}]}))
            .serve();
        // The target, the path that routes see, and the target for another server if that differs.
        // All paths are below the script, as its PATH_INFO.
        for (target, path, sent) in [
            ("/a.php/b\\..\\c", "/a.php/b\\..\\c", "/a.php/b%5C..%5Cc"),
            ("/a.php/b%5c", "/a.php/b\\", "/a.php/b%5c"),
            ("/a.php/\u{e9}", "/a.php/\u{e9}", "/a.php/%C3%A9"),
            ("/a.php/\u{ff0f}..\u{a0}x", "/a.php/\u{ff0f}..\u{a0}x", "/a.php/%EF%BC%8F..%C2%A0x"),
            ("/a.php/b?c?d", "/a.php/b", "/a.php/b?c?d"),
            ("/a.php/b?/../private", "/a.php/b", "/a.php/b?/../private"),
            ("/a.php/b%3fc?d", "/a.php/b?c", "/a.php/b%3fc?d"),
            ("/a.php/b%23c", "/a.php/b#c", "/a.php/b%23c"),
            ("/private/../a.php/x", "/a.php/x", "/private/../a.php/x"),
            ("/a.php/;/x", "/a.php/;/x", "/a.php/;/x"),
            ("http://b/a.php/x?y", "/a.php/x", "/a.php/x?y"),
            ("HTTPS://b:81/a.php/x", "/a.php/x", "/a.php/x"),
        ] {
            let head = format!("GET {target} HTTP/1.1\r\nHost: a\r\n");
            let response = ask(proxy.address, &head);
            assert_eq!((response.status, response.field("X-Path")), (200, Some(path)), "{target}");
            assert_eq!(passed_on(&raw), sent, "{target}");
            let facts: Value = serde_json::from_str(&ask(php.address, &head).text()).unwrap();
            assert_eq!(facts[0], json!(path), "{target}");
            let origin = target.find("/a.php").filter(|_| !target.starts_with('/')).unwrap_or(0);
            assert_eq!(facts[1], json!(target[origin..]), "{target}: as it was sent");
        }
        for target in
            ["/..", "/a/\x01", "/a/\x7f", "/a\tb", "/%00", "*", "?a", "http://u@a/b", "//u@a#"]
        {
            let before = raw.asked().len();
            let status =
                ask(proxy.address, &format!("GET {target} HTTP/1.1\r\nHost: a\r\n")).status;
            let cut = target.contains("a#") && http != json!({});
            assert_eq!(status, if cut { 200 } else { 400 }, "{target:?}");
            assert_eq!(raw.asked().len(), before + usize::from(cut), "{target:?}");
        }
    }
}

#[test]
fn the_authority_of_an_absolute_target_is_the_host_for_all() {
    let raw = Raw::answering(ANSWER);
    let fastcgi = fpm(&Socket::Unix(128), 1, "");
    let site = Site::script("a.php", FACTS);
    let root = site.root();
    let (proxied, other) = (free_address(), free_address());
    let server = site
        .with(json!({
            "listeners": {
                proxied.to_string(): {"pass": "routes/proxied"},
                other.to_string(): {"pass": "applications/other"},
            },
            "routes": null,
        }))
        .with(json!({
            "routes": {
                "proxied": [
                    {"match": {"host": "shop.test"}, "action": {"proxy": raw.url()}},
                    {"action": {"return": 404}},
                ],
                "site": [{"action": {"pass": "applications/site"}}],
            },
            "applications": {"other": {
                "type": "fastcgi", "server": fastcgi.address, "root": root,
            }},
            "settings": {"http": {"strict_requests": false}},
        }));
    let address = free_address();
    let pass = json!({"listeners": {address.to_string(): {"pass": "routes/site"}}});
    let server = server.with(pass).serve_at(&address.to_string());
    for fields in [
        "HTTP/1.0\r\n",
        "HTTP/1.1\r\n",
        "HTTP/1.0\r\nHost: other.test\r\n",
        "HTTP/1.1\r\nHost: other.test:81\r\n",
        "HTTP/1.1\r\nHost:\r\n",
    ] {
        let head = format!("GET http://Shop.test:81/a.php?b {fields}");
        assert_eq!(ask(proxied, &head).status, 200, "{head:?}");
        let asked = raw.asked().pop().expect("a request");
        assert!(asked.starts_with("GET /a.php?b HTTP/1.1\r\n"), "{asked}");
        assert_eq!(field(&asked, "Host").as_deref(), Some("Shop.test:81"), "{head:?}");
        for address in [server.address, other] {
            let facts: Value = serde_json::from_str(&ask(address, &head).text()).unwrap();
            let expected = json!(["/a.php", "/a.php?b", "Shop.test:81", "shop.test"]);
            assert_eq!(facts, expected, "{head:?}");
        }
    }
}

#[test]
fn a_host_that_only_a_lenient_reading_takes_is_passed_on_as_the_host_that_was_read() {
    let raw = Raw::answering(ANSWER);
    let routes = json!([
        {"match": {"host": "secret.test"}, "action": {
            "proxy": raw.url(), "response_headers": {"X-Host": "secret"},
        }},
        {"match": {"uri": "/a.php"}, "action": {"pass": "applications/site"}},
        {"action": {"proxy": raw.url(), "response_headers": {"X-Host": "$host"}}},
    ]);
    let server = Site::script("a.php", FACTS)
        .with(json!({"routes": routes, "settings": {"http": {"strict_requests": false}}}))
        .serve();
    for (host, read, passed) in [
        ("secret.test:x@evil", "secret", "secret.test"),
        ("SECRET.test.:80:81", "secret", "SECRET.test"),
        ("secret.test@evil", "secret.test@evil", "secret.test%40evil"),
        ("a\\b", "a\\b", "a%5Cb"),
        ("a?b#c:80", "a?b#c", "a%3Fb%23c:80"),
        ("a%2fb", "a%2fb", "a%252fb"),
        ("\u{e9}", "\u{e9}", "%C3%A9"),
        ("a.test:8080", "a.test", "a.test:8080"),
    ] {
        let response = ask(server.address, &format!("GET / HTTP/1.1\r\nHost: {host}\r\n"));
        assert_eq!((response.status, response.field("X-Host")), (200, Some(read)), "{host}");
        let asked = raw.asked().pop().expect("a request");
        assert_eq!(field(&asked, "Host").as_deref(), Some(passed), "{host}");
        if read == "secret" {
            continue;
        }
        let head = format!("GET /a.php HTTP/1.1\r\nHost: {host}\r\n");
        let facts: Value = serde_json::from_str(&ask(server.address, &head).text()).unwrap();
        let name = passed.split(':').next().unwrap().to_owned();
        assert_eq!((&facts[2], &facts[3]), (&json!(passed), &json!(name)), "{host}");
    }
}
