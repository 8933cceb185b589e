//! Memory that the router uses for tables of clients, names, passwords, scripts and sessions.

use std::fs;
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::thread;

use harness::dns::Dns;
use harness::raw::Raw;
use harness::time::patience;
use harness::tls::{Authority, get};
use harness::{Server, Site, free_address};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use serde_json::json;

use super::memory::{Growth, MIB, serve};
use super::memory_htaccess::deep_directory;

/// Sends many requests at once on one connection. Returns the statuses.
pub fn pipeline(server: &Server, heads: impl Iterator<Item = String>) -> Vec<u16> {
    let (mut client, heads) = (server.connect(), heads.collect::<Vec<_>>());
    let mut statuses = Vec::new();
    for part in heads.chunks(50) {
        client.send(part.concat());
        statuses.extend(part.iter().map(|_| client.response().status));
    }
    statuses
}

#[test]
fn keys_of_a_limit_stay_within_their_number() {
    let limit = json!({ "rate": "1/h", "burst": 4, "key": "$arg_k", "keys": 1000 });
    let routes = json!([{ "action": { "return": 200, "limit": limit } }]);
    let server = Site::new()
        .with(json!({ "settings": { "listen_threads": 1 } }))
        .with(json!({ "routes": routes }))
        .serve();
    let growth = Growth::of(&server);
    let long = "k".repeat(3000);
    let heads = (0..12_000).map(|n| format!("GET /?k={n}{long} HTTP/1.1\r\nHost: a\r\n\r\n"));
    // 36 MB of keys, each of which is admitted.
    assert!(pipeline(&server, heads).iter().all(|status| *status == 200));
    growth.assert_within(MIB);
}

/// The password `aaaaaaaa` in the oldest form, which ignores all characters after the eighth.
const EIGHT: &str = "abBUNZY4cR2mg";

#[test]
fn passwords_that_were_right_are_kept_as_hashes_and_in_a_limited_number() {
    let site = Site::new().file("in/a.txt", "in");
    let root = site.root().display().to_string();
    fs::write(site.root().join("users"), format!("u:{EIGHT}\n")).unwrap();
    let rules =
        format!("AuthType Basic\nAuthName x\nAuthUserFile {root}/users\nRequire valid-user\n");
    fs::write(site.root().join("in/.htaccess"), rules).unwrap();
    let server = serve(site);
    let growth = Growth::of(&server);
    let long = "a".repeat(700);
    let heads = (0..5000).map(|number| {
        let credentials = base64(format!("u:{long}{number}").as_bytes());
        format!("GET /in/a.txt HTTP/1.1\r\nHost: a\r\nAuthorization: Basic {credentials}\r\n\r\n")
    });
    assert!(pipeline(&server, heads).iter().all(|status| *status == 200), "{}", server.log());
    growth.assert_within(MIB);
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for part in bytes.chunks(3) {
        let bits = (0..3).fold(0, |bits, n| bits << 8 | u32::from(*part.get(n).unwrap_or(&0)));
        for n in 0..4 {
            if n <= part.len() {
                text.push(char::from(DIGITS[(bits >> (18 - 6 * n)) as usize & 63]))
            } else {
                text.push('=')
            }
        }
    }
    text
}

#[test]
fn paths_of_scripts_that_exist_stay_within_their_number() {
    let site = Site::new();
    let deep = deep_directory(&site);
    let directory = site.root().join(&deep[1..]);
    fs::write(directory.join("0.php"), "<?php").unwrap();
    for number in 1..6000 {
        fs::hard_link(directory.join("0.php"), directory.join(format!("{number}.php"))).unwrap();
    }
    // No server listens there: a script that exists is 502.
    let application = json!({
        "type": "fastcgi",
        "server": free_address().to_string(),
        "root": site.root(),
    });
    let server = site
        .with(json!({ "applications": null, "routes": null }))
        .with(json!({
            "settings": { "listen_threads": 1 },
            "routes": [{ "action": { "pass": "applications/site" } }],
            "applications": { "site": application },
        }))
        .serve();
    assert_eq!(server.get(&format!("{deep}/x.php")).status, 404);
    let growth = Growth::of(&server);
    let heads =
        (0..6000).map(|number| format!("GET {deep}/{number}.php HTTP/1.1\r\nHost: a\r\n\r\n"));
    // 21 MiB of paths.
    assert!(pipeline(&server, heads).iter().all(|status| matches!(status, 502 | 503)));
    growth.assert_within(4 * MIB);
}

#[test]
fn sessions_of_tls_stay_within_the_size_of_their_cache() {
    let (authority, site) = (Authority::new(), Site::new().file("a.txt", "a"));
    let directory = site.data();
    let (chain, key) = authority.issue(&["a.example"]);
    for (name, text) in [("chain.pem", &chain), ("key.pem", &key), ("ca.pem", &authority.pem())] {
        fs::write(directory.join(name), text).unwrap();
        fs::set_permissions(directory.join(name), fs::Permissions::from_mode(0o600)).unwrap();
    }
    let tls = json!({
        "certificate": {
            "chain": directory.join("chain.pem"),
            "key": directory.join("key.pem"),
        },
        "client_certificates": { "authorities": directory.join("ca.pem") },
        "session": { "cache_size": 100, "timeout": 3600 },
    });
    let address = free_address().to_string();
    let server = site
        .with(json!({ "settings": { "listen_threads": 1 } }))
        .with(json!({ "listeners": { &address: { "tls": tls } } }))
        .serve_at(&address);
    // A session has the certificate of its client, which has 14 KB.
    let names: Vec<String> = (0..250).map(|n| format!("{n}.{}.example", "n".repeat(45))).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let own = authority.issue(&names);
    let growth = Growth::of(&server);
    for _ in 0..800 {
        // Each has its own memory of sessions, and begins a new one.
        let client = authority.client(Some(&own), &[]);
        assert_eq!(get(server.address, &client, "a.example", "/a.txt").unwrap().status, 200);
    }
    growth.assert_within(2 * MIB);
}

#[test]
fn names_of_clients_and_addresses_of_names_stay_within_their_number() {
    let (dns, site) = (Dns::start(None), Site::new().file("in/a.txt", "in"));
    let label = "n".repeat(60);
    let address = |number: u16| Ipv4Addr::new(198, 18, (number >> 8) as u8, number as u8);
    for number in 0..4500 {
        let name = format!("{number:04}.{label}.{label}.{label}.test");
        dns.set_name(address(number), &name);
        dns.set(&name, &[address(number).into()]);
        let some: Vec<_> = (0..20).map(|n| address(n).into()).collect();
        dns.set(&format!("{number:04}.{label}.test"), &some);
    }
    let rules = "Require host .test\n";
    fs::write(site.root().join("in/.htaccess"), rules).unwrap();
    for directory in 0..10 {
        let names: Vec<String> =
            (0..450).map(|n| format!("{:04}.{label}.test", 450 * directory + n)).collect();
        let lines: String =
            names.iter().map(|name| format!("Require forward-dns {name}\n")).collect();
        let directory = site.root().join(format!("d{directory}"));
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join(".htaccess"), lines).unwrap();
        fs::write(directory.join("a.txt"), "a").unwrap();
    }
    let listener = free_address().to_string();
    let forwarded = json!({ "client_ip": "X-Forwarded-For", "source": ["127.0.0.0/8"] });
    let server = site
        .with(json!({ "routes": null }))
        .with(json!({
            "settings": { "listen_threads": 1, "resolver": dns.address.to_string() },
            "listeners": { &listener: { "forwarded": forwarded } },
            "routes": [{ "action": { "pass": "applications/site" } }],
            "applications": { "site": { "htaccess": true } },
        }))
        .serve_at(&listener);
    let growth = Growth::of(&server);
    let head = |target: &str, client: Ipv4Addr| {
        format!("GET {target} HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: {client}\r\n\r\n")
    };
    thread::scope(|scope| {
        for part in 0..4 {
            let server = &server;
            let numbers = (0..4500).filter(move |number| number % 4 == part);
            scope.spawn(move || {
                let heads = numbers.map(|number| head("/in/a.txt", address(number)));
                let statuses = pipeline(server, heads);
                assert!(statuses.iter().all(|status| *status == 200), "{}", server.log());
            });
        }
    });
    for directory in 0..10 {
        let target = format!("/d{directory}/a.txt");
        let mut client = server.connect();
        client.send(head(&target, Ipv4Addr::new(198, 51, 100, 1)));
        assert_eq!(client.response().status, 403, "it has none of the addresses");
    }
    growth.assert_within(10 * MIB);
}

/// Begins a handshake for a name, and waits until the server ends it.
fn begin_handshake(address: SocketAddr, client: &Arc<ClientConfig>, name: &str) {
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut connection = ClientConnection::new(Arc::clone(client), name).unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(patience())).unwrap();
    connection.write_tls(&mut stream).unwrap();
    let _ = stream.read_to_end(&mut Vec::new());
}

#[test]
fn names_that_get_no_certificate_on_demand_stay_within_their_number() {
    const LIMIT: usize = 10_000;
    const THREADS: usize = 4; // eight names are asked about at a time
    let refusing = Raw::answering("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
    let address = free_address();
    let acme = json!({
        "on_demand": { "ask": format!("{}/ask", refusing.url()) },
        "servers": "https://127.0.0.1:9/directory",
    });
    let server = Site::new()
        .file("a.txt", "served")
        .with(json!({
            "settings": { "listen_threads": 1 },
            "listeners": { address.to_string(): { "pass": "routes", "tls": { "acme": acme } } },
        }))
        .serve();
    let client = Authority::new().client(None, &[]);
    let label = "n".repeat(60);
    let name = |number: usize| format!("{number}.{label}.{label}.{label}.example");
    begin_handshake(address, &client, &name(0));
    let growth = Growth::of(&server);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (client, name) = (&client, &name);
            scope.spawn(move || {
                for number in (thread..LIMIT + 500).step_by(THREADS) {
                    begin_handshake(address, client, &name(number));
                }
            });
        }
    });
    assert!(refusing.asked().len() > LIMIT, "{} names: {}", refusing.asked().len(), server.log());
    growth.assert_within(LIMIT as u64 * 300);
    assert_eq!(server.get("/a.txt").text(), "served");
}
