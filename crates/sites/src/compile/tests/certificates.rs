//! Mistakes in the certificates of sites, which are in lists of listeners that sites share.

use super::*;

/// Certificates of all sites are in one list of the listener.
#[test]
fn a_mistake_of_a_certificate_is_told_in_its_site() {
    let root = tempfile::tempdir().unwrap();
    let site =
        |host: &str, https: Value| json!({"hosts": [host], "root": root.path(), "https": https});
    let files = |name: &str| json!({"certificate": format!("/{name}.pem")});
    let acme = || json!({"email": "me@a.example"});
    let text = json!({
        "sites": {
            "a": site("a.example", files("a")),
            "b": site("b.example", acme()),
            "c": site("c.example", files("c")),
            "d": site("d-.example", acme()),
        },
        "defaults": {"listen_https": ["127.0.0.1:443", "127.0.0.1:444"]},
        "listeners": {"127.0.0.1:444": {"pass": "routes/sites", "tls": {"certificate": "own"}}},
    });
    let text = text.to_string();
    let expanded = include::expand(text.as_bytes(), Path::new("/h.json"), &Files).unwrap().unwrap();
    let place = |path: &str| {
        let text = expanded.explain_problem(path, "x");
        text.rsplit_once(": ").unwrap().0.rsplit(": ").next().unwrap().to_owned()
    };
    for (part, expected) in [
        ("127.0.0.1:443/tls/certificate/0", "/sites/a/https"),
        ("127.0.0.1:443/tls/certificate/1/chain", "/sites/c/https/certificate"),
        ("127.0.0.1:444/tls/certificate/2/chain", "/sites/c/https/certificate"),
        ("127.0.0.1:444/tls/certificate/0", "/listeners/127.0.0.1:444/tls/certificate"),
        ("127.0.0.1:443/tls/acme/0/domains/0", "/sites/b/hosts/0"),
        ("127.0.0.1:444/tls/acme/1", "/sites/d/https"),
    ] {
        assert_eq!(place(&format!("/listeners/{part}")), expected, "{part}");
    }
    let error = Config::from_value(expanded.document.clone()).unwrap_err();
    let text = expanded.explain(&error);
    assert!(text.contains("/sites/d/hosts/0: ") && !text.contains("is missing"), "{text}");
}

#[test]
fn challenges_by_dns_need_a_program_in_the_site_or_in_defaults() {
    let dns = json!({"https": {"email": "me@a.example", "dns": {"program": "/bin/dns"}}});
    let keys = json!({"https": {"challenges": "dns"}});
    assert!(document(keys.clone(), dns).1.is_ok());
    let problem = problem(keys, json!({"https": {"email": "me@a.example"}}));
    assert!(problem.contains("/sites/a/https: \"https\" proves names by DNS, but"), "{problem}");
    assert!(!problem.contains("is missing"), "{problem}");
}

#[test]
fn a_mistake_of_the_defaults_of_many_sites_is_told_once() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("index.php"), "").unwrap();
    let site = |number: usize| {
        let site = json!({
            "hosts": format!("{number}.example"),
            "root": root.path(),
            "headers": {"X-A": "a"},
            "environment": {"A": "a"},
        });
        (format!("s{number}"), site)
    };
    let sites: Map<String, Value> = (0..200).map(site).collect();
    for (defaults, expected) in [
        (json!({"headers": {"a b": "c"}}), "/defaults/headers"),
        (json!({"environment": {"B": 5}}), "/defaults/environment/B"),
        (
            json!({"environment": {"B": {"file": "/none"}}, "php": {"shared": true}}),
            "/defaults/environment/B: /none",
        ),
    ] {
        let text = json!({"sites": sites, "defaults": defaults}).to_string();
        let expanded = include::expand(text.as_bytes(), Path::new("/h.json"), &Files);
        let problem = expanded.and_then(|expanded| {
            let expanded = expanded.expect("sites");
            let read = Config::from_value(expanded.document.clone());
            read.map(drop).map_err(|error| expanded.explain(&error))
        });
        let problem = problem.unwrap_err();
        assert!(problem.contains(expected) && problem.lines().count() == 1, "{problem}");
    }
}

#[test]
fn sites_that_wait_for_an_email_address_are_named_in_one_note() {
    let root = tempfile::tempdir().unwrap();
    let notes = |https: &[Value], defaults: Value| {
        let sites = https.iter().enumerate().map(|(number, https)| {
            let hosts = format!("{number}.example");
            let site = json!({"hosts": hosts, "root": root.path(), "https": https});
            (format!("s{number}"), site)
        });
        let sites: Map<String, Value> = sites.collect();
        let text = json!({"sites": sites, "defaults": defaults}).to_string();
        let expanded = include::expand(text.as_bytes(), Path::new("/h.json"), &Files);
        expanded.unwrap().expect("sites").notes
    };
    let auto = json!("auto");
    let found = notes(&[auto.clone(), json!(false), auto.clone()], json!({}));
    let expected = "/h.json: HTTP only: 2 sites (s0, s2); to switch HTTPS on, write \"defaults\": \
                    {\"https\": {\"email\": \"you@example.org\"}} into /h.json, then: howdah reload \
                    (\"https\": false leaves it off)";
    assert_eq!(found, [expected]);
    let found = notes(&vec![auto.clone(); 500], json!({}));
    assert!(found.len() == 1 && found[0].contains("500 sites (s0, s1, s2, s3, s4, ...);"));
    let email = json!({"https": {"email": "me@a.example"}});
    assert!(notes(&[auto, json!(false)], email).is_empty());
    assert!(notes(&[json!(false)], json!({})).is_empty());
}
