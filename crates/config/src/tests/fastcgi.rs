//! Applications of type `fastcgi`.

use super::*;

fn application(value: Value) -> Value {
    json!({"upstreams": {"fpm": {"servers": {"127.0.0.1:9000": {}}}}, "applications": {"a": value}})
}

#[test]
fn a_server_and_a_root_are_enough() {
    let config = read(application(
        json!({"type": "fastcgi", "server": "unix:/run/php/php8.2-fpm.sock", "root": "/www"}),
    ));
    let [site] = config.fastcgi.as_slice() else { panic!("{config:?}") };
    assert_eq!(site.servers, Servers::One(Address::Unix("/run/php/php8.2-fpm.sock".into())));
    assert_eq!(site.limits, FastCgiLimits::default());
    assert_eq!((site.keepalive, &site.timeouts), (0, &None));
    assert!(config.applications.is_empty());
}

#[test]
fn everything_can_be_said() {
    let config = read(application(json!({
        "type": "fastcgi", "upstream": "fpm",
        "targets": {"direct": {"root": "/www"}, "front": {"root": "/www", "script": "index.php"}},
        "params": {"APP_ENV": "$host", "PHP_VALUE": "memory_limit=64M"},
        "limits": {"connections": 4, "queue": 10, "queue_timeout": 5},
        "keepalive": 2,
        "timeouts": {"connect": 1, "send": 2, "first_byte": 3, "read": 4, "idle": 5},
    })));
    let [site] = config.fastcgi.as_slice() else { panic!("{config:?}") };
    assert_eq!(site.servers, Servers::Upstream("fpm".to_owned()));
    assert_eq!(site.targets.len(), 2);
    assert_eq!(site.params.len(), 2);
    assert_eq!(
        (site.limits.connections, site.timeouts.as_ref().unwrap().read.as_secs()),
        (Some(4), 4)
    );
}

#[test]
fn its_status_is_not_known_here() {
    for kind in ["status", "ping"] {
        let mut document = application(json!({"type": "fastcgi", "upstream": "fpm", "root": "/"}));
        document["routes"] = json!([{"action": {kind: "applications/a"}}]);
        let line = refusal(document);
        assert!(line.contains(&format!("/routes/0/action/{kind}")), "{line}");
        assert!(line.contains("of type \"fastcgi\""), "{line}");
    }
}

#[test]
fn what_leads_nowhere_is_refused() {
    for (value, message) in [
        (json!({"type": "fastcgi", "root": "/"}), "\"server\""),
        (json!({"type": "fastcgi", "server": "nowhere", "root": "/"}), "/applications/a/server"),
        (
            json!({"type": "fastcgi", "upstream": "fmp", "root": "/"}),
            "there is no upstream \"fmp\"; did you mean \"fpm\"?",
        ),
        (
            json!({"type": "fastcgi", "upstream": "fpm", "server": "1.2.3.4:5", "root": "/"}),
            "must not have both",
        ),
        (
            json!({"type": "fastcgi", "upstream": "fpm", "root": "/", "params": {"A\nB": ""}}),
            "letters, digits and underscores",
        ),
        (
            json!({"type": "fastcgi", "upstream": "fpm", "root": "/", "processes": 4}),
            "unknown key \"processes\"",
        ),
    ] {
        let line = refusal(application(value));
        assert!(line.contains(message), "{line}");
    }
}
