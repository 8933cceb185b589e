//! Which key of a site a part of the document comes from: the running server says the same as the
//! compiler.

use howdah_config::include::SitePlaces;

use super::*;

#[test]
fn a_running_document_leads_to_the_keys_that_it_was_compiled_from() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("index.php"), "").unwrap();
    let site = json!({
        "hosts": "a.example",
        "root": root.path(),
        "user": "nobody",
        "group": "nogroup",
        "https": {"certificate": "/a.pem"},
        "php": {"ini": {"a": "1"}, "processes": 2, "extensions": ["imagick"]},
        "limits": {"cpu": 1, "mail": 5},
        "logs": {"access": "/var/log/a"},
        "environment": {"A": "b"},
    });
    let defaults = json!({
        "listen_https": "127.0.0.1:443",
        "php": {"version": "8.2"},
        "limits": {"memory": "64M"},
    });
    let text = json!({"sites": {"a": site}, "defaults": defaults}).to_string();
    let expanded = include::expand(text.as_bytes(), Path::new("/h.json"), &Files).unwrap().unwrap();
    let places = SitePlaces::of(&expanded.document);
    for (part, expected) in [
        ("/applications/a/user", "/sites/a/user"),
        ("/applications/a/group", "/sites/a/group"),
        ("/applications/a/root", "/sites/a/root"),
        ("/applications/a/type", "/defaults/php/version"),
        ("/applications/a/processes", "/sites/a/php/processes"),
        ("/applications/a/options/extensions", "/sites/a/php/extensions"),
        ("/applications/a/options/admin/a", "/sites/a/php/ini/a"),
        ("/applications/a/isolation/limits/cpu", "/sites/a/limits/cpu"),
        ("/applications/a/isolation/limits/memory", "/defaults/limits/memory"),
        ("/applications/a/smtp/limit", "/sites/a/limits/mail"),
        ("/applications/a/environment/A", "/sites/a/environment/A"),
        ("/routes/a/1/action/access_log", "/sites/a/logs/access"),
        ("/listeners/127.0.0.1:443/tls/certificate/0", "/sites/a/https"),
        ("/listeners/127.0.0.1:443/tls/certificate/0/chain", "/sites/a/https/certificate"),
    ] {
        let compiled = expanded.explain_problem(part, "x");
        assert!(compiled.ends_with(&format!(": {expected}: x")), "{part}: {compiled}");
        let running = places.explain(part, "x");
        assert_eq!(running, Some(format!("/h.json: {expected}: x")), "{part}");
    }
}
