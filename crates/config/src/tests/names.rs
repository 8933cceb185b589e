//! Servers that are given by name.

use super::*;

#[test]
fn names_stand_wherever_a_server_is_connected_to() {
    let config = read(json!({
        "routes": [{"action": {
            "share": "/a", "fallback": {"proxy": "http://app.example:80"},
            "error_pages": {"404": {"action": {"proxy": "https://pages.example:443"}}},
        }}],
        "upstreams": {"u": {"servers": {"one.example:80": {}, "10.0.0.1:80": {}}}},
        "applications": {"f": {"type": "fastcgi", "server": "php:9000", "root": "/"}},
        "settings": {"resolver": ["10.0.0.53", "[::1]:5353"]},
    }));
    let mut names = config.server_names();
    names.sort_unstable();
    assert_eq!(names, ["app.example", "one.example", "pages.example", "php"]);
    let resolver: Vec<_> = config.settings.resolver.iter().map(ToString::to_string).collect();
    assert_eq!(resolver, ["10.0.0.53:53", "[::1]:5353"]);
    assert_eq!(config.upstream_tls().len(), 1);
}

#[test]
fn listeners_and_resolvers_have_no_names() {
    for (document, message) in [
        (
            json!({"listeners": {"localhost:80": {"pass": "routes"}}, "routes": []}),
            "is not an address",
        ),
        (json!({"settings": {"resolver": "dns.example"}}), "is not an address of a server"),
        (json!({"settings": {"resolver": 53}}), "must be a string"),
        (json!({"upstreams": {"u": {"servers": {"$host:80": {}}}}}), "is not an address"),
    ] {
        let line = refusal(document);
        assert!(line.contains(message), "{line}");
    }
}
