//! Keys of other servers are refused with their equivalent.

use serde_json::{Value, json};

use super::*;

/// Returns the line with which a document is refused.
fn refusal(document: Value) -> String {
    explained(howdah_config::Config::from_value(document).unwrap_err()).to_string()
}

fn action(action: Value) -> Value {
    json!({"routes": [{"action": action}]})
}

fn application(keys: Value) -> Value {
    let mut application = json!({"type": "php", "root": "/www"});
    let members = application.as_object_mut().unwrap();
    members.extend(keys.as_object().unwrap().clone());
    json!({"applications": {"a": application}})
}

fn upstream(keys: Value) -> Value {
    let mut upstream = json!({"servers": {"127.0.0.1:1": {}}});
    let members = upstream.as_object_mut().unwrap();
    members.extend(keys.as_object().unwrap().clone());
    json!({"upstreams": {"u": upstream}})
}

#[test]
fn keys_of_other_servers_are_answered_with_the_key_here() {
    let listener = |keys: Value| json!({"listeners": {"*:80": keys}, "routes": []});
    let step = |keys: Value| json!({"routes": [{"match": keys, "action": {"return": 200}}]});
    let on_demand = json!({"ask": "http://127.0.0.1:1/", "most": 2});
    let acme = json!({"domains": ["a.example"], "on_demand": on_demand});
    for (document, place, expected) in [
        (upstream(json!({"failures": {"most": 3}})), "/upstreams/u/failures", "write \"max\""),
        (
            listener(json!({"pass": "routes", "tls": {"acme": acme}})),
            "/listeners/*:80/tls/acme/on_demand",
            "write \"max\"",
        ),
        (upstream(json!({"max_fails": 3})), "/upstreams/u", "\"failures\": {\"max\": 3"),
        (upstream(json!({"grpc": true})), "/upstreams/u", "write \"http2\": true"),
        (upstream(json!({"balance": "random two"})), "/upstreams/u/balance", "\"two_choices\""),
        (upstream(json!({"sticky": "a"})), "/upstreams/u/sticky", "write {\"cookie\""),
        (action(json!({"proxy": "grpc://a:1"})), "/routes/0/action/proxy", "\"http2\": true"),
        (json!({"include": 3}), "the document", "the name of a file"),
        (json!({"access_log": "off"}), "/access_log", "write false"),
        (json!({"access_log": {"path": "journald"}}), "/access_log/path", "\"journal\": true"),
        (json!({"access_log": "syslog:server=a"}), "/access_log", "\"syslog\": \"127.0.0.1"),
        (
            json!({"access_log": "syslog:server=unix:/dev/log,tag=web"}),
            "/access_log",
            "\"syslog\": \"unix:/dev/log\"",
        ),
        (upstream(json!({"ip_hash": true})), "/upstreams/u", "\"balance\""),
        (upstream(json!({"proxy_read_timeout": 3})), "/upstreams/u", "\"timeouts\""),
        (action(json!({"root": "/www"})), "/routes/0/action", "\"share\": \"/var/www/site$uri\""),
        (action(json!({"share": "/w$uri", "root": "/w"})), "/routes/0/action", "\"share\""),
        (action(json!({"try_files": "$uri"})), "/routes/0/action", "write \"try\""),
        (action(json!({"proxy_pass": "http://a"})), "/routes/0/action", "write \"proxy\""),
        (action(json!({"fastcgi_pass": "a"})), "/routes/0/action", "\"fastcgi\" for PHP-FPM"),
        (action(json!({"location": "/"})), "/routes/0/action", "\"return\": 301 beside"),
        (listener(json!({"root": "/www"})), "/listeners/*:80", "write \"share\""),
        (
            listener(json!({"pass": "routes", "server_name": "a"})),
            "/listeners/*:80",
            "\"host\": \"example.com\"",
        ),
        (
            action(json!({"return": 200, "text": "a"})),
            "/routes/0/action",
            "write \"body\" for the text of a \"return\"",
        ),
        (
            upstream(json!({"sticky": {"cookie": "a", "expires": "1h"}})),
            "/upstreams/u/sticky",
            "\"max_age\"",
        ),
        (
            upstream(json!({"sticky": {"cookie": "a", "secure": true}})),
            "/upstreams/u/sticky",
            "leave it out",
        ),
        (step(json!({"server_name": "a"})), "/routes/0/match", "\"host\""),
        (step(json!({"path": "/a"})), "/routes/0/match", "write \"uri\""),
        (json!({"server": {}}), "the document", "\"listeners\" name the addresses"),
        (json!({"client_max_body_size": "64M"}), "the document", "\"max_body_size\""),
        (
            json!({"settings": {"http": {"client_max_body_size": 1}}}),
            "/settings/http",
            "\"max_body_size\"",
        ),
        (application(json!({"max_children": 5})), "/applications/a", "\"processes\": 8"),
        (application(json!({"pm.max_children": 5})), "/applications/a", "\"processes\": 8"),
        (application(json!({"clear_env": "no"})), "/applications/a", "leave it out: scripts get"),
        (
            application(json!({"security.limit_extensions": ".php"})),
            "/applications/a",
            "\"limit_extensions\"",
        ),
        (
            application(json!({"access.log": "/a"})),
            "/applications/a",
            "write \"access_log\": {\"path\"",
        ),
        (application(json!({"process.priority": 5})), "/applications/a", "\"priority\": 5"),
        (application(json!({"pm": "dynamic"})), "/applications/a", "\"processes\": 8"),
        (
            application(json!({"processes": {"max_children": 5}})),
            "/applications/a/processes",
            "write \"max\"",
        ),
        (application(json!({"pm.max_requests": 5})), "/applications/a", "{\"requests\": 500}"),
        (
            application(json!({"request_terminate_timeout": 5})),
            "/applications/a",
            "{\"timeout\": 30}",
        ),
        (application(json!({"php_admin_value": {}})), "/applications/a", "\"options\""),
    ] {
        let line = refusal(document);
        assert!(line.starts_with(&format!("{place}: ")) && line.contains(expected), "{line}");
    }
}

/// Returns the directives of a section of PHP-FPM's table that are no keys of an application or the
/// document.
fn of_php_fpm(section: &str) -> Vec<&'static str> {
    let of_section = PHP_FPM.split("\n\n").find_map(|rows| rows.strip_prefix(section)).unwrap();
    let rows = of_section.lines().filter_map(|row| row.split_once('\t'));
    let directives = rows.flat_map(|(directives, _)| directives.split(' '));
    directives
        .filter(|name| !["include", "user", "group", "prefix", "access.log"].contains(name))
        .collect()
}

#[test]
fn every_directive_of_php_fpm_is_answered_with_the_key_here() {
    let global = |keys: Value| json!({"settings": keys});
    let document = |keys: Value| keys;
    let processes = |keys: Value| application(json!({"processes": keys}));
    let limits = |keys: Value| application(json!({"limits": keys}));
    let listener = |keys: Value| {
        let mut listener = json!({"pass": "routes"});
        listener.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
        json!({"listeners": {"*:80": listener}, "routes": []})
    };
    type Place = fn(Value) -> Value;
    let places: [(&str, &[Place]); 2] = [
        ("global", &[global, document, application]),
        ("pool", &[application, processes, limits, document, listener]),
    ];
    for (section, places) in places {
        for directive in of_php_fpm(section) {
            for form in [
                directive.to_owned(),
                directive.replace('.', "_"),
                directive.replace(['.', '_'], "-"),
                format!("{directive}[member]"),
            ] {
                for place in places {
                    let line = refusal(place(json!({form.as_str(): "1"})));
                    // One is a key of shares, and is only foreign in an application.
                    let is_told = directive == "chroot"
                        || !line.contains("allowed here") && !line.contains("did you mean");
                    // A listener has such a key, for web servers that speak FastCGI.
                    let own = format!("did you mean \"{}\"?", directive.replace('.', "_"));
                    let is_own =
                        line.contains("needs \"protocol\": \"fastcgi\"") || line.contains(&own);
                    assert!(is_own || line.contains("unknown key") && is_told, "{line}");
                }
            }
        }
    }
    for (keys, expected) in [
        (json!({"pm.max-children": 5}), "\"processes\": 8"),
        (json!({"pm-max-children": 5}), "\"processes\": 8"),
        (json!({"PM.MAX_CHILDREN": 5}), "\"processes\": 8"),
        (json!({"listen": "/run/php.sock"}), "there is no socket between"),
        (json!({"php_admin_value[memory_limit]": "32M"}), "\"options\": {\"admin\""),
        (json!({"access-log": "/a"}), "write \"access_log\""),
        (json!({"chroot": "/a"}), "{\"rootfs\": \"/path\"}"),
        (json!({"processes": {"pm.max_spawn_rate": 5}}), "write \"spawn_rate\""),
    ] {
        let line = refusal(application(keys));
        assert!(line.contains(expected), "{line}");
    }
    let line = refusal(listener(json!({"listen.mode": "0660"})));
    assert!(line.contains("a directory that others cannot enter"), "{line}");
}

/// A key that the object may have is not taken for one of another server.
#[test]
fn an_object_that_lacks_a_key_is_told_of_that_alone() {
    let line = refusal(json!({"applications": {"a": {"root": "/www"}}}));
    assert_eq!(line, "/applications/a: \"type\" is missing");
}

#[test]
fn numbers_with_units_are_answered_with_the_number() {
    let http = |keys: Value| json!({"settings": {"http": keys}});
    for (document, expected) in [
        (http(json!({"max_body_size": "64M"})), "write 67108864, without"),
        (http(json!({"idle_timeout": "5m"})), "write 300, without"),
        (http(json!({"min_rate": "500"})), "write 500, without"),
        (application(json!({"limits": {"memory": "1G"}})), "write 1073741824, without"),
        (application(json!({"limits": {"timeout": "30s"}})), "write 30, without"),
    ] {
        let line = refusal(document);
        assert!(
            line.contains("must be an integer, but is the string") && line.contains(expected),
            "{line}"
        );
    }
    assert!(refusal(http(json!({"max_body_size": "much"}))).ends_with("\"much\""));
}

#[test]
fn variables_of_nginx_are_answered_with_the_variable_here() {
    for (text, expected) in [
        (
            "$http_host",
            "\"$header_host\" is the field as the client sent it, with its port; \"$host\"",
        ),
        ("$http_user_agent", "write \"$header_user_agent\""),
        ("$request_method", "write \"$method\""),
        ("$document_root$uri", "write the directory itself"),
        ("$document_uri", "write \"$uri\""),
        ("$upstream_http_etag", "write \"$response_header_etag\""),
    ] {
        let line = refusal(action(json!({"return": 301, "location": text})));
        assert!(line.contains("Unknown variable") && line.contains(expected), "{line}");
    }
}

#[test]
fn a_regular_expression_without_case_is_written_with_a_flag() {
    let line = refusal(json!({"routes": [
        {"match": {"uri": "~* \\.php$"}, "action": {"return": 200}},
    ]}));
    assert!(line.starts_with("/routes/0/match/uri: "), "{line}");
    assert!(line.contains(r#"write "~(?i)\\.php$""#), "{line}");
    let any_case =
        howdah_config::Pattern::parse("~(?i)\\.php$", howdah_config::Subject::Uri).unwrap();
    assert!(any_case.matches(b"/A.PHP"));
}

#[test]
fn an_address_to_listen_on_that_is_a_name_is_explained() {
    for (key, expected) in [
        (
            "localhost:8080",
            "a name is not an address, as it may stand for several; write \"127.0.0.1:8080\"",
        ),
        ("example.com:80", "write \"*:80\" and the name in \"match\""),
        (":80", "write \"*:80\""),
        ("http://127.0.0.1:80", "without a scheme"),
    ] {
        let line = refusal(json!({"listeners": {key: {"pass": "routes"}}, "routes": []}));
        assert!(
            line.contains("is not an address to listen on") && line.contains(expected),
            "{line}"
        );
    }
    let line = refusal(json!({"listeners": "*:80"}));
    assert!(line.ends_with("write {\"*:80\": {\"pass\": \"routes\"}}"), "{line}");
}

#[test]
fn the_columns_of_hints_have_their_form() {
    for row in HINTS.lines() {
        let columns: Vec<_> = row.split('\t').collect();
        let [words, beside, hint] = columns.as_slice() else { panic!("{row}") };
        assert!(words.split(' ').all(|word| word == normalised(word)), "{row}");
        assert!(*beside == "-" || is_key(beside), "{row}");
        assert!(!hint.is_empty(), "{row}");
    }
}

#[test]
fn a_directive_without_an_example_has_the_text_of_the_tables() {
    for (name, expected) in [
        ("send_timeout", "\"settings\"/\"http\"/\"send_timeout\""),
        ("proxy_cookie_path", "\"cookie_domain\" of an upstream, \"cookie_path\" of an upstream"),
        ("proxy_cache", "\"cache\" of the action, with \"name\" for a store"),
        (
            "SendFile",
            "not needed, because files are always sent from the page cache, a part at a time",
        ),
        ("ServerSignature", "not needed, because pages of the server have no address"),
        (
            "proxy_hide_header",
            "\"response_headers\": { \"X-Powered-By\": { \"value\": null, \"always\": true } }",
        ),
    ] {
        assert_eq!(directive(name, false), Some(format!("in Howdah: {expected}")));
        assert_eq!(hint(name, |_| true), None, "{name}");
    }
    for row in [NGINX, APACHE, PHP_FPM].into_iter().flat_map(str::lines) {
        let Some((names, _)) = row.split_once('\t') else { continue };
        for name in names.split(' ') {
            let text = directive(name, false).unwrap();
            assert!(!text.contains(['`', '\n']) && !text.contains("]("), "{text}");
        }
    }
}

#[test]
fn a_key_that_is_mistyped_is_no_directive() {
    let line = refusal(upstream(json!({"timeout": 3})));
    assert!(line.ends_with("did you mean \"timeouts\"?"), "{line}");
    // The key belongs to actions that have the missing key.
    let line = refusal(json!({"routes": [{"action": {"index": "index.php"}}]}));
    assert!(!line.contains("in Howdah"), "{line}");
}

#[test]
fn fields_are_named_by_their_prefix() {
    assert_eq!(variable("http_user_agent").unwrap(), "write \"$header_user_agent\"");
    assert_eq!(variable("sent_http_etag").unwrap(), "write \"$response_header_etag\"");
    assert!(variable("http_host").unwrap().contains("$host"));
    assert_eq!((variable("http_"), variable("nonsense")), (None, None));
}
