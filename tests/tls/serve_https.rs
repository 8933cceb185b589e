//! `howdah serve` with https: for development, and with names of one's own.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use harness::tls::{certificate, get, trusting};
use harness::{Server, Site, free_address};
use rustix::process::Signal;
use rustls::ClientConfig;

/// A server of a directory over https, and a client that trusts its authority.
fn developing(site: Site, names: &[&str]) -> (Server, Arc<ClientConfig>) {
    let state = site.state().display().to_string();
    let mut site = site.argument("--tls").argument("--state").argument(&state);
    for name in names {
        site = site.argument("--domain").argument(name);
    }
    let server = site.serve();
    let authority = fs::read_to_string(server.site.state().join("local/authority.pem")).unwrap();
    (server, trusting(&authority))
}

fn text(address: SocketAddr, client: &Arc<ClientConfig>, name: &str) -> String {
    get(address, client, name, "/a.txt").unwrap().text()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_directory_is_served_over_https_by_an_authority_of_its_own() {
    let (server, client) = developing(Site::new().file("a.txt", "a file"), &["shop.test"]);
    for name in ["localhost", "127.0.0.1", "shop.test"] {
        assert_eq!(text(server.address, &client, name), "a file", "{name}");
    }
    assert!(get(server.address, &client, "other.test", "/a.txt").is_err());
    let local = server.site.state().join("local");
    assert_eq!(mode(&local), 0o700);
    for file in fs::read_dir(&local).unwrap().flatten() {
        assert_eq!(mode(&file.path()), 0o600, "{:?}", file.path());
    }
    let said = &server.announcement;
    let authority = local.join("authority.pem").display().to_string();
    assert!(said.contains(&format!("curl --cacert {authority}")), "{said}");
    assert!(said.contains("update-ca-certificates") && said.contains("Firefox"), "{said}");
    assert!(said.contains(&format!("Serving https://{}/", server.address)), "{said}");
    // A client that trusts it need not do so again after a restart, also if the names are others.
    let (_, site) = server.end(Signal::TERM);
    let site = site.argument("--domain").argument("other.test");
    let server = site.serve();
    assert_eq!(text(server.address, &client, "other.test"), "a file");
}

#[test]
fn a_certificate_that_was_made_anew_is_in_use_without_a_restart() {
    let (server, client) = developing(Site::new().file("a.txt", "a file"), &[]);
    let first = certificate(server.address, &client, "localhost");
    let local = server.site.state().join("local");
    fs::remove_file(local.join("names")).unwrap();
    harness::processes::signal(server.supervisor(), Signal::HUP);
    server.wait_for_log("was read again");
    assert_ne!(certificate(server.address, &client, "localhost"), first);
    assert_eq!(text(server.address, &client, "localhost"), "a file");
}

#[test]
fn a_name_of_ones_own_needs_an_authority_and_http_is_there_meanwhile() {
    let (plain, secure) = (free_address(), free_address());
    let site = Site::new().file("a.txt", "a file");
    let state = site.state().display().to_string();
    let options = ["--domain", "a.example", "--email", "me@a.example", "--state", &state];
    let site = options.iter().fold(site, |site, option| site.argument(option));
    let authority = free_address();
    let site = site.argument("--acme").argument(&format!("https://{authority}/directory"));
    let site = site.argument("--listen").argument(&secure.to_string());
    // Of the two addresses none is port 80, so both speak TLS.
    let server = site.serve_at(&plain.to_string());
    assert!(server.announcement.contains(&format!("Serving https://{secure}/")));
    server.wait_for_log(&format!("certificate acme:a.example: {authority}: "));
}
