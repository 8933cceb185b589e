//! Listeners that speak TLS.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use harness::time::patience;
use harness::tls::{Authority, certificate, get, protocol, send};
use harness::{Server, Site, eventually, free_address};
use rustls::{ClientConnection, StreamOwned};
use serde_json::{Value, json};

const FACTS: &str = "$f = []; foreach ($_SERVER as $name => $value) { \
    if (preg_match('/^(SSL_|HTTPS|REQUEST_SCHEME)/', $name)) { $f[$name] = $value; } } \
    header('Content-Type: application/json'); echo json_encode($f);";

/// A site whose certificate and key are files that only the user that started the server may read.
fn secure(authority: &Authority, tls: Value) -> Server {
    secure_with(authority, tls, json!({}))
}

fn secure_with(authority: &Authority, tls: Value, http: Value) -> Server {
    let site = Site::script("facts.php", FACTS).file("a.txt", "a file");
    let directory = site.data();
    let (chain, key) = authority.issue(&["a.example", "b.example"]);
    for (name, text) in [("chain.pem", &chain), ("key.pem", &key), ("ca.pem", &authority.pem())] {
        fs::write(directory.join(name), text).unwrap();
        fs::set_permissions(directory.join(name), fs::Permissions::from_mode(0o600)).unwrap();
    }
    let files = json!({"chain": directory.join("chain.pem"), "key": directory.join("key.pem")});
    let mut settings = json!({"certificate": files});
    settings.as_object_mut().unwrap().extend(tls.as_object().unwrap().clone());
    if let Some(clients) = settings.get_mut("client_certificates") {
        clients["authorities"] = json!(directory.join("ca.pem"));
    }
    let address = free_address().to_string();
    let changes = json!({"listeners": {&address: {"tls": settings}}, "settings": {"http": http}});
    site.with(changes).serve_at(&address)
}

#[test]
fn files_and_scripts_are_served_over_tls() {
    let authority = Authority::new();
    let server = secure(&authority, json!({}));
    let client = authority.client(None, &[]);
    let file = get(server.address, &client, "a.example", "/a.txt").unwrap();
    assert_eq!((file.status, file.text().as_str()), (200, "a file"));
    let facts = get(server.address, &client, "a.example", "/facts.php").unwrap();
    let facts: Value = serde_json::from_slice(&facts.body).unwrap();
    assert_eq!(facts["HTTPS"], "on");
    assert_eq!(facts["REQUEST_SCHEME"], "https");
    assert_eq!(facts["SSL_PROTOCOL"], "TLSv1.3");
    assert_eq!(facts["SSL_CIPHER"], "TLS_AES_256_GCM_SHA384");
    assert_eq!(facts["SSL_TLS_SNI"], "a.example");
    assert_eq!(facts.get("SSL_CLIENT_VERIFY"), None);
}

#[test]
fn plain_http_is_answered_with_400_that_says_so() {
    let authority = Authority::new();
    let server = secure(&authority, json!({}));
    let response = server.get("/a.txt");
    assert_eq!(response.status, 400);
    assert!(response.text().contains("https"), "{response:?}");
}

#[test]
fn http_2_is_spoken_with_clients_that_know_it() {
    let authority = Authority::new();
    let server = secure(&authority, json!({}));
    for (offered, spoken) in
        [(&["h2", "http/1.1"][..], Some("h2")), (&["http/1.1"], Some("http/1.1")), (&[], None)]
    {
        let client = authority.client(None, offered);
        assert_eq!(protocol(server.address, &client, "a.example").as_deref(), spoken);
    }
}

#[test]
fn clients_that_request_no_name_of_a_certificate_are_refused_if_the_listener_says_so() {
    let authority = Authority::new();
    let client = authority.client(None, &[]);
    let server = secure(&authority, json!({"refuse_unknown_names": true}));
    assert_eq!(get(server.address, &client, "b.example", "/a.txt").unwrap().text(), "a file");
    // For an address, clients send no server name.
    for name in ["other.example", "127.0.0.1"] {
        let error = get(server.address, &client, name, "/a.txt").unwrap_err().to_string();
        assert!(error.contains("UnrecognisedName"), "{name}: {error}");
    }
}

#[test]
fn scripts_learn_who_the_client_is() {
    let authority = Authority::new();
    let server = secure(&authority, json!({"client_certificates": {"names": "a.example"}}));
    let own = authority.issue(&["somebody"]);
    let (with, without) = (authority.client(Some(&own), &[]), authority.client(None, &[]));
    let facts = get(server.address, &with, "a.example", "/facts.php").unwrap();
    let facts: Value = serde_json::from_slice(&facts.body).unwrap();
    assert_eq!(facts["SSL_CLIENT_VERIFY"], "SUCCESS");
    assert_eq!(facts["SSL_CLIENT_S_DN"], "CN=somebody");
    assert_eq!(facts["SSL_CLIENT_I_DN"], "CN=authority");
    assert_eq!(facts["SSL_CLIENT_CERT"], own.0.replace("\r\n", "\n"));
    assert_eq!(facts["SSL_CLIENT_FINGERPRINT"].as_str().unwrap().len(), 40);
    assert!(get(server.address, &without, "a.example", "/a.txt").is_err());
    let open = get(server.address, &without, "b.example", "/a.txt").unwrap();
    assert_eq!(open.status, 200);
}

#[test]
fn slow_handshakes_hold_up_nobody_and_are_cut() {
    let authority = Authority::new();
    let server = secure_with(&authority, json!({}), json!({"header_read_timeout": 5}));
    // The beginning of a hello, as TLS has it in a record and as a half of one.
    let beginnings: [&[u8]; 3] = [&[], &[22], &[22, 3, 1, 0, 200, 1, 0, 0, 196, 3, 3]];
    let slow: Vec<_> = (0..200)
        .map(|n| {
            let mut stream = TcpStream::connect(server.address).unwrap();
            stream.write_all(beginnings[n % 3]).unwrap();
            stream.set_read_timeout(Some(patience())).unwrap();
            stream
        })
        .collect();
    let client = authority.client(None, &[]);
    for _ in 0..20 {
        let file = get(server.address, &client, "a.example", "/a.txt").unwrap();
        assert_eq!(file.status, 200);
    }
    for (n, mut stream) in slow.into_iter().enumerate() {
        let mut rest = Vec::new();
        // An alert may come first.
        let ended = stream.read_to_end(&mut rest);
        let reset = |error: std::io::Error| error.kind() == std::io::ErrorKind::ConnectionReset;
        assert!(ended.map_or_else(reset, |_| true), "connection {n} stays");
    }
}

#[test]
fn a_host_under_another_rule_about_clients_is_misdirected() {
    let authority = Authority::new();
    let server = secure(&authority, json!({"client_certificates": {"names": "a.example"}}));
    let client = authority.client(None, &[]);
    for (host, status) in [("b.example", 200), ("a.example", 421), ("A.EXAMPLE.:443", 421)] {
        let request = format!("GET /a.txt HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let response = send(server.address, &client, "b.example", &request).unwrap();
        assert_eq!(response.status, status, "{host}");
    }
}

#[test]
fn authorities_that_cannot_be_read_stop_the_start() {
    let authority = Authority::new();
    let site = Site::new();
    let (chain, key) = authority.issue(&["a.example"]);
    let path = |name: &str| site.data().join(name);
    fs::write(path("chain.pem"), chain).unwrap();
    fs::write(path("key.pem"), key).unwrap();
    let tls = json!({
        "certificate": {"chain": path("chain.pem"), "key": path("key.pem")},
        "client_certificates": {"authorities": path("missing.pem"), "optional": true},
    });
    let address = free_address().to_string();
    let site = site.with(json!({"listeners": {&address: {"tls": tls}}}));
    let output = site.command(&address).arg("--strict").output().unwrap();
    let problem = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && problem.contains("missing.pem cannot be read"),
        "{problem}"
    );
}

/// Handshakes within a connection cost the server far more than the client. TLS 1.3 has none.
#[test]
fn a_client_that_asks_for_another_handshake_is_refused() {
    let authority = Authority::new();
    // The client learns of it at once, and not with the answer to its silence.
    let server = secure_with(&authority, json!({}), json!({"header_read_timeout": 600}));
    let address = server.address.to_string();
    let mut client = Command::new("openssl")
        .args(["s_client", "-tls1_2", "-servername", "a.example", "-connect", &address])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    client.stdin.as_mut().unwrap().write_all(b"R\n").unwrap();
    // The client would continue if the server had agreed.
    eventually("the client gives up", || client.try_wait().unwrap());
    let (mut said, mut complained) = (String::new(), String::new());
    client.stdout.unwrap().read_to_string(&mut said).unwrap();
    client.stderr.unwrap().read_to_string(&mut complained).unwrap();
    assert!(said.contains("Protocol  : TLSv1.2"), "{said}");
    assert!(complained.contains("RENEGOTIATING"), "{complained}");
    assert!(complained.contains("no renegotiation"), "{complained}");
    let client = authority.client(None, &[]);
    let file = get(server.address, &client, "a.example", "/a.txt").unwrap();
    assert_eq!(file.status, 200);
}

#[test]
fn the_router_gets_no_other_files_of_root() {
    let authority = Authority::new();
    let (chain, _) = authority.issue(&["a.example"]);
    let site = Site::new();
    let certificate = site.data().join("chain.pem");
    fs::write(&certificate, chain).unwrap();
    let tls = json!({"certificate": {"chain": certificate, "key": "/etc/passwd"}});
    let address = free_address().to_string();
    let site = site.with(json!({"listeners": {&address: {"tls": tls}}}));
    let output = site.command(&address).arg("--strict").output().unwrap();
    let problem = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(problem.contains("neither a certificate nor a private key"), "{problem}");
    assert!(!problem.contains("root:"), "{problem}");
}

#[test]
fn stored_certificates_are_used_and_kept_while_they_are() {
    let authority = Authority::new();
    let server = Site::new().file("a.txt", "a file").controlled().serve();
    let address = free_address();
    let document = |certificate: &str| {
        let mut document = server.site.document(address);
        document["listeners"][address.to_string()]["tls"] = json!({"certificate": certificate});
        document.to_string()
    };
    let missing = server.control("PUT", "/config", document("one"));
    assert!(missing.status >= 400 && missing.body.to_string().contains("/certificates/one"));
    for name in ["one", "two"] {
        let (chain, key) = authority.issue(&["a.example"]);
        server.control("PUT", &format!("/certificates/{name}"), chain + &key).succeeded();
    }
    let client = authority.client(None, &[]);
    for name in ["one", "two", "one"] {
        server.control("PUT", "/config", document(name)).succeeded();
        assert_eq!(get(address, &client, "a.example", "/a.txt").unwrap().text(), "a file");
        assert_eq!(server.control("DELETE", &format!("/certificates/{name}"), "").status, 400);
    }
}

/// The socket is as most clients leave it: Nagle's algorithm holds the line back until the server
/// has acknowledged the end of the handshake.
#[test]
fn a_request_that_has_begun_when_its_listener_goes_is_answered() {
    let authority = Authority::new();
    let server = Site::new().file("a.txt", "a file").controlled().serve();
    let (chain, key) = authority.issue(&["a.example"]);
    server.control("PUT", "/certificates/one", chain + &key).succeeded();
    let address = free_address();
    let mut document = server.site.document(address);
    document["listeners"][address.to_string()]["tls"] = json!({"certificate": "one"});
    server.put("/config", &document);
    let name = "a.example".try_into().unwrap();
    let connection = ClientConnection::new(authority.client(None, &[]), name).unwrap();
    let mut stream = StreamOwned::new(connection, TcpStream::connect(address).unwrap());
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock).unwrap();
    }
    stream.write_all(b"GET /a.txt HTTP/1.1\r\n").unwrap();
    server.control("DELETE", &format!("/config/listeners/{address}"), "").succeeded();
    stream.write_all(b"Host: a.example\r\nConnection: close\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
}

#[test]
fn changed_files_are_in_use_without_a_restart() {
    let authority = Authority::new();
    let server = secure(&authority, json!({}));
    let client = authority.client(None, &[]);
    assert_eq!(get(server.address, &client, "a.example", "/a.txt").unwrap().status, 200);
    assert!(get(server.address, &client, "c.example", "/a.txt").is_err());
    let (chain, key) = authority.issue(&["c.example"]);
    let data = server.site.data();
    fs::write(data.join("chain.pem"), chain).unwrap();
    server.wait_for_log("belongs to another certificate; the old one stays in use");
    assert_eq!(get(server.address, &client, "a.example", "/a.txt").unwrap().status, 200);
    fs::write(data.join("key.pem"), key).unwrap();
    server.wait_for_log("new certificates are in use");
    assert_eq!(get(server.address, &client, "c.example", "/a.txt").unwrap().status, 200);
}

/// Each customer has a certificate of the same listener. One that is lost, while the server runs or
/// before it starts, keeps none of the others from being renewed, neither in files nor in the
/// store.
#[test]
fn a_lost_certificate_keeps_no_other_from_being_renewed() {
    let authority = Authority::new();
    let server = Site::new().file("a.txt", "a file").controlled().serve();
    let directory = server.site.data();
    let issue = |name: &str| authority.issue(&[&format!("{name}.example")]);
    let write = |name: &str| {
        let (chain, key) = issue(name);
        // One rename for both files: no look at the files comes between them.
        let new = directory.join("new");
        fs::write(&new, chain + &key).unwrap();
        fs::rename(&new, directory.join(format!("{name}.pem"))).unwrap();
    };
    let files = |name: &str| {
        let file = directory.join(format!("{name}.pem"));
        json!({"chain": file, "key": file})
    };
    let store = |server: &Server, name: &str| {
        let (chain, key) = issue("stored");
        server.control("PUT", &format!("/certificates/{name}"), chain + &key).succeeded();
    };
    ["lost", "renewed"].into_iter().for_each(write);
    store(&server, "first");
    let address = free_address();
    let mut document = server.site.document(server.address);
    let mut listener = document["listeners"][server.address.to_string()].clone();
    listener["tls"] = json!({"certificate": [files("lost"), files("renewed"), "first"]});
    document["listeners"][address.to_string()] = listener;
    server.put("/config", &document);
    let client = authority.client(None, &[]);
    let of = |name: &str| certificate(address, &client, &format!("{name}.example"));
    let is_served =
        |name: &str| get(address, &client, &format!("{name}.example"), "/a.txt").is_ok();
    let others_are_renewed = |server: &Server, new: &str| {
        let before = ["renewed", "stored"].map(&of);
        write("renewed");
        store(server, new);
        let place = format!("/config/listeners/{address}/tls/certificate/2");
        server.put(&place, &json!(new));
        for (name, before) in ["renewed", "stored"].iter().zip(before) {
            let is_new = || (of(name) != before).then_some(());
            eventually(&format!("{name} has its new certificate"), is_new);
        }
    };

    let lost = of("lost");
    fs::remove_file(directory.join("lost.pem")).unwrap();
    server.wait_for_log("lost.pem cannot be read");
    others_are_renewed(&server, "second");
    assert_eq!(of("lost"), lost, "it stays in use");

    let first = server.address.to_string();
    let (_, site) = server.end(rustix::process::Signal::TERM);
    let server = site.serve_at(&first);
    eventually("the listener is there", || is_served("renewed").then_some(()));
    assert!(!is_served("lost"));
    others_are_renewed(&server, "third");
    assert!(!is_served("lost"));
    write("lost");
    eventually("it is back", || is_served("lost").then_some(()));
}

#[test]
fn plain_requests_can_be_sent_to_https() {
    let address = free_address().to_string();
    let changes = json!({"listeners": {&address: {"redirect_to_https": 8443}}});
    let server = Site::new().file("a.txt", "a file").with(changes).serve_at(&address);
    for (method, status) in [("GET", 301), ("HEAD", 301), ("POST", 308)] {
        let mut client = server.connect();
        client.send(format!(
            "{method} /b%20c?d HTTP/1.1\r\nHost: A.example:80\r\nConnection: close\r\n\r\n"
        ));
        let response = if method == "HEAD" { client.head_response() } else { client.response() };
        assert_eq!(response.status, status);
        assert_eq!(response.field("location"), Some("https://a.example:8443/b%20c?d"));
    }
}
