use std::collections::BTreeSet;

use super::*;

/// Returns a document with an object that has an unknown key, and otherwise the keys of `value`.
fn probe(name: &str, mut value: Value) -> Value {
    value["zzzzzzzzzzzzzzzz"] = json!(1);
    let action = |action: Value| {
        json!({
            "routes": [{"action": action}], "applications": {"a": {"type": "php", "root": "/"}},
        })
    };
    let application = |key: &str, value: Value| json!({"applications": {"a": {"type": "php", "root": "/", key: value}}});
    let fastcgi = |key: &str, value: Value| json!({"applications": {"a": {"type": "fastcgi", "server": "1.2.3.4:5", "root": "/", key: value}}});
    let upstream =
        |key: &str, value: Value| json!({"upstreams": {"u": {"servers": {}, key: value}}});
    let http = |key: &str, value: Value| json!({"settings": {"http": {key: value}}});
    let listener = |key: &str, value: Value| json!({"listeners": {"*:80": {"pass": "routes", key: value}}, "routes": []});
    match name {
        "document" => value,
        "variable" => json!({"variables": {"x": value}}),
        "listener" => json!({"listeners": {"*:80": value}, "routes": []}),
        "forwarded" | "client_ip" | "tls" | "proxy_protocol" => listener(name, value),
        "certificate" => listener("tls", json!({"certificate": value})),
        "session" | "client_certificates" | "acme" => {
            listener("tls", json!({"certificate": "a", name: value}))
        }
        "acme_server" => listener("tls", json!({"acme": {"domains": "a.b", "servers": value}})),
        "acme_external_account" => {
            let server = json!({"directory": "https://a", "external_account": value});
            listener("tls", json!({"acme": {"domains": "a.b", "servers": server}}))
        }
        "acme_dns" | "acme_on_demand" => {
            let key = name.trim_start_matches("acme_");
            listener("tls", json!({"acme": {"domains": "a.b", key: value}}))
        }
        "step" => json!({"routes": [value]}),
        "match" => json!({"routes": [{"match": value, "action": {"return": 200}}]}),
        "action" => action(value),
        "limit" => action(json!({"return": 200, "limit": value})),
        "bandwidth" => action(json!({"return": 200, "limit": {"bandwidth": value}})),
        "penalty" => action(json!({"return": 200, "limit": {"rate": "1/s", "penalty": value}})),
        "cache" => action(json!({"proxy": "http://127.0.0.1:1", "cache": value})),
        "cors" => action(json!({"return": 200, "cors": value})),
        "error_page" => action(json!({"return": 200, "error_pages": {"404": value}})),
        "response_header" => action(json!({"return": 200, "response_headers": {"A": value}})),
        "basic_auth" => action(json!({"return": 200, "basic_auth": value})),
        "application" => json!({"applications": {"a": value}}),
        "fastcgi" => json!({"applications": {"a": value}}),
        "fastcgi_limits" => fastcgi("limits", value),
        "timeouts" => fastcgi("timeouts", value),
        "upstream_tls" => upstream("tls", value),
        "upstream_timeouts" => upstream("timeouts", value),
        "action_timeouts" => action(json!({"proxy": "http://127.0.0.1:1", "timeouts": value})),
        "target" => json!({"applications": {"a": {"type": "php", "targets": {"t": value}}}}),
        "options" | "processes" | "limits" | "worker" | "htaccess" => application(name, value),
        "isolation" => application("isolation", value),
        "rlimits" => application("limits", json!({"rlimits": value})),
        "cgroup" => application("isolation", json!({"cgroup": value})),
        "sandbox" => application("isolation", json!({"sandbox": value})),
        "id_range" => application("isolation", json!({"uidmap": [value]})),
        "upstream" => json!({"upstreams": {"u": value}}),
        "upstream_server" => json!({"upstreams": {"u": {"servers": {"1.2.3.4:5": value}}}}),
        "hash" => upstream("balance", value),
        "failures" | "health" | "retry" | "sticky" => upstream(name, value),
        "settings" => json!({"settings": value}),
        "http" => json!({"settings": {"http": value}}),
        "static" | "compression" => http(name, value),
        "compressor" => http("compression", json!({"compressors": value})),
        "access_log" => json!({"access_log": value}),
        "auth_request" => action(json!({"return": 200, "auth_request": value})),
        "mirror" => action(json!({"return": 200, "mirror": value})),
        "action_php_options" => action(json!({"return": 200, "options": value})),
        "syslog" | "journal" => json!({"access_log": {name: value}}),
        "cluster" => json!({"settings": {"cluster": value}}),
        "smtp" => json!({"settings": {"smtp": value}}),
        "log_only" => json!({"access_log": {"path": "/a", "only": value}}),
        other => panic!("{other} has no probe"),
    }
}

/// Returns objects that are valid except for the unknown key; together they make the parser read
/// all keys.
fn samples(name: &str) -> Vec<Value> {
    match name {
        "cgroup" => vec![json!({"path": "a"})],
        "listener" => vec![json!({"pass": "routes"})],
        "forwarded" => vec![json!({"source": [], "client_ip": "X"})],
        "proxy_protocol" => vec![json!({"source": []})],
        "client_ip" => vec![json!({"source": [], "header": "X"})],
        "tls" => vec![json!({"certificate": "a"})],
        "certificate" => vec![json!({"chain": "/a", "key": "/b"})],
        "acme" => vec![json!({"domains": "a.b"})],
        "acme_server" => vec![json!({"directory": "https://a"})],
        "acme_external_account" => vec![json!({"id": "a", "key": "AAAA"})],
        "acme_dns" => vec![json!({"program": "/a"})],
        "acme_on_demand" => vec![json!({"ask": "http://a/"})],
        "client_certificates" => vec![json!({"authorities": "/a"})],
        "step" => vec![json!({"action": {"return": 200}})],
        "action" => vec![
            json!({"return": 200}),
            json!({"share": "/a"}),
            json!({"pass": "routes"}),
            json!({"status": "applications/a"}),
            json!({"ping": "applications/a"}),
        ],
        "limit" => vec![json!({"rate": "1/s"})],
        "variable" => vec![
            json!({"map": "$uri", "values": {}}),
            json!({"geo": "$uri", "database": "/a", "path": "a"}),
        ],
        "bandwidth" => vec![json!({"rate": 1})],
        "cors" => vec![json!({"origins": "*"})],
        "auth_request" => vec![json!({"action": {"return": 200}})],
        "mirror" => vec![json!({"action": {"return": 200}})],
        "error_page" => vec![json!({"action": {"return": 200}})],
        "response_header" => vec![json!({"value": "a"})],
        "basic_auth" => vec![json!({"users_file": "/a"})],
        "worker" => vec![json!({"script": "a.php"})],
        "application" => vec![json!({"type": "php", "root": "/"})],
        "fastcgi" => vec![json!({"type": "fastcgi", "server": "1.2.3.4:5", "root": "/"})],
        "target" => vec![json!({"root": "/"})],
        "id_range" => vec![json!({"container": 0, "host": 0, "size": 1})],
        "upstream" => vec![json!({"servers": {"1.2.3.4:5": {}}})],
        "hash" => vec![json!({"hash": "$host"})],
        "health" => vec![json!({"uri": "/"})],
        "sticky" => vec![json!({"cookie": "a"})],
        "compression" => vec![json!({"compressors": []})],
        "compressor" => vec![json!({"encoding": "gzip"})],
        "access_log" => vec![json!({"path": "/a"})],
        "syslog" => vec![json!({"server": "10.0.0.1"})],
        "log_only" => vec![json!({"slow": 1})],
        "cluster" => vec![json!({"server": "10.0.0.1:6379"})],
        _ => vec![json!({})],
    }
}

#[test]
fn the_table_has_the_keys_that_the_reader_knows() {
    for shape in table() {
        let mut known = BTreeSet::new();
        for sample in samples(shape.name) {
            let error = crate::Config::from_value(probe(shape.name, sample)).unwrap_err();
            let hint = error.hint().unwrap_or_default();
            let list = hint.strip_prefix("allowed here: ");
            let list = list.unwrap_or_else(|| panic!("{}: {error}", shape.name));
            known.extend(list.split('"').skip(1).step_by(2).map(str::to_owned));
        }
        if shape.name == "document" {
            // Replaced before the document is read.
            known.insert("include".to_owned());
        }
        if shape.name == "action" {
            known.insert("proxy".to_owned());
        }
        let schema = schema();
        let properties = schema["definitions"][shape.name]["properties"].as_object();
        let listed: BTreeSet<_> = properties.unwrap().keys().cloned().collect();
        assert_eq!(listed, known, "{}", shape.name);
    }
}

#[test]
fn references_lead_somewhere() {
    let schema = schema();
    let text = schema.to_string();
    for part in text.split("#/definitions/").skip(1) {
        let name = part.split('"').next().unwrap();
        assert!(schema["definitions"].get(name).is_some(), "{name}");
    }
}

#[test]
fn the_published_schema_is_current() {
    let published = include_str!("../../../../docs/howdah.schema.json");
    assert!(
        published.trim_end() == format!("{:#}", schema()),
        "it is not; run `howdah schema > docs/howdah.schema.json`"
    );
}

/// Each key appears as `key`, `path/key`, `path.key` or "key" in one of the pages about the
/// document.
#[test]
fn every_key_is_described() {
    let pages = crate::tests::pages(&["tls.md"]);
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let describes = |page: &String, key: &str| {
        page.match_indices(key).any(|(at, _)| {
            let (before, after) = (&page.as_bytes()[..at], &page.as_bytes()[at + key.len()..]);
            before.last().is_some_and(|byte| b"`\"./".contains(byte))
                && after.first().is_some_and(|byte| !is_word(*byte))
        })
    };
    let missing: Vec<_> = table()
        .flat_map(|shape| shape.keys.iter().map(move |key| (shape.name, key.0)))
        .filter(|(_, key)| !pages.iter().any(|page| describes(page, key)))
        .collect();
    assert!(missing.is_empty(), "no word about {missing:?}");
}
