use std::sync::Arc;

use howdah_http::fixture::request;
use howdah_http::message::ConnectionInfo;

use super::*;

/// Parses conditions as they are in a document.
fn conditions(json: &str) -> Arc<Match> {
    let document = format!(r#"{{"routes": [{{"match": {json}, "action": {{"return": 200}}}}]}}"#);
    let mut config = howdah_config::parse(document.as_bytes()).unwrap();
    config.routes.remove(0).steps.remove(0).conditions
}

fn holds_for(json: &str, request: &Request) -> bool {
    holds(&conditions(json), request, Instant::now(), &mut Scratch::default())
}

fn holds_target(json: &str, target: &str) -> bool {
    holds_for(json, &request(target, &[]))
}

#[test]
fn no_condition_always_holds() {
    assert!(holds_target("{}", "/"));
}

#[test]
fn method_host_and_path_are_compared() {
    let is = |json| holds_target(json, "/a/b?c=d");
    assert!(is(r#"{"method": "get", "host": "Example.org", "uri": "/a/*"}"#));
    assert!(!is(r#"{"method": "POST"}"#) && !is(r#"{"method": "!GET"}"#));
    assert!(!is(r#"{"host": "org"}"#) && is(r#"{"host": "*.org"}"#));
    assert!(!is(r#"{"uri": "/a/B"}"#) && is(r#"{"uri": []}"#));
}

#[test]
fn source_and_destination_are_the_addresses_of_the_connection() {
    let is = |json| holds_target(json, "/");
    assert!(is(r#"{"source": "127.0.0.1"}"#) && is(r#"{"source": "*:1234"}"#));
    assert!(is(r#"{"destination": ["!*:8080", "127.0.0.2:80"]}"#));
    assert!(!is(r#"{"source": []}"#) && !is(r#"{"destination": "unix"}"#));
    let mut unix = request("/", &[]);
    unix.connection = Arc::new(ConnectionInfo::default());
    assert!(holds_for(r#"{"source": "unix", "destination": "unix"}"#, &unix));
    assert!(holds_for(r#"{"source": "!0.0.0.0/0"}"#, &unix));
}

#[test]
fn the_scheme_is_that_of_the_client() {
    let mut request = request("/", &[]);
    assert!(holds_for(r#"{"scheme": "http"}"#, &request));
    request.connection = Arc::new(ConnectionInfo { tls: true, ..(*request.connection).clone() });
    assert!(holds_for(r#"{"scheme": "HTTPS"}"#, &request));
    assert!(!holds_for(r#"{"scheme": "http"}"#, &request));
}

#[test]
fn the_query_is_compared_decoded() {
    let is = |pattern: &str, target| holds_target(&format!(r#"{{"query": "{pattern}"}}"#), target);
    assert!(!is("!", "/") && !is("!", "/?") && is("!", "/?foo="));
    assert!(is("a=b%26c%3Dd+e", "/?a=b&c=d+e") && is("a=b%26c%3Dd+e", "/?a%3Db%26c=d%20e"));
    assert!(!holds_target(r#"{"query": ["!f", "foo"]}"#, "/?f"));
    assert!(holds_target(r#"{"query": []}"#, "/"));
}

#[test]
fn arguments_are_compared_decoded_and_all_of_a_name_must_match() {
    let is = |json: &str, target| holds_target(&format!(r#"{{"arguments": {json}}}"#), target);
    assert!(is(r#"{"foo": "bar", "blah": "test"}"#, "/?foo=b%61r&bl%61h=t%65st"));
    assert!(!is(r#"{"foo": ""}"#, "/?foo&foo=bar&foo") && is(r#"{"foo": ""}"#, "/?&=&foo&==&"));
    assert!(is(r#"{"=": "="}"#, "/?%3D==") && !is(r#"{"=": "="}"#, "/?==="));
    assert!(is(r#"{"+fo o%20": "%20b+a r"}"#, "/?+fo+o+=+b+a+r&"));
    assert!(is(r#"{"foo": "&"}"#, "/?foo=%26&") && !is(r#"{"foo": "&"}"#, "/?foo=&"));
    assert!(is(r#"[{"a": "1"}, {"b": "*"}]"#, "/?b") && !is(r#"[{"a": "1"}, {"b": "2"}]"#, "/?b"));
}

#[test]
fn fields_and_cookies_are_compared() {
    let request = request("/", &[("X-Blah", "test"), ("x-blah", "BLAH"), ("Cookie", " a=1=2 ; b")]);
    let is = |json| holds_for(json, &request);
    assert!(is(r#"{"headers": {"x-BLAH": ["test", "blah"]}}"#));
    assert!(!is(r#"{"headers": {"x-blah": "test"}}"#) && !is(r#"{"headers": {"x": "*"}}"#));
    assert!(is(r#"{"cookies": {"a": "1=2"}}"#) && !is(r#"{"cookies": {"A": "1=2"}}"#));
    assert!(is(r#"{"cookies": {"b": ""}}"#) && is(r#"{"cookies": []}"#));
}

#[test]
fn a_template_must_come_to_something() {
    let is = |text: &str, target| holds_target(&format!(r#"{{"if": "{text}"}}"#), target);
    assert!(!is("", "/") && !is("false", "/") && is("!null", "/") && is("1", "/"));
    assert!(is("$arg_foo", "/?foo=1") && !is("$arg_foo", "/?foo") && is("!$arg_foo", "/?bar"));
}

#[test]
fn a_long_list_of_hosts_decides_like_a_short_one() {
    let mut hosts: Vec<String> = (0..500).map(|n| format!("\"host{n}.example.org\"")).collect();
    hosts.push("\"Example.org\"".to_owned());
    let list = format!(r#"{{"host": [{}]}}"#, hosts.join(","));
    assert!(holds_target(&list, "/"));
    let negative = list.replace('[', "[\"!example.ORG\",");
    assert!(!holds_target(&negative, "/"));
}

#[test]
fn a_pattern_is_compared_with_the_path_that_is_served() {
    for target in ["/admin/x", "/%61dmin/x", "//admin//x", "/b/../admin/x", "/admin%2Fx"] {
        assert!(holds_target(r#"{"uri": "/admin/*"}"#, target), "{target}");
        assert!(holds_target(r#"{"uri": "/%61dmin/*"}"#, target), "{target}");
    }
}

/// Scenario: a condition refuses `rest_route`, and PHP makes `rest.route` that.
#[test]
fn arguments_and_cookies_are_known_by_every_name_that_php_makes_the_same() {
    let deny = r#"{"arguments": {"rest_route": "*"}}"#;
    for query in [
        "rest_route=1",
        "rest.route=1",
        "rest+route=1",
        "+rest_route=1",
        "rest[route=1",
        "rest_route%00=1",
        "rest_route[]=1",
        "rest_route[a]=1",
        "%20rest%2eroute",
    ] {
        assert!(holds_target(deny, &format!("/?{query}")), "{query}");
    }
    assert!(!holds_target(deny, "/?rest-route=1") && !holds_target(deny, "/?a[rest_route]=1"));
    let is = |cookie: &str| {
        let request = request("/", &[("Cookie", cookie)]);
        holds_for(r#"{"cookies": {"debug": "*"}}"#, &request)
    };
    for cookie in ["debug=1", "debug[a]=1", " debug=1", "debug\0x=1", "debug", "a=b; debug;c"] {
        assert!(is(cookie), "{cookie}");
    }
    assert!(!is("Debug=1") && !is("adebug=1"));
    // A condition that permits must hold for each of them.
    let allow = r#"{"arguments": {"id": "5"}}"#;
    assert!(holds_target(allow, "/?id=5") && !holds_target(allow, "/?id=5&id[]=6"));
}
