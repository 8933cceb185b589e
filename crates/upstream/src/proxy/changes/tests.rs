use std::time::Instant;

use howdah_http::fixture;

use super::*;

fn changes(upstream: serde_json::Value, action: serde_json::Value) -> HeadChanges {
    let mut servers = serde_json::json!({"servers": {"10.0.0.5:80": {}}});
    servers.as_object_mut().unwrap().extend(upstream.as_object().unwrap().clone());
    let mut step = serde_json::json!({"pass": "upstreams/u"});
    step.as_object_mut().unwrap().extend(action.as_object().unwrap().clone());
    let document = serde_json::json!({"upstreams": {"u": servers}, "routes": [{"action": step}]});
    let config = config::Config::from_value(document).unwrap();
    let options = config.routes[0].steps[0].action.options.servers.clone().unwrap_or_default();
    let mut request = fixture::request("/x", &[("Host", "shop.example")]);
    request.query = "evil=a\r\nX-Admin: 1".into();
    let source = VariableSource::of(&request, Instant::now());
    HeadChanges::new(&config.upstreams[0], &options, &request, &source)
}

#[test]
fn fields_of_the_action_follow_those_of_the_upstream() {
    let found = changes(
        serde_json::json!({"headers": {"A": "1", "B": "2"}, "host": "upstream.example"}),
        serde_json::json!({"request_headers": {"b": null, "C": "$method",
            "host": "action.example"}}),
    );
    assert_eq!(found.host.as_deref(), Some(&b"action.example"[..]));
    assert_eq!(found.set, [("A".to_owned(), b"1".to_vec()), ("C".to_owned(), b"GET".to_vec())]);
    assert_eq!(found.removed, ["b"]);
}

#[test]
fn fields_about_the_client_are_those_of_the_action() {
    let found = changes(
        serde_json::json!({"forwarded": "x-forwarded"}),
        serde_json::json!({"forwarded": "forwarded"}),
    );
    let names: Vec<_> = found.set.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["Forwarded"]);
}

#[test]
fn a_variable_cannot_add_a_field() {
    let found = changes(
        serde_json::json!({}),
        serde_json::json!({"request_headers": {"A": "$arg_evil", "Host": "$arg_none"}}),
    );
    assert!(!found.set[0].1.iter().any(|byte| b"\r\n".contains(byte)), "{found:?}");
    assert_eq!(found.host, None, "an empty one is none");
}
