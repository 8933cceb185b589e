//! `howdah check` and certificates.

use std::fs;
use std::process::Command;

use harness::tls::Authority;
use harness::{Site, programs};
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use serde_json::json;

use super::check::{check, said};

/// A certificate for `a.example` that is valid between two years, with its key.
fn certificate(since: i32, until: i32) -> (String, String) {
    let mut params = CertificateParams::new(["a.example".to_owned()]).unwrap();
    params.not_before = date_time_ymd(since, 1, 1);
    params.not_after = date_time_ymd(until, 1, 1);
    let key = KeyPair::generate().unwrap();
    (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

#[test]
fn certificates_that_have_expired_or_are_not_yet_valid_are_told() {
    let site = Site::script("index.php", "echo 1;");
    let at = |name: &str| site.data().join(name);
    fs::create_dir_all(at("state/certs")).unwrap();
    for (name, since, until) in [("old", 1999, 2000), ("good", 2000, 2999), ("future", 2998, 2999)]
    {
        let (chain, key) = certificate(since, until);
        fs::write(at(&format!("state/certs/{name}")), format!("{chain}{key}")).unwrap();
        fs::write(at(&format!("{name}.pem")), chain).unwrap();
        fs::write(at(&format!("{name}.key")), key).unwrap();
    }
    let files = |name: &str| {
        json!({"chain": at(&format!("{name}.pem")),
        "key": at(&format!("{name}.key"))})
    };
    let place = "/listeners/127.0.0.1:80/tls/certificate: certificate 1 of ";
    let expired = "has expired on Sat, 01 Jan 2000 00:00:00 GMT";
    for (certificate, expected) in [
        (files("old"), Some(expired)),
        (json!("old"), Some(expired)),
        (files("future"), Some("is not valid before Mon, 01 Jan 2998 00:00:00 GMT")),
        (files("good"), None),
        (json!("good"), None),
    ] {
        let tls = json!({"listeners": {"127.0.0.1:80": {"tls": {"certificate": certificate}}}});
        let (_, name) = check(&site, &tls);
        let mut command = Command::new(programs::howdah());
        command.arg("check").arg(name).arg("--state").arg(at("state"));
        let output = programs::run(&mut command);
        let text = said(&output);
        assert!(output.status.success(), "{text}");
        match expected {
            Some(expected) => assert!(text.contains(place) && text.contains(expected), "{text}"),
            None => assert!(!text.contains(place), "{text}"),
        }
    }
}

#[test]
fn certificates_of_the_store_are_looked_at_where_it_is_known() {
    let site = Site::script("index.php", "echo 1;");
    let tls = json!({"listeners": {"127.0.0.1:80": {"tls": {"certificate": "mine"}}}});
    let (output, name) = check(&site, &tls);
    assert!(output.status.success() && said(&output).contains("--state"), "{output:?}");
    let state = site.data().join("state");
    let with_state = || {
        let mut command = Command::new(programs::howdah());
        programs::run(command.arg("check").arg(&name).arg("--state").arg(&state))
    };
    let text = said(&with_state());
    assert!(text.contains("/listeners/127.0.0.1:80/tls: there is no certificate"), "{text}");
    assert!(!state.exists(), "nothing is made");
    let (chain, key) = Authority::new().issue(&["a.example"]);
    fs::create_dir_all(state.join("certs")).unwrap();
    fs::write(state.join("certs/mine"), chain + &key).unwrap();
    assert!(with_state().status.success());
}

#[test]
fn the_file_that_names_a_certificate_is_named() {
    let site = Site::new();
    let at = |name: &str| site.data().join(name);
    let files = |name: &str| json!({"chain": at(name), "key": at(name)});
    let tls = |tls: serde_json::Value| json!({"listeners": {"127.0.0.1:443": {"tls": tls}}});
    let (chain, key) = certificate(1999, 2000);
    fs::write(at("old.pem"), chain + &key).unwrap();
    fs::write(at("a.site"), tls(json!({"certificate": files("a.pem")})).to_string()).unwrap();
    let of_b = tls(json!({"certificate": [files("b.pem"), files("old.pem")]}));
    fs::write(at("b.site"), of_b.to_string()).unwrap();
    let clients = json!({"client_certificates": {"authorities": at("c.pem")}});
    fs::write(at("c.site"), tls(clients).to_string()).unwrap();
    let mut document = tls(json!({"certificate": files("own.pem")}));
    document["listeners"]["127.0.0.1:443"]["pass"] = json!("routes");
    document["routes"] = json!([{"action": {"return": 200}}]);
    document["include"] = json!("*.site");
    let outer = at("outer.json");
    fs::write(&outer, document.to_string()).unwrap();
    let output = programs::run(Command::new(programs::howdah()).arg("check").arg(&outer));
    let text = said(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    for (part, file) in [
        ("/own.pem", outer),
        ("/a.pem", at("a.site")),
        ("/b.pem", at("b.site")),
        ("/c.pem", at("c.site")),
        ("/old.pem has expired", at("b.site")),
    ] {
        let line = text.lines().find(|line| line.contains(part)).expect(part);
        let start = format!("{}: /listeners/127.0.0.1:443/tls", file.display());
        assert!(line.contains(&start), "{part}: {line}");
    }
}
