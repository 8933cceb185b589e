//! Every key of a site and of `defaults`: what it compiles to.

use std::collections::BTreeSet;

use howdah_config::{DOCUMENT, Presence};

use super::*;

/// A key, and the part of the compiled document that it makes.
struct Row {
    /// The object of the key, as in the table of keys, and its name.
    key: (&'static str, &'static str),
    /// Place of the key in the document with the site `a`, as a JSON pointer.
    place: &'static str,
    /// The value of the key; `ROOT` is the directory of the site.
    value: Value,
    /// What the document has beside it.
    beside: Value,
    /// The part of the compiled document, as a JSON pointer.
    part: &'static str,
    /// Its value; `null` if the key takes it away.
    expected: Value,
}

impl Row {
    fn of_site(shape: &'static str, place: &'static str, value: Value) -> Row {
        let name = place.rsplit('/').next().unwrap_or_default();
        let key = (shape, name);
        let (beside, part, expected) = (json!({}), "", Value::Null);
        Row { key, place, value, beside, part, expected }
    }

    fn beside(self, beside: Value) -> Row {
        Row { beside, ..self }
    }

    fn makes(self, part: &'static str, expected: Value) -> Row {
        Row { part, expected, ..self }
    }

    /// Returns the document with the key under this name, or without it.
    fn document(&self, root: &str, name: Option<&str>, value: &Value) -> Value {
        let mut document = json!({
            "sites": {"a": {"hosts": ["a.example", "www.a.example"], "root": root}},
            "defaults": {"listen": "127.0.0.1:80", "listen_https": "127.0.0.1:443"},
        });
        merge(&mut document, &self.beside);
        let mut object = &mut document;
        let steps: Vec<_> = self.place.split('/').skip(1).collect();
        let (last, above) = steps.split_last().unwrap();
        for step in above {
            object = &mut object[*step];
        }
        match name {
            Some(name) => {
                object.as_object_mut().map(|members| members.remove(*last));
                object[name] = value.clone();
            }
            None => drop(object.as_object_mut().map(|members| members.remove(*last))),
        }
        serde_json::from_str(&document.to_string().replace("ROOT", root)).unwrap()
    }
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}

fn directory() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("pub")).unwrap();
    for file in ["index.php", "app.php", "pub/index.php"] {
        fs::write(root.path().join(file), "").unwrap();
    }
    root
}

/// Reads and compiles a document, which is valid.
fn compiled(document: &Value) -> Result<Value, String> {
    let text = document.to_string();
    let expanded = include::expand(text.as_bytes(), Path::new("/h.json"), &Files)?.unwrap();
    match Config::from_value(expanded.document.clone()) {
        Ok(_) => Ok(expanded.document),
        Err(error) => Err(expanded.explain(&error)),
    }
}

fn rows() -> Vec<Row> {
    let site = |place, value| Row::of_site("site", place, value);
    let defaults = |place, value| Row::of_site("site_defaults", place, value);
    let https = |place, value| Row::of_site("site_https", place, value);
    let php = |place, value| Row::of_site("site_php", place, value);
    let limits = |place, value| Row::of_site("site_limits", place, value);
    let files = || json!({"certificate": "/chain", "key": "/key"});
    let acme = || json!({"sites": {"a": {"https": {"email": "me@a.example"}}}});
    vec![
        site("/sites/a/hosts", json!("b.example"))
            .makes("/variables/site/values/b.example", json!("a")),
        site("/sites/a/root", json!("ROOT/pub"))
            .makes("/applications/a/targets/direct/root", json!("ROOT/pub")),
        site("/sites/a/user", json!("root")).makes("/applications/a/user", json!("root")),
        site("/sites/a/group", json!("root"))
            .beside(json!({"sites": {"a": {"user": "root"}}}))
            .makes("/applications/a/group", json!("root")),
        site("/sites/a/enabled", json!(false)).makes("/routes/a/0/action/return", json!(503)),
        site("/sites/a/canonical", json!("a.example"))
            .makes("/routes/a/0/match/host", json!("!a.example")),
        site("/sites/a/public", json!("pub"))
            .makes("/applications/a/targets/direct/root", json!("ROOT/pub")),
        site("/sites/a/front_controller", json!("app.php"))
            .makes("/applications/a/targets/front/script", json!("app.php")),
        site("/sites/a/worker", json!("app.php"))
            .makes("/applications/a/worker/script", json!("app.php")),
        site("/sites/a/auth", json!({"users_file": "/users"}))
            .makes("/routes/a/0/action/basic_auth/users_file", json!("/users")),
        site("/sites/a/routes", json!([{"action": {"return": 204}}]))
            .makes("/routes/a/0/action/return", json!(204)),
        site("/sites/a/https", files())
            .makes("/listeners/127.0.0.1:443/tls/certificate/0/chain", json!("/chain")),
        site("/sites/a/php", json!({"version": "8.2"}))
            .makes("/applications/a/type", json!("php 8.2")),
        site("/sites/a/limits", json!({"mail": 5})).makes("/applications/a/smtp/limit", json!(5)),
        site("/sites/a/cache", json!("drupal"))
            .makes("/routes/a/0/action/cache/preset", json!("drupal")),
        site("/sites/a/htaccess", json!(false)).makes("/routes/a/2/action/htaccess", Value::Null),
        site("/sites/a/environment", json!({"A": "b"}))
            .makes("/applications/a/environment/A", json!("b")),
        site("/sites/a/logs", json!({"access": "/log"}))
            .makes("/routes/a/0/action/access_log", json!("/log")),
        site("/sites/a/headers", json!({"X-A": "b"}))
            .makes("/routes/a/0/action/response_headers/X-A", json!("b")),
        defaults("/defaults/listen", json!("127.0.0.1:81"))
            .makes("/listeners/127.0.0.1:81/pass", json!("routes/sites")),
        defaults("/defaults/listen_https", json!("127.0.0.1:444"))
            .beside(json!({"sites": {"a": {"https": files()}}}))
            .makes("/listeners/127.0.0.1:444/pass", json!("routes/sites")),
        defaults("/defaults/https", json!({"email": "me@a.example"}))
            .makes("/listeners/127.0.0.1:443/tls/acme/0/email", json!("me@a.example")),
        defaults("/defaults/php", json!({"version": "8.2"}))
            .makes("/applications/a/type", json!("php 8.2")),
        defaults("/defaults/limits", json!({"mail": 5}))
            .makes("/applications/a/smtp/limit", json!(5)),
        defaults("/defaults/cache", json!("drupal"))
            .makes("/routes/a/0/action/cache/preset", json!("drupal")),
        defaults("/defaults/htaccess", json!(false))
            .makes("/routes/a/2/action/htaccess", Value::Null),
        defaults("/defaults/environment", json!({"A": "b"}))
            .makes("/applications/a/environment/A", json!("b")),
        defaults("/defaults/logs", json!({"access": "/log"}))
            .makes("/routes/a/0/action/access_log", json!("/log")),
        defaults("/defaults/headers", json!({"X-A": "b"}))
            .makes("/routes/a/0/action/response_headers/X-A", json!("b")),
        https("/sites/a/https/certificate", json!("/chain"))
            .makes("/listeners/127.0.0.1:443/tls/certificate/0/chain", json!("/chain")),
        https("/sites/a/https/key", json!("/key"))
            .beside(json!({"sites": {"a": {"https": {"certificate": "/chain"}}}}))
            .makes("/listeners/127.0.0.1:443/tls/certificate/0/key", json!("/key")),
        https("/sites/a/https/email", json!("me@a.example"))
            .makes("/listeners/127.0.0.1:443/tls/acme/0/email", json!("me@a.example")),
        https("/sites/a/https/servers", json!("https://ca.example/directory"))
            .beside(acme())
            .makes(
                "/listeners/127.0.0.1:443/tls/acme/0/servers",
                json!("https://ca.example/directory"),
            ),
        https("/sites/a/https/challenges", json!("http"))
            .beside(acme())
            .makes("/listeners/127.0.0.1:443/tls/acme/0/challenges", json!("http")),
        https("/sites/a/https/dns", json!({"program": "/bin/dns"}))
            .beside(json!({
                "sites": {"a": {"https": {"email": "me@a.example", "challenges": "dns"}}},
            }))
            .makes("/listeners/127.0.0.1:443/tls/acme/0/dns/program", json!("/bin/dns")),
        Row::of_site("site", "/sites/a/releases", json!(true))
            .makes("/applications/a/releases", json!(true)),
        Row::of_site(
            "site",
            "/sites/a/jobs",
            json!({"j": {"command": ["true"], "working_directory": "/"}}),
        )
        .makes("/applications/a/jobs/j/command", json!(["true"])),
        Row::of_site("site", "/sites/a/jobs", json!({"j": {"preset": "wordpress"}}))
            .makes("/applications/a/jobs/j/environment/HTTP_HOST", json!("a.example")),
        php("/sites/a/php/version", json!("8.2")).makes("/applications/a/type", json!("php 8.2")),
        php("/sites/a/php/ini", json!({"memory_limit": "9M"}))
            .makes("/applications/a/options/admin/memory_limit", json!("9M")),
        php("/sites/a/php/processes", json!(3)).makes("/applications/a/processes", json!(3)),
        php("/sites/a/php/extensions", json!(["imagick"]))
            .makes("/applications/a/options/extensions", json!(["imagick"])),
        php("/sites/a/php/shared", json!(true)).makes("/applications/a", Value::Null),
        limits("/sites/a/limits/requests", json!("30/s"))
            .makes("/routes/a/0/action/limit/0/rate", json!("30/s")),
        limits("/sites/a/limits/memory", json!("64M"))
            .makes("/applications/a/isolation/limits/memory", json!(64 << 20)),
        limits("/sites/a/limits/cpu", json!(0.5))
            .makes("/applications/a/isolation/limits/cpu", json!(0.5)),
        limits("/sites/a/limits/processes", json!(20))
            .makes("/applications/a/isolation/limits/processes", json!(20)),
        limits("/sites/a/limits/mail", json!(5)).makes("/applications/a/smtp/limit", json!(5)),
        limits("/sites/a/limits/bandwidth", json!(9000))
            .makes("/routes/a/0/action/limit/0/bandwidth", json!(9000)),
        Row::of_site("variable_source", "/sites/a/environment/A/file", json!("/secret"))
            .makes("/applications/a/environment/A", json!({"file": "/secret"})),
        Row::of_site("variable_source", "/sites/a/environment/A/env", json!("B"))
            .makes("/applications/a/environment/A", json!({"env": "B"})),
        Row::of_site("variable_source", "/sites/a/environment/A/default", json!("c"))
            .beside(json!({"sites": {"a": {"environment": {"A": {"env": true}}}}}))
            .makes("/applications/a/environment/A", json!({"env": "A", "default": "c"})),
        Row::of_site("site_logs", "/sites/a/logs/access", json!("/log"))
            .makes("/routes/a/0/action/access_log", json!("/log")),
        Row::of_site("site_logs", "/sites/a/logs/error", json!("/errors"))
            .makes("/error_logs/a", json!("/errors")),
    ]
}

#[test]
fn every_key_has_a_row() {
    let shapes = DOCUMENT.all().into_iter();
    let of_sites =
        shapes.filter(|shape| shape.name == "variable_source" || shape.name.starts_with("site"));
    let keys = of_sites.flat_map(|shape| {
        let is_read = |key: &&howdah_config::Key| key.presence != Presence::Unavailable;
        shape.keys().filter(is_read).map(|key| (shape.name, key.name))
    });
    let rows: BTreeSet<_> = rows().iter().map(|row| row.key).collect();
    assert_eq!(rows, keys.collect());
}

/// The part is there because of the key: without it, the document has another one, or is refused.
#[test]
fn every_key_makes_its_part_of_the_document() {
    let root = directory();
    let root = root.path().to_str().unwrap();
    for row in rows() {
        let place = row.place;
        let part = |document: &Value| {
            let found = document.pointer(row.part).cloned().unwrap_or(Value::Null);
            serde_json::from_str::<Value>(&found.to_string().replace(root, "ROOT")).unwrap()
        };
        let name = Some(row.key.1);
        let with = compiled(&row.document(root, name, &row.value));
        let with = with.unwrap_or_else(|problem| panic!("{place}: {problem}"));
        assert_eq!(part(&with), row.expected, "{place}: {} of {with:#}", row.part);
        if let Ok(without) = compiled(&row.document(root, None, &row.value)) {
            assert_ne!(part(&without), row.expected, "{place}: {}", row.part);
        }
    }
}

#[test]
fn every_misspelled_key_and_every_wrong_type_is_named_with_its_place() {
    let root = directory();
    let root = root.path().to_str().unwrap();
    for row in rows() {
        let (above, name) = row.place.rsplit_once('/').unwrap();
        let misspelled = format!("{name}{}", name.chars().last().unwrap());
        let problem = compiled(&row.document(root, Some(&misspelled), &row.value)).unwrap_err();
        let expected = format!("{above}: unknown key \"{misspelled}\"; did you mean \"{name}\"?");
        assert!(problem.contains(&expected), "{expected}: {problem}");
        let problem = compiled(&row.document(root, Some(name), &json!([1.5]))).unwrap_err();
        assert!(problem.contains(row.place), "{}: {problem}", row.place);
        assert!(problem.starts_with("/h.json: line 1, "), "{problem}");
    }
}
