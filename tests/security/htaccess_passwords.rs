//! Passwords and groups of a hostile customer's `.htaccess` files: their cost for others, and the
//! effect of a flood of wrong passwords on the right one.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use harness::{Server, Site};
use serde_json::json;

/// A slow form of the password `right` (bcrypt).
const STORED: &str = "$2y$10$U3SdF5CCDmxYQHG0GbeSC.U/8et7sIQw0i6maPUMfAesqg4FRh4UO";

/// A site with a protected directory `/in/`, and beside it another one at `/other/`. The password
/// of `u` is `right`.
fn serve(rules: &str, groups: &str) -> Server {
    let site =
        Site::new().file("a.txt", "text").file("in/a.txt", "in").file("other/a.txt", "other");
    let root = site.root().display().to_string();
    fs::write(site.root().join("users"), format!("# of the site\nv:x\nu:{STORED}\n")).unwrap();
    fs::write(site.root().join("groups"), groups).unwrap();
    let protected = format!(
        "AuthType Basic\nAuthName x\nAuthUserFile {root}/users\nAuthGroupFile {root}/groups\n"
    );
    fs::write(site.root().join("in/.htaccess"), protected + rules).unwrap();
    site.with(json!({
        "routes": [
            { "match": { "uri": "/other/*" }, "action": { "share": format!("{root}$uri") } },
            { "action": { "pass": "applications/site" } },
        ],
        "applications": { "site": { "htaccess": true } },
    }))
    .serve()
}

fn ask(server: &Server, target: &str, password: &str) -> u16 {
    let credentials = base64(format!("u:{password}").as_bytes());
    let head = format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n");
    server.send(format!("{head}Authorization: Basic {credentials}\r\n\r\n")).status
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let part = |part: &[u8]| {
        let bits = (0..3).fold(0, |bits, at| bits << 8 | usize::from(*part.get(at).unwrap_or(&0)));
        let digit = |at: usize| {
            if at <= part.len() { char::from(DIGITS[bits >> (18 - 6 * at) & 63]) } else { '=' }
        };
        (0..4).map(digit).collect::<String>()
    };
    bytes.chunks(3).map(part).collect()
}

#[test]
fn many_requirements_over_a_large_group_file_read_it_once() {
    let rules: String = (0..300).map(|number| format!("Require group n{number}\n")).collect();
    let members: String = (0..300_000).map(|number| format!(" u{number}")).collect();
    let server = serve(&(rules + "Require group last\n"), &format!("g:{members}\nLAST: x u\n"));
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let clients: Vec<_> =
            (0..4).map(|_| scope.spawn(|| ask(&server, "/in/a.txt", "right"))).collect();
        (0..20).for_each(|_| assert_eq!(server.get("/other/a.txt").text(), "other"));
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    assert!(statuses.iter().all(|status| matches!(status, 200 | 503)), "{statuses:?}");
    assert!(statuses.contains(&200), "{}", server.log());
}

#[test]
fn a_group_file_that_is_too_large_admits_nobody() {
    let server = serve("Require group g\n", &format!("g: u\n#{}", "x".repeat(17 << 20)));
    assert_eq!(ask(&server, "/in/a.txt", "right"), 401);
    server.wait_for_log("it is too large");
}

#[test]
fn sub_requests_of_conditions_know_whether_a_password_is_right() {
    let server = serve("Require group g\n", "g: u\n");
    let rules = "RewriteEngine On\nRewriteCond /in/a.txt -U\nRewriteRule ^a.txt$ /yes [R,L]\n";
    fs::write(server.site.root().join(".htaccess"), rules).unwrap();
    assert_eq!(ask(&server, "/a.txt", "right"), 302);
    assert_eq!(ask(&server, "/a.txt", "wrong"), 200);
    assert_eq!(server.get("/a.txt").status, 200);
}

#[test]
fn a_flood_of_wrong_passwords_never_turns_the_right_one_into_401() {
    let server = serve("Require valid-user\n", "");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for number in 0..48 {
            let (server, is_over) = (&server, &is_over);
            scope.spawn(move || {
                let mut round = 0;
                while !is_over.load(Relaxed) {
                    round += 1;
                    let status = ask(server, "/in/a.txt", &format!("wrong{number}-{round}"));
                    assert!(matches!(status, 401 | 503), "{status}");
                }
            });
        }
        let right = || ask(&server, "/in/a.txt", "right");
        let mut statuses = Vec::new();
        while !statuses.contains(&200) && !statuses.contains(&401) {
            statuses.push(right());
        }
        // The password is known from now on. On a busy machine, a request may wait too long for its
        // turn.
        statuses.extend((0..20).map(|_| right()));
        is_over.store(true, Relaxed);
        assert!(statuses.iter().all(|status| matches!(status, 200 | 503)), "{statuses:?}");
    });
}
