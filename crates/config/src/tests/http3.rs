//! `http3` of listeners.

use super::*;
use crate::{Http3, Http3Port, Http3Retry};

fn document(address: &str, http3: Value, others: Value) -> Value {
    let mut listener = json!({"pass": "routes", "tls": {"certificate": "a"}, "http3": http3});
    let members = listener.as_object_mut().unwrap();
    for (key, value) in others.as_object().unwrap().clone() {
        match value {
            Value::Null => drop(members.remove(&key)),
            value => drop(members.insert(key, value)),
        }
    }
    json!({"listeners": {address: listener}, "routes": []})
}

fn http3(value: Value) -> Option<Http3> {
    read(document("*:443", value, json!({}))).listeners.remove(0).http3
}

#[test]
fn http_3_is_off_unless_it_is_switched_on() {
    let expected = Http3 {
        retry: Http3Retry::Auto,
        advertise: Some(Http3Port::OfListener),
        max_streams: 100,
        idle_timeout: Duration::from_secs(30),
    };
    assert_eq!(http3(json!(true)).as_ref(), Some(&expected));
    assert_eq!(http3(json!({})).as_ref(), Some(&expected));
    assert_eq!(http3(json!(false)), None);
    let settings = json!({
        "retry": true, "advertise": 8443, "max_streams": 10, "idle_timeout": 5,
    });
    let expected = Http3 {
        retry: Http3Retry::Always,
        advertise: Some(Http3Port::Other(8443)),
        max_streams: 10,
        idle_timeout: Duration::from_secs(5),
    };
    assert_eq!(http3(settings), Some(expected));
    assert_eq!(http3(json!({"advertise": false})).unwrap().advertise, None);
    assert_eq!(http3(json!({"retry": false})).unwrap().retry, Http3Retry::Never);
}

#[test]
fn listeners_that_cannot_have_http_3_refuse_it_with_a_sentence() {
    let tls12 = json!({"certificate": "a", "conf_commands": {"MaxProtocol": "TLSv1.2"}});
    for (address, value, others, message) in [
        ("*:443", json!(1), json!({}), "must be true, false or an object"),
        ("*:443", json!({"retry": "often"}), json!({}), "true, false or \"auto\""),
        ("*:443", json!({"max_streams": 0}), json!({}), "between 1 and 100"),
        ("*:443", json!({"early": true}), json!({}), "unknown key \"early\""),
        ("*:443", json!(true), json!({"tls": null}), "needs \"tls\""),
        ("*:443", json!(true), json!({"tls": tls12}), "needs TLS 1.3"),
        ("unix:/run/a.sock", json!(true), json!({}), "needs an IP address"),
        (
            "*:443",
            json!(true),
            json!({"proxy_protocol": {"source": ["10.0.0.1"]}}),
            "cannot be combined with \"proxy_protocol\"",
        ),
    ] {
        let line = refusal(document(address, value, others));
        assert!(line.contains(message) && line.contains("http3"), "{line}");
    }
}

#[test]
fn a_listener_for_datagrams_has_its_port_for_itself() {
    let mut both = document("*:443", json!(true), json!({}));
    both["listeners"]["udp:*:443"] = json!({"pass": "upstreams/a"});
    both["upstreams"] = json!({"a": {"servers": {"10.0.0.1:443": {}}}});
    let line = refusal(both);
    assert!(line.contains("is the same address as"), "{line}");
}
