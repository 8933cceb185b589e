//! `basic_auth`: password files by a variable, and who may enter.

use std::fs;

use harness::client::Response;
use harness::{Server, Site};
use serde_json::json;

/// Serves a site whose password file depends on the argument `site`.
fn serve() -> Server {
    let site = Site::new().file("a.txt", "secret");
    let directory = site.root().with_file_name("users");
    fs::create_dir_all(directory.join("below")).unwrap();
    // {SHA} of "password"; the other forms are nginx's.
    let users = "ann:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\nbob:{PLAIN}b:comment\neve:{PLAIN}e\n\
                 dan:{SSHA}1KN/9t5FuwQoNBnCc+TnZD0E6WxzYWx0\n";
    fs::write(directory.join("one"), users).unwrap();
    fs::write(directory.join("below/two"), users).unwrap();
    fs::write(site.root().with_file_name("outside"), users).unwrap();
    fs::write(site.root().with_file_name("groups"), "Staff: bob\nother: ann eve\n").unwrap();
    let groups = site.root().with_file_name("groups");
    let share = format!("{}$uri", site.root().display());
    site.with(json!({
        "variables": {"closed": {"map": "$arg_open", "values": {"1": "0"}, "default": "1"}},
        "routes": [{"action": {
            "basic_auth": {
                "realm": "\"$arg_site\"",
                "users_file": format!("{}/$arg_site", directory.display()),
                "users": "ann", "groups_file": groups, "groups": ["staff"], "if": "$closed",
            },
            "share": share,
        }}],
    }))
    .serve()
}

fn ask(server: &Server, query: &str, user: &str) -> Response {
    let credentials = match user {
        "" => String::new(),
        user => format!("Authorization: Basic {}\r\n", base64(user)),
    };
    server.send(format!(
        "GET /a.txt?{query} HTTP/1.1\r\nHost: a\r\n{credentials}Connection: close\r\n\r\n"
    ))
}

fn base64(text: &str) -> String {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for part in text.as_bytes().chunks(3) {
        let bits = (0..3).fold(0u32, |bits, at| bits << 8 | u32::from(*part.get(at).unwrap_or(&0)));
        for at in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * at) & 63) as usize];
            out.push(if at <= part.len() { char::from(digit) } else { '=' });
        }
    }
    out
}

#[test]
fn only_named_users_of_the_file_of_a_request_enter() {
    let server = serve();
    for (query, user, status) in [
        ("site=one", "", 401),
        ("site=one", "ann:password", 200),
        ("site=one", "bob:b", 200),
        ("site=one", "bob:b:comment", 401),
        ("site=one", "ann:wrong", 401),
        ("site=one", "eve:e", 401),
        ("site=one", "dan:d", 401),
        ("site=one", "nobody:e", 401),
        ("site=none", "ann:password", 403),
        ("site=none", "", 401),
        ("open=1", "", 200),
        ("open=1&site=one", "nobody:x", 200),
    ] {
        let response = ask(&server, query, user);
        assert_eq!(response.status, status, "{query} {user}");
        assert_eq!(response.text().contains("secret"), status == 200, "{query} {user}");
    }
}

#[test]
fn no_argument_leads_to_a_file_elsewhere_or_adds_a_field() {
    let server = serve();
    for site in [
        "",
        "..",
        ".",
        "../outside",
        "%2e%2e%2foutside",
        "..%5coutside",
        "%2fetc%2fpasswd",
        "below%2ftwo",
        "one%00",
        "one%0a",
        "%2f",
        "one/",
        "./one",
    ] {
        let response = ask(&server, &format!("site={site}"), "ann:password");
        assert!(matches!(response.status, 400 | 403), "{site}: {response:?}");
        assert!(!response.text().contains("secret"), "{site}");
    }
    let response = ask(&server, "site=%22%0d%0aX-Evil:%201%5c", "");
    let expected = r#"Basic realm="\"\"X-Evil: 1\\\"", charset="UTF-8""#;
    assert_eq!(response.field("www-authenticate"), Some(expected));
    assert_eq!((response.status, response.field("x-evil")), (401, None));
}
