//! Many hosts below one directory: each is served from its own, for any host that a client sends.

use std::fs;

use harness::{Server, Site, open_to_all};
use serde_json::{Value, json};

/// Creates hosts `a.org`, `b.org` and `c` below `srv`, each with a file, a script and a template
/// of names outside of the hosts' directories.
fn serve(action: impl Fn(&str) -> Value, more: Value) -> Server {
    let site = Site::new();
    let srv = site.root().with_file_name("srv");
    for (directory, text) in
        [("a.org/public", "a"), ("b.org/public", "b"), ("public", "outside"), ("../public", "out")]
    {
        let directory = srv.join(directory);
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("t.txt"), text).unwrap();
        let script = format!("<?php echo '{text} ', $_SERVER['DOCUMENT_ROOT'];");
        fs::write(directory.join("index.php"), script).unwrap();
        open_to_all(&directory, 0o755);
    }
    let mut document = json!({"routes": [{"action": action(&srv.display().to_string())}]});
    harness::merge(&mut document, more);
    site.with(document).serve()
}

fn get(server: &Server, version: &str, host: &str, target: &str) -> (u16, String) {
    let host = if host.is_empty() { String::new() } else { format!("Host: {host}\r\n") };
    let request = format!("GET {target} HTTP/{version}\r\n{host}Connection: close\r\n\r\n");
    let response = server.send(request);
    (response.status, response.text())
}

/// Hosts that would lead to another directory.
const HOSTILE: [&str; 14] = [
    ".",
    "..",
    "...",
    ".a.org",
    "a.org/..",
    "a.org/../b.org",
    "..%2f",
    "%2e%2e",
    "a.org%00",
    "a.org\\..",
    "b.org/public/../../a.org",
    "[::1]",
    "a.org:80:80",
    "a@..",
];

fn assert_hostile_hosts_get_nothing(server: &Server) {
    for host in HOSTILE {
        for version in ["1.1", "1.0"] {
            for target in ["/t.txt", "/index.php", "/"] {
                let (status, text) = get(server, version, host, target);
                assert!(matches!(status, 400 | 403 | 404), "{host} {target}: {status} {text}");
            }
        }
    }
    let (status, text) = get(server, "1.0", "", "/t.txt");
    assert_eq!(status, 404, "{text}");
}

#[test]
fn one_application_runs_the_scripts_of_all_hosts() {
    let server = serve(
        |srv| {
            json!({"share": format!("{srv}/$host/public$uri"), "index": "index.php",
                   "try": ["$uri", "$uri/", "/index.php"], "scripts": "applications/site"})
        },
        json!({}),
    );
    for (host, text) in [("a.org", "a"), ("B.ORG:8080", "b"), ("a.org.", "a")] {
        assert_eq!(get(&server, "1.1", host, "/t.txt"), (200, text.to_owned()), "{host}");
        let (status, root) = get(&server, "1.1", host, "/any/page");
        assert_eq!(status, 200);
        assert!(root.starts_with(&format!("{text} ")) && root.ends_with(".org/public"), "{root}");
    }
    assert_hostile_hosts_get_nothing(&server);
}

#[test]
fn each_host_has_its_application() {
    let server = serve(
        |srv| {
            json!({"share": format!("{srv}/$host/public$uri"), "index": "index.php",
                   "scripts": "applications/$host", "chroot": format!("{srv}/$host")})
        },
        json!({"applications": {
            "a.org": {"type": "php", "root": "/srv", "environment": {"SITE": "one"}},
        }}),
    );
    assert_eq!(get(&server, "1.1", "a.org", "/t.txt"), (200, "a".to_owned()));
    assert_eq!(get(&server, "1.1", "a.org", "/").0, 200);
    assert_eq!(get(&server, "1.1", "b.org", "/t.txt"), (200, "b".to_owned()));
    assert_eq!(get(&server, "1.1", "b.org", "/").0, 404, "there is no application b.org");
    assert_hostile_hosts_get_nothing(&server);
}

#[test]
fn hosts_with_htaccess_files_stay_in_their_directories() {
    let server = serve(
        |srv| {
            json!({"share": format!("{srv}/$host/public$uri"), "htaccess": true,
                   "scripts": "applications/site"})
        },
        json!({}),
    );
    assert_eq!(get(&server, "1.1", "a.org", "/t.txt"), (200, "a".to_owned()));
    assert_hostile_hosts_get_nothing(&server);
}

#[test]
fn a_host_is_found_among_ten_thousand() {
    let hosts = 10_000;
    let mut steps: Vec<Value> = Vec::with_capacity(hosts);
    for host in 0..hosts {
        let location = format!("/of-{host}");
        steps.push(json!({
            "match": {"host": [format!("h{host}.example"), format!("www.h{host}.example")]},
            "action": {"return": 302, "location": location},
        }));
    }
    let server = Site::new().with(json!({"routes": steps})).serve();
    for host in [0, 1, 4_999, 9_999] {
        for name in [format!("h{host}.example"), format!("www.h{host}.example")] {
            let response =
                server.send(format!("GET / HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n"));
            assert_eq!(response.field("location"), Some(&*format!("/of-{host}")));
        }
    }
    assert_eq!(get(&server, "1.1", "h10000.example", "/").0, 404);
}
