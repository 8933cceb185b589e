//! Requests to other servers: `retry`, `sticky`, and the options of actions.

use super::*;

fn upstream(members: Value) -> Value {
    let mut upstream = json!({"servers": {"127.0.0.1:80": {}}});
    upstream.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    json!({"upstreams": {"u": upstream}})
}

fn action(members: Value) -> Value {
    let mut action = json!({"proxy": "http://127.0.0.1:80"});
    action.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    json!({"routes": [{"action": action}]})
}

#[test]
fn everything_about_repeated_requests_can_be_said() {
    let retry = json!({
        "on": ["error", "timeout", "invalid_response", 429, "5xx"],
        "methods": ["GET", "POST"],
        "timeout": 10,
    });
    let config = read(upstream(json!({"retry": retry})));
    let retry = &config.upstreams[0].retry;
    let on = retry.on.as_ref().unwrap();
    assert!(on.error && on.timeout && on.invalid_response);
    assert_eq!(on.statuses, [(429, 429), (500, 599)]);
    assert!(retry.is_on_status(429) && retry.is_on_status(503) && !retry.is_on_status(404));
    assert_eq!(retry.methods.as_deref().unwrap(), ["GET", "POST"]);
    assert_eq!(retry.timeout.unwrap().as_secs(), 10);

    let none = read(upstream(json!({"retry": {"on": [], "methods": "GET", "timeout": 0}})));
    let none = &none.upstreams[0].retry;
    assert_eq!(none.on, Some(RetryConditions::default()));
    assert_eq!(none.timeout, None);
    assert_eq!(read(upstream(json!({}))).upstreams[0].retry, Retry::default());
}

#[test]
fn what_retry_cannot_mean_is_refused_with_a_suggestion() {
    for (retry, place, hint) in [
        (json!({"on": "http_503"}), "/upstreams/u/retry/on", "write the number 503"),
        (json!({"on": ["off"]}), "/upstreams/u/retry/on/0", "write an empty array"),
        (json!({"on": ["non_idempotent"]}), "/on/0", "\"methods\": ["),
        (json!({"on": "invalid_header"}), "/on", "write \"invalid_response\""),
        (json!({"on": [200]}), "/on/0", "between 400 and 599"),
        (json!({"on": [true]}), "/on/0", "a string or a status"),
        (json!({"on": "6xx"}), "/on", "\"5xx\""),
        (json!({"methods": ["post"]}), "/methods/0", "in upper case"),
        (json!({"methods": ["CONNECT"]}), "/methods/0", "never passed on"),
        (json!({"methods": ["A B"]}), "/methods/0", "in upper case"),
        (json!({"tries": 3}), "/retry", "\"tries\""),
        (json!({"timeout": -1}), "/timeout", "between 0 and"),
    ] {
        let line = refusal(upstream(json!({"retry": retry})));
        assert!(line.contains(place) && line.contains(hint), "{retry}: {line}");
    }
}

#[test]
fn the_cookie_of_a_session_has_its_attributes() {
    let sticky =
        |members: Value| read(upstream(json!({"sticky": members}))).upstreams[0].sticky.clone();
    let usual = sticky(json!({"cookie": "s"})).unwrap();
    assert_eq!(usual.set_cookie("1", false), "s=1; Path=/; HttpOnly; SameSite=Lax");
    let all = sticky(json!({
        "cookie": "s", "path": "/app", "domain": "example.org", "max_age": 60, "same_site": "none",
    }));
    assert_eq!(
        all.unwrap().set_cookie("1", true),
        "s=1; Path=/app; Domain=example.org; Max-Age=60; HttpOnly; SameSite=None; Secure"
    );
    for (members, place) in [
        (json!({"cookie": "a b"}), "/sticky/cookie"),
        (json!({"cookie": "a", "path": "/x; Domain=evil"}), "/sticky/path"),
        (json!({"cookie": "a", "path": "x"}), "/sticky/path"),
        (json!({"cookie": "a", "domain": "a\r\nb"}), "/sticky/domain"),
        (json!({"cookie": "a", "same_site": "Lax"}), "/sticky/same_site"),
        (json!({"cookie": "__Host-a", "domain": "a.example"}), "/sticky/domain"),
        (json!({"cookie": "__Host-a", "path": "/a"}), "/sticky/path"),
    ] {
        let line = refusal(upstream(json!({"sticky": members})));
        assert!(line.contains(place), "{line}");
    }
    assert!(sticky(json!({"cookie": "__Host-a", "path": "/"})).is_some());
}

#[test]
fn what_administrators_of_nginx_write_for_a_balance_is_answered_with_the_equivalent() {
    for (members, place, hint) in [
        (json!({"balance": "least_conn"}), "balance", "\"least_connections\""),
        (json!({"balance": "ip_hash"}), "balance", "{\"hash\": \"$remote_addr\"}"),
        (json!({"balance": "random two least_conn"}), "balance", "\"two_choices\""),
        (json!({"balance": {"hash": "fixed"}}), "balance/hash", "\"$remote_addr\""),
        (json!({"balance": {"hash": ""}}), "balance/hash", "\"$remote_addr\""),
        (json!({"sticky": {"hash": "$remote_addr"}}), "sticky", "\"balance\": {\"hash\""),
        (json!({"failures": true}), "failures", "{} for nginx's defaults"),
    ] {
        let line = refusal(upstream(members));
        assert!(line.starts_with(&format!("/upstreams/u/{place}: ")), "{line}");
        assert!(line.contains(hint), "{line}");
    }
}

#[test]
fn an_action_changes_how_its_requests_are_passed_on() {
    let config = read(action(json!({
        "request_headers": {"Host": "inside", "X-User": "$remote_user", "Cookie": null},
        "forwarded": ["x-forwarded", "forwarded"],
        "timeouts": {"first_byte": 300, "read": 10},
        "retry": {"on": 503},
    })));
    let options = config.routes[0].steps[0].action.options.servers.clone().unwrap();
    assert_eq!(options.headers.len(), 3);
    assert_eq!(options.forwarded, Some(ForwardedFields { x: true, standard: true }));
    let timeouts = options.timeouts.applied_to(&Timeouts::default());
    assert_eq!((timeouts.first_byte.as_secs(), timeouts.send.as_secs()), (300, 60));
    assert!(options.retry.as_ref().unwrap().is_on_status(503));

    let usual =
        read(action(json!({"request_headers": {}}))).routes[0].steps[0].action.options.clone();
    // An action that names a server knows its place, for messages.
    let usual = usual.servers.unwrap();
    assert!(usual.headers.is_empty() && usual.retry.is_none() && usual.forwarded.is_none());
    assert_eq!(usual.timeout_key("read", None).unwrap(), "routes/0/action/timeouts/read");
    let passed = json!({"routes": [{"action": {"pass": "upstreams/u"}}],
                        "upstreams": {"u": {"servers": {"127.0.0.1:1": {}}}}});
    assert_eq!(read(passed).routes[0].steps[0].action.options.servers, None);
}

#[test]
fn later_actions_count_more() {
    let options = |members: Value| {
        let config = read(action(members));
        let options = config.routes[0].steps[0].action.options.servers.clone();
        options.unwrap()
    };
    let earlier = options(json!({
        "request_headers": {"A": "1", "B": "2"}, "timeouts": {"send": 1, "read": 2},
    }));
    let later = options(json!({
        "request_headers": {"b": null, "C": "3"}, "timeouts": {"read": 3}, "forwarded": "forwarded",
    }));
    let all = later.after(&earlier);
    let names: Vec<_> = all.headers.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["A", "b", "C"]);
    assert_eq!(
        (all.timeouts.send.unwrap().as_secs(), all.timeouts.read.unwrap().as_secs()),
        (1, 3)
    );
    assert!(all.forwarded.is_some());
    let key = |timeout| all.timeout_key(timeout, Some("upstreams/u")).unwrap();
    assert_eq!(key("read"), "routes/0/action/timeouts/read");
    assert_eq!(key("connect"), "upstreams/u/timeouts/connect");
}

#[test]
fn options_that_mean_nothing_are_refused() {
    for (members, place, hint) in [
        (json!({"request_headers": {"Connection": "x"}}), "/request_headers/Connection", "itself"),
        (json!({"request_headers": {"Host": null}}), "/request_headers/Host", "cannot be removed"),
        (json!({"request_headers": {"a b": "x"}}), "/request_headers/a b", "name"),
        (json!({"forwarded": "for"}), "/forwarded", "\"x-forwarded\""),
        (json!({"timeouts": {"idle": 3}}), "/timeouts", "\"idle\""),
        (json!({"timeouts": {"read": 0}}), "/timeouts/read", "between 1 and"),
    ] {
        let line = refusal(action(members));
        assert!(line.contains(place) && line.contains(hint), "{line}");
    }
    for key in ["request_headers", "forwarded", "timeouts", "retry"] {
        let value = if key == "forwarded" { json!("forwarded") } else { json!({}) };
        let line = refusal(json!({"routes": [{"action": {"return": 404, key: value}}]}));
        assert!(line.contains(&format!("/routes/0/action/{key}")), "{line}");
        assert!(line.contains("has no effect here"), "{line}");
    }
}

#[test]
fn http_2_has_shared_connections() {
    assert!(read(upstream(json!({"http2": true, "tls": true}))).upstreams[0].http2);
    assert!(!read(upstream(json!({"http2": false, "keepalive": 3}))).upstreams[0].http2);
    for (key, value) in [("keepalive", json!(3)), ("proxy_protocol", json!(2))] {
        let line = refusal(upstream(json!({"http2": true, key: value})));
        assert!(line.contains(&format!("/upstreams/u/{key}")), "{line}");
        assert!(line.contains("cannot go with \"http2\""), "{line}");
    }
    let health = |health: Value| upstream(json!({"http2": true, "health": health}));
    let grpc = |value: Value| read(health(json!({"grpc": value}))).upstreams[0].health.clone();
    assert_eq!(grpc(json!(true)).unwrap().grpc.as_deref(), Some(""));
    assert_eq!(grpc(json!("a.B")).unwrap().grpc.as_deref(), Some("a.B"));
    assert_eq!(read(health(json!({"uri": "/"}))).upstreams[0].health.as_ref().unwrap().grpc, None);
    for (value, place, problem) in [
        (json!({}), "health", "\"uri\" is missing"),
        (json!({"grpc": false}), "health/grpc", "the name of a service"),
        (json!({"grpc": 3}), "health/grpc", "true or a string"),
        (json!({"grpc": true, "uri": "/"}), "health/uri", "cannot go with \"grpc\""),
        (json!({"grpc": true, "status": 200}), "health/status", "cannot go with \"grpc\""),
        (json!({"grpc": true, "body": "x"}), "health/body", "cannot go with \"grpc\""),
    ] {
        let line = refusal(health(value));
        assert!(line.starts_with(&format!("/upstreams/u/{place}: ")), "{line}");
        assert!(line.contains(problem), "{line}");
    }
    let line = refusal(upstream(json!({"health": {"grpc": true}})));
    assert!(line.contains("/upstreams/u/health: ") && line.contains("\"http2\": true"), "{line}");
    let mut document = upstream(json!({"http2": true}));
    document["applications"] = json!({"a": {"type": "fastcgi", "upstream": "u", "root": "/"}});
    assert!(refusal(document).contains("\"http2\", which FastCGI does not speak"));
    let mut document = upstream(json!({"health": {"uri": "/"}}));
    document["applications"] = json!({"a": {"type": "fastcgi", "upstream": "u", "root": "/"}});
    let line = refusal(document);
    assert!(line.contains("\"health\", which FastCGI does not speak"), "{line}");
    assert!(line.contains("\"failures\": {}"), "{line}");
}
