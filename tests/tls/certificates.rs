//! Certificate bundles that the control API stores.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use harness::{Server, Site};
use rustix::process::Signal;
use serde_json::{Value, json};

const BUNDLE: &str = include_str!("../../crates/control/testdata/rsa.pem");

/// The private key without its frame, line by line.
fn key_lines() -> Vec<&'static str> {
    let key = BUNDLE.split("-----BEGIN PRIVATE KEY-----").nth(1).unwrap();
    key.split("-----END").next().unwrap().split_whitespace().collect()
}

fn names(server: &Server) -> Vec<String> {
    let Value::Object(all) = server.control("GET", "/certificates", "").succeeded() else {
        panic!("certificates are an object");
    };
    all.keys().cloned().collect()
}

fn private(server: &Server, path: &str) -> u32 {
    fs::metadata(server.site.state().join(path)).unwrap().permissions().mode() & 0o777
}

#[test]
fn certificates_are_stored_shown_and_deleted() {
    let server = Site::new().controlled().serve();
    assert_eq!(server.control("GET", "/certificates", "").body, json!({}));
    let stored = server.control("PUT", "/certificates/a", BUNDLE);
    assert_eq!(stored.succeeded(), json!({"success": "Certificate chain uploaded."}));
    assert_eq!((private(&server, "certs"), private(&server, "certs/a")), (0o700, 0o600));
    let again = server.control("PUT", "/certificates/a", BUNDLE);
    assert_eq!((again.status, again.text("error")), (400, "Certificate already exists."));
    let invalid = server.control("PUT", "/certificates/b", BUNDLE.replace("MII", "AAA"));
    assert_eq!((invalid.status, invalid.text("error")), (400, "Invalid certificate."));
    let key = server.control("GET", "/certificates/a/key", "").succeeded();
    assert_eq!(key, "RSA (2048 bits)");
    let name = server.control("GET", "/certificates/a/chain/0/issuer/common_name", "");
    assert_eq!(name.succeeded(), "root");
    assert!(server.control("GET", "/", "").succeeded()["certificates"]["a"].is_object());
    let deleted = server.control("DELETE", "/certificates/a", "").succeeded();
    assert_eq!(deleted, json!({"success": "Certificate deleted."}));
    assert_eq!(server.control("DELETE", "/certificates/a", "").status, 404);
    assert_eq!(names(&server), [""; 0]);
    assert!(!server.site.state().join("certs/a").exists());
}

#[test]
fn certificates_are_there_after_a_restart_of_the_server_and_of_the_router() {
    let server = Site::new().controlled().serve();
    for name in ["b", "a", "*.example.org"] {
        server.control("PUT", &format!("/certificates/{name}"), BUNDLE).succeeded();
    }
    let router = server.router();
    harness::processes::signal(router, Signal::KILL);
    harness::eventually("there is another router", || (server.router() != router).then_some(()));
    assert_eq!(names(&server), ["*.example.org", "a", "b"]);
    let (_, site) = server.end(Signal::TERM);
    fs::write(site.state().join("certs/broken"), "no certificate").unwrap();
    let server = site.serve();
    assert_eq!(names(&server), ["*.example.org", "a", "b"]);
    server.wait_for_log("\"broken\" is not used");
}

#[test]
fn no_name_of_a_certificate_leads_out_of_its_directory() {
    let server = Site::new().controlled().serve();
    server.control("PUT", "/certificates/a", BUNDLE).succeeded();
    let document = fs::read(server.site.state().join("conf.json")).ok();
    for name in ["..%2fconf.json", "%2e%2e%2fconf.json", ".", "..", ".a", "", "a/b", "a%00", "%ff"]
    {
        for method in ["PUT", "DELETE"] {
            let answer = server.control(method, &format!("/certificates/{name}"), BUNDLE);
            assert!((400..500).contains(&answer.status), "{name}: {answer:?}");
        }
    }
    assert_eq!(fs::read(server.site.state().join("conf.json")).ok(), document);
    let in_state: Vec<_> = fs::read_dir(server.site.state().join("certs")).unwrap().collect();
    assert_eq!(in_state.len(), 1);
}

#[test]
fn a_private_key_is_in_no_answer_and_in_no_log() {
    let server = Site::new().controlled().serve();
    let mut said = String::new();
    let without_chain = BUNDLE.split("-----BEGIN CERT").find(|t| t.contains("KEY")).unwrap();
    for body in [BUNDLE, without_chain, &BUNDLE.replace("-----END CERTIFICATE-----", "")] {
        said += &server.control("PUT", "/certificates/a", body).body.to_string();
        said += &server.control("PUT", "/certificates/..", body).body.to_string();
        said += &server.control("PUT", "/config", body).body.to_string();
    }
    said += &server.control("GET", "/", "").body.to_string();
    said += &server.log();
    for line in key_lines() {
        assert!(!said.contains(line), "{said}");
    }
}
