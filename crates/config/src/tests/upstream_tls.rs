//! `tls` of upstreams.

use super::*;

fn upstream(server: &str, tls: Value) -> Value {
    json!({"upstreams": {"u": {"servers": {server: {}}, "tls": tls}}})
}

fn tls(value: Value) -> Option<UpstreamTls> {
    read(upstream("127.0.0.1:443", value)).upstreams.remove(0).tls
}

#[test]
fn servers_are_verified_unless_the_document_says_otherwise() {
    let default = UpstreamTls::default();
    assert!(default.verify);
    assert_eq!((tls(json!({})), tls(json!(true))), (Some(default.clone()), Some(default)));
    assert_eq!(tls(json!(false)), None);
    let all = tls(json!({
        "authorities": "/ca.pem", "server_name": "Backend.Example", "certificate": "us",
    }));
    let all = all.unwrap();
    assert_eq!(all.authorities, Some("/ca.pem".into()));
    assert_eq!(all.server_name.as_deref(), Some("backend.example"));
    assert_eq!(all.certificate, Some(Certificate::Stored("us".to_owned())));
    assert!(!tls(json!({"verify": false})).unwrap().verify);
}

#[test]
fn what_means_nothing_is_refused() {
    for (server, value, message) in [
        ("127.0.0.1:443", json!({"verify": false, "authorities": "/a"}), "has no effect while"),
        ("127.0.0.1:443", json!({"verify": "no"}), "must be true or false"),
        ("127.0.0.1:443", json!({"server_name": "a b"}), "must be a host name"),
        ("127.0.0.1:443", json!({"ca": "/a"}), "unknown"),
        (
            "127.0.0.1:443",
            json!({"certificate": {"chain": "/a", "key": "/b", "ocsp": "/c"}}),
            "ocsp",
        ),
        ("127.0.0.1:443", json!(1), "true, false or an object"),
        ("unix:/run/x", json!(true), "must have \"server_name\""),
    ] {
        let line = refusal(upstream(server, value)).to_lowercase();
        assert!(line.contains(&message.to_lowercase()), "{line}");
    }
    assert!(read(upstream("unix:/x", json!({"server_name": "a"}))).upstreams[0].tls.is_some());
    let mut document = upstream("127.0.0.1:443", json!(true));
    document["applications"] = json!({"a": {"type": "fastcgi", "upstream": "u", "root": "/"}});
    assert!(refusal(document).contains("FastCGI does not speak"));
}

#[test]
fn the_document_knows_all_that_has_to_be_made_ready() {
    let fallback = json!({"share": "/a", "fallback": {"proxy": "https://127.0.0.1:443"}});
    for action in [fallback, json!({"proxy": "https://127.0.0.1:443"})] {
        let config = read(json!({"routes": [{"action": action}]}));
        assert_eq!(config.upstream_tls().len(), 1);
    }
    let plain = read(json!({"routes": [{"action": {"proxy": "http://127.0.0.1:80"}}]}));
    assert!(plain.upstream_tls().is_empty());
}

#[test]
fn the_proxy_protocol_is_for_connections_of_one_client() {
    let upstream = |value: Value| {
        let mut upstream = json!({"servers": {"127.0.0.1:80": {}}});
        upstream.as_object_mut().unwrap().extend(value.as_object().unwrap().clone());
        json!({"upstreams": {"u": upstream}})
    };
    let config = read(upstream(json!({"proxy_protocol": 2})));
    assert_eq!(config.upstreams[0].proxy_protocol, Some(2));
    for (value, message) in [
        (json!({"proxy_protocol": 3}), "must be between 1 and 2"),
        (json!({"proxy_protocol": 1, "keepalive": 1}), "belongs to one client"),
    ] {
        let line = refusal(upstream(value));
        assert!(line.contains(message), "{line}");
    }
    let listener = |value: Value| {
        json!({"listeners": {"*:80": {"pass": "routes",
        "proxy_protocol": value}}, "routes": []})
    };
    let config = read(listener(json!({"source": "10.0.0.0/8"})));
    let balancers = config.listeners[0].proxy_protocol.as_ref().unwrap();
    assert!(balancers.matches(Some(([10, 1, 1, 1], 5).into())) && !balancers.matches(None));
    for (value, message) in [(json!(true), "must be an object"), (json!({}), "\"source\"")] {
        let line = refusal(listener(value));
        assert!(line.contains(message), "{line}");
    }
}
