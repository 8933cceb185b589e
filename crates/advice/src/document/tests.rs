use serde_json::{Value, json};

use howdah_config::Config;

use crate::advise;

mod caching;

/// Returns the advice on a document, each as `PATH: MESSAGE`.
pub(super) fn advice(document: Value) -> Vec<String> {
    let config = Config::from_value(document).unwrap();
    lines(advise(&config).into_iter().filter(|advice| !advice.is_note))
}

/// Returns the notes on a document.
pub(super) fn notes(document: Value) -> Vec<String> {
    let config = Config::from_value(document).unwrap();
    lines(advise(&config).into_iter().filter(|advice| advice.is_note))
}

pub(super) fn lines(all: impl Iterator<Item = crate::Advice>) -> Vec<String> {
    all.map(|advice| format!("{}: {}", advice.path, advice.message)).collect()
}

/// Returns the advice on a document with these steps and a listener.
pub(super) fn on_steps(steps: Value) -> Vec<String> {
    advice(json!({"listeners": {"*:80": {"pass": "routes"}}, "routes": steps}))
}

#[test]
fn fastcgi_is_not_for_everybody() {
    let advice = |protocol: &str, socket: Value| {
        advice(json!({
            "listeners": {"unix:/run/a.sock":
                {"protocol": protocol, "pass": "applications/shop", "socket": socket}},
            "applications": {"shop": {"type": "php", "root": "/srv/shop"}},
        }))
    };
    for closed in [json!({}), json!({"mode": "0660"}), json!({"mode": "0664", "group": "web"})] {
        assert_eq!(advice("fastcgi", closed), [""; 0]);
    }
    let open = json!({"mode": "0666"});
    assert_eq!(advice("http", open.clone()), [""; 0]);
    only(&advice("fastcgi", open), "/listeners/unix:%2Frun%2Fa.sock/socket/mode", "\"0660\"");
}

#[test]
fn metrics_are_not_for_everybody() {
    let advice = |listen: &str| {
        advice(json!({
            "listeners": {"*:80": {"pass": "routes"}},
            "routes": [{"action": {"return": 200}}],
            "settings": {"metrics": {"listen": listen}},
        }))
    };
    for local in ["127.0.0.1:9145", "127.9.9.9:9145", "[::1]:9145", "unix:/run/m.sock", "unix:@m"] {
        assert_eq!(advice(local), [""; 0]);
    }
    for open in ["*:9145", "10.0.0.1:9145", "[::]:9145"] {
        let [line] = &advice(open)[..] else { panic!("{open}") };
        assert!(line.starts_with("/settings/metrics/listen: "), "{line}");
    }
}

/// Returns the advice on a step with these conditions, followed by a step without conditions.
fn on_match(conditions: Value) -> Vec<String> {
    let answer = json!({"return": 200});
    on_steps(json!([{"match": conditions, "action": answer}, {"action": answer}]))
}

/// Returns the advice on a step with this action.
fn on_action(action: Value) -> Vec<String> {
    on_steps(json!([{"action": action}]))
}

#[track_caller]
pub(super) fn only(lines: &[String], start: &str, part: &str) {
    let [line] = lines else { panic!("{start}: {lines:?}") };
    assert!(line.starts_with(&format!("{start}: ")) && line.contains(part), "{line}");
}

#[test]
fn a_document_in_order_gets_no_advice() {
    let lines = advice(json!({
        "listeners": {"*:80": {"pass": "routes"}, "*:81": {"pass": "applications/php/b"}},
        "routes": [
            {"match": {"host": ["example.com", "*.example.com", "!old.example.com"],
                       "uri": ["/a/*", "!/a/b", "~^/c", "%2Fd", "*.css"],
                       "headers": {"X-A": "*"}, "source": "10.0.0.0/8", "if": "$cookie_a"},
             "action": {"return": 301, "location": "https://$host$request_uri"}},
            {"match": {"host": "[::1]", "method": ["GET", "!POST"]}, "action": {"return": 200}},
            {"match": {"uri": "!/x"}, "action": {"share": "/www/index.html"}},
            {"match": {"uri": "~^/a$host"}, "action": {"return": 404}},
            {"match": {"uri": "*.php"},
                "action": {"share": "/www$uri", "scripts": "applications/php/a"}},
            {"action": {"share": ["/www/$host$uri", "/www/$host/index.html"],
                        "index": ["index.html"],
                        "response_headers": {"X-A": "$host"},
                        "fallback": {"pass": "applications/php/b"}}},
        ],
        "applications": {
            "php": {"type": "php", "environment": {"PRICE": "5$", "A": "$b"},
                    "targets": {"a": {"root": "/www"}, "b": {"root": "/www", "script": "a.php"}}},
            "fpm": {"type": "fastcgi", "server": "127.0.0.1:9000", "root": "/www",
                    "params": {"HOST": "$host"}},
        },
        "upstreams": {"host": {"servers": {"127.0.0.1:1": {}}, "host": "$host",
                               "headers": {"X-A": "$uri"}, "balance": {"hash": "$uri"}}},
        "access_log": {"path": "/log", "format": {"a": "$status"}, "if": "$cookie_a"},
    }));
    assert_eq!(lines, [""; 0]);
}

#[test]
fn a_document_without_listeners_serves_nobody() {
    only(&advice(json!({})), "/listeners", "no request can arrive");
    only(&on_steps(json!([])), "/listeners/*:80/pass", "answered with 404");
}

#[test]
fn conditions_without_effect_are_told() {
    let always = "always holds, so it has no effect";
    for (conditions, key) in [
        (json!({"uri": "*", "method": "GET"}), "uri"),
        (json!({"uri": ["*", "/a"], "method": "GET"}), "uri"),
        (json!({"host": [], "method": "GET"}), "host"),
        (json!({"headers": {}, "method": "GET"}), "headers"),
        (json!({"cookies": [{"a": "b"}, {}], "method": "GET"}), "cookies"),
        (json!({"arguments": [], "method": "GET"}), "arguments"),
        (json!({"if": "!", "method": "GET"}), "if"),
        (json!({"if": "$uri", "method": "GET"}), "if"),
    ] {
        only(&on_match(conditions), &format!("/routes/0/match/{key}"), always);
    }
    let never = "never holds, so the step takes no request";
    for (conditions, key) in [
        (json!({"source": []}), "source"),
        (json!({"uri": "!*"}), "uri"),
        (json!({"if": "$status"}), "if"),
        (json!({"if": "0"}), "if"),
        (json!({"scheme": "https"}), "scheme"),
    ] {
        only(&on_match(conditions), &format!("/routes/0/match/{key}"), never);
    }
    let lines = on_match(json!({}));
    assert!(lines[0].starts_with("/routes/0/match: has no condition"), "{lines:?}");
    assert!(lines[1].starts_with("/routes/1: no request comes here"), "{lines:?}");
}

#[test]
fn https_may_come_over_tls_or_from_a_proxy_that_says_so() {
    let step = json!([{"match": {"scheme": "https"}, "action": {"return": 200}}]);
    let forwarded = json!({"protocol": "X-Forwarded-Proto", "source": "10.0.0.1"});
    let listener = json!({"pass": "routes", "forwarded": forwarded});
    assert_eq!(advice(json!({"listeners": {"*:80": listener}, "routes": step})), [""; 0]);
}

#[test]
fn patterns_that_match_nothing_are_told_with_what_to_write() {
    for (key, pattern, reason) in [
        ("host", ".example.com", "nginx's form; write [\"example.com\", \"*.example.com\"]"),
        ("host", "example.com:8080", "without its port"),
        ("host", "https://example.com", "no scheme"),
        ("host", "example.com www.example.com", "write an array"),
        ("host", "example.com.", "without a dot"),
        ("uri", "admin/*", "write \"/admin/*\""),
        ("uri", "^~ /static/", "write \"/static/*\""),
        ("uri", "= /a", "write \"/a\""),
        ("uri", "/a?b=c", "without its query"),
        ("uri", "~ \\.php$", "write \"~\\.php$\""),
        ("method", "GET POST", "write an array"),
    ] {
        let place = format!("/routes/0/match/{key}");
        let lines = on_match(json!({key: pattern}));
        let [reasoned, never] = lines.as_slice() else { panic!("{lines:?}") };
        let beginning = format!("{place}: \"{pattern}\" matches nothing: ");
        assert!(reasoned.starts_with(&beginning) && reasoned.contains(reason), "{reasoned}");
        assert_eq!(never, &format!("{place}: never holds, so the step takes no request"));
        let lines = on_match(json!({key: ["*a", pattern]}));
        only(&lines, &format!("{place}/1"), reason);
    }
}

#[test]
fn steps_after_one_that_takes_all_requests_are_told_once() {
    let answer = json!({"return": 200});
    let step = json!({"action": answer});
    let lines = on_steps(json!([{"match": {"uri": "/a"}, "action": answer}, step, step, step]));
    only(&lines, "/routes/2", "step 1 takes all of them");
    let document = json!({"listeners": {"*:80": {"pass": "routes/a%2Fb"}},
                          "routes": {"a/b": [step, step]}});
    only(&advice(document), "/routes/a%2Fb/1", "step 0 takes all of them");
}

#[test]
fn an_if_of_the_access_log_that_is_the_same_for_all_requests_is_told() {
    for (text, expected) in [("$status", "always holds"), ("!1", "never holds")] {
        let log = json!({"path": "/log", "if": text});
        let document = json!({"listeners": {"*:80": {"pass": "routes"}},
                              "routes": [{"action": {"return": 200}}], "access_log": log});
        only(&advice(document), "/access_log/if", expected);
    }
}

#[test]
fn a_share_without_the_path_of_the_request_is_told_if_it_is_a_directory() {
    let message = "so all requests get the same file; write \"/www$uri\"";
    for share in ["/www", "/www/"] {
        only(&on_action(json!({"share": share})), "/routes/0/action/share", message);
    }
    let lines = on_action(json!({"share": ["/www$uri", "/other/"]}));
    only(&lines, "/routes/0/action/share/1", "\"/other$uri\"");
    let lines = on_action(json!({"share": "/www$uri", "fallback": {"share": "/www/"}}));
    only(&lines, "/routes/0/action/fallback/share", message);
}

#[test]
fn relative_names_of_roots_and_shares_are_told() {
    let part = "does not begin with a slash";
    only(&on_action(json!({"share": "www$uri"})), "/routes/0/action/share", part);
    let lines = on_action(json!({"share": "/www$uri", "chroot": "www"}));
    only(&lines, "/routes/0/action/chroot", part);
    let listeners = json!({"*:80": {"pass": "applications/a"}});
    let application = json!({"type": "php", "root": "www"});
    let document = json!({"listeners": listeners, "applications": {"a": application}});
    only(&advice(document), "/applications/a/root", part);
    let application = json!({"type": "php", "targets": {"t/t": {"root": "./www"}}});
    let document = json!({"listeners": listeners, "applications": {"a": application}});
    only(&advice(document), "/applications/a/targets/t%2Ft/root", part);
}

#[test]
fn scripts_that_a_share_would_refuse_are_told() {
    let document = |action: Value, conditions: Value| {
        json!({
            "listeners": {"*:80": {"pass": "routes"}},
            "routes": [{"match": conditions, "action": action}],
            "applications": {"a/b": {"type": "php", "root": "/www"}},
        })
    };
    let share = json!({"share": "/www$uri", "index": ["index.html", "index.php"]});
    let lines = advice(document(share, json!({"uri": "/a*"})));
    only(&lines, "/routes/0/action/index", "write \"scripts\": \"applications/a%2Fb\"");
    for pattern in ["*.php", "/index.php", "~\\.php$"] {
        let lines = advice(document(json!({"share": "/www$uri"}), json!({"uri": pattern})));
        only(&lines, "/routes/0/match/uri", "they are refused; write \"scripts\"");
    }
    let lines = advice(document(json!({"share": "/www$uri"}), json!({"uri": "!*.php"})));
    assert_eq!(lines, [""; 0]);
}

#[test]
fn variables_that_are_not_filled_in_are_told() {
    let with = |key: &str, value: Value| {
        let mut document = json!({"listeners": {"*:80": {"pass": "routes"}},
                                  "routes": [{"action": {"return": 200}}]});
        document[key] = value;
        advice(document)
    };
    let message = |name: &str| format!("not filled in here, so \"${name}\" stands for itself");
    only(&with("access_log", json!("/log/$host.log")), "/access_log", &message("host"));
    let log = json!({"path": "/log/${host}.log"});
    only(&with("access_log", log), "/access_log/path", &message("host"));
    let application = json!({"type": "php", "root": "/www/$host", "environment": {"A": "$scheme"}});
    let lines = with("applications", json!({"share": application}));
    let [root, environment] = lines.as_slice() else { panic!("{lines:?}") };
    assert!(environment.contains("/applications/share/environment/A: "), "{environment}");
    assert!(root.contains("/applications/share/root: "), "{root}");
    let lines = on_match(json!({"headers": {"Origin": ["a", "https://$http_host"]}}));
    only(&lines, "/routes/0/match/headers/Origin/1", &message("http_host"));
}

#[test]
fn variables_that_are_filled_in_are_not_told() {
    for action in [
        json!({"proxy": "http://127.0.0.1:81", "request_headers": {"X-User": "$remote_user"}}),
        json!({"proxy": "http://127.0.0.1:81", "cache": {"key": "$scheme$host$request_uri"}}),
        json!({"proxy": "http://127.0.0.1:81", "limit": {"rate": "1/s", "key": "$host"}}),
        json!({"share": "/srv/$host$uri", "scripts": "applications/$host"}),
        json!({"return": 200, "body": "$host\n"}),
    ] {
        let listeners = json!({"*:80": {"pass": "routes"}});
        let lines = advice(json!({"listeners": listeners, "routes": [{"action": action}]}));
        assert_eq!(lines, [""; 0], "{action}");
    }
    let example = include_str!("../../../../packaging/example.json");
    let mut example: Value = serde_json::from_str(example).unwrap();
    for replaced in ["include", "sites", "defaults"] {
        example.as_object_mut().unwrap().remove(replaced);
    }
    assert_eq!(advice(example), [""; 0]);
}

#[test]
fn settings_about_failed_servers_need_failures_that_are_noticed() {
    let of = |members: Value| {
        let mut upstream = json!({"servers": {"10.0.0.1:80": {}, "10.0.0.2:80": {"backup": true}}});
        upstream.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        advice(json!({
            "listeners": {"*:80": {"pass": "upstreams/u"}}, "upstreams": {"u": upstream},
        }))
    };
    let backup = of(json!({}));
    assert_eq!(backup.len(), 1);
    assert!(backup[0].starts_with("/upstreams/u/servers/10.0.0.2:80/backup: "), "{backup:?}");
    let all = of(json!({"slow_start": 10, "retry": {"on": 503}}));
    assert!(all[0].starts_with("/upstreams/u/slow_start: has no effect"), "{all:?}");
    assert!(all[1].starts_with("/upstreams/u/retry: has no effect"), "{all:?}");
    for members in [
        json!({"failures": {}}),
        json!({"tries": 2, "retry": {"on": 503}}),
        json!({"health": {"uri": "/"}, "slow_start": 10}),
    ] {
        assert_eq!(of(members), Vec::<String>::new());
    }
}

#[test]
fn settings_of_http_have_no_effect_on_fastcgi() {
    let document = |upstream: Value| {
        json!({
            "listeners": {"*:80": {"pass": "applications/a"}},
            "upstreams": {"u": upstream},
            "applications": {"a": {"type": "fastcgi", "upstream": "u", "root": "/"}},
        })
    };
    let servers = json!({"10.0.0.1:9000": {}});
    let found = advice(document(json!({
        "servers": servers, "keepalive": 8, "headers": {"X-A": "b"}, "timeouts": {"read": 5},
        "failures": {}, "tries": 2, "retry": {"on": 503}, "balance": "two_choices",
    })));
    assert_eq!(found.len(), 2, "{found:?}");
    let keepalive = "/upstreams/u/keepalive: has no effect on the application \"a\"";
    assert!(
        found[0].starts_with(keepalive) && found[0].contains("in the application"),
        "{found:?}"
    );
    assert!(found[1].contains("write \"params\""), "{found:?}");
}

#[test]
fn a_rewrite_begins_with_a_slash() {
    let lines = on_action(json!({"rewrite": "index.php?q=$uri", "return": 200}));
    only(&lines, "/routes/0/action/rewrite", "requests get 500; write \"/index.php\"");
    for rewrite in ["/index.php", "$uri.html", "http://example.com/"] {
        assert!(on_action(json!({"rewrite": rewrite, "return": 200})).is_empty(), "{rewrite}");
    }
}

#[test]
fn response_headers_are_those_of_the_last_action() {
    let document = |pass| {
        let action = json!({"pass": pass, "response_headers": {"X-A": "b"}});
        json!({"listeners": {"*:80": {"pass": "routes/a"}},
               "routes": {"a": [{"action": action}], "b": [{"action": {"return": 200}}]},
               "applications": {"site": {"type": "php", "root": "/www"}}})
    };
    let lines = advice(document("routes/b"));
    only(&lines, "/routes/a/0/action/response_headers", "write it in these steps");
    assert!(advice(document("applications/site")).is_empty());
}

#[test]
fn a_script_that_is_restricted_without_the_paths_behind_it_is_named() {
    let on = |uri: Value, action: Value| {
        advice(json!({
            "listeners": {"*:80": {"pass": "routes"}},
            "routes": [
                {"match": {"uri": uri}, "action": action},
                {"action": {"share": "/www$uri", "scripts": "applications/php"}},
            ],
            "applications": {"php": {"type": "php", "root": "/www"}},
        }))
    };
    let refuse = json!({"return": 403});
    let share = json!({"share": "/www$uri", "scripts": "applications/php", "allow": "10.0.0.0/8"});
    let limited = json!({"pass": "applications/php", "limit": {"rate": "1/s"}});
    for (uri, action, remedy) in [
        (json!("/xmlrpc.php"), &refuse, "add \"/xmlrpc.php/*\""),
        (json!(["/a", "/uploads/*.php"]), &refuse, "add \"/uploads/*.php/*\""),
        (json!("~^/uploads/.*\\.php$"), &refuse, "write \"~^/uploads/.*\\.php(/|$)\""),
        (json!("/admin.php"), &share, "add \"/admin.php/*\""),
        (json!("*/login.php"), &limited, "add \"*/login.php/*\""),
    ] {
        only(&on(uri, action.clone()), "/routes/0/match/uri", remedy);
    }
    for (uri, action) in [
        (json!(["/xmlrpc.php", "/xmlrpc.php/*"]), refuse.clone()),
        (json!("/xmlrpc.php*"), refuse.clone()),
        (json!("~^/uploads/.*\\.php(/|$)"), refuse),
        (json!("/old.php"), json!({"return": 301, "location": "/new"})),
    ] {
        assert_eq!(on(uri, action), [""; 0]);
    }
    let front = advice(json!({
        "listeners": {"*:80": {"pass": "routes"}},
        "routes": [
            {"match": {"uri": "/xmlrpc.php"}, "action": {"return": 403}},
            {"action": {"pass": "applications/php"}},
        ],
        "applications": {"php": {"type": "php", "root": "/www", "script": "index.php"}},
    }));
    assert_eq!(front, [""; 0], "no path names a script here");
    let files = advice(json!({
        "listeners": {"*:80": {"pass": "routes"}},
        "routes": [
            {"match": {"uri": "*.php"},
                "action": {"pass": "applications/php", "limit": {"rate": "1/s"}}},
            {"action": {"share": "/www$uri"}},
        ],
        "applications": {"php": {"type": "php", "root": "/www"}},
    }));
    assert_eq!(files, [""; 0], "scripts with paths behind them do not run");
}

/// Scenario: nginx's `if ($http_x_token != "x") { return 403; }` as a condition with `!`, which a
/// request without the field does not meet.
#[test]
fn a_refusal_that_leaves_out_requests_without_the_field_is_named() {
    let of = |conditions: Value, action: Value, other: Value| {
        advice(json!({
            "listeners": {"*:80": {"pass": "routes"}},
            "routes": [
                {"match": conditions, "action": action},
                {"match": other, "action": {"return": 403}},
                {"action": {"share": "/www$uri"}},
            ],
        }))
    };
    let (refuse, other) = (json!({"return": 403}), json!({"uri": "/other"}));
    for (conditions, place) in [
        (json!({"headers": {"X-Token": "!sesame"}}), "headers/X-Token"),
        (
            json!({"headers": [{"Accept": "*", "User-Agent": ["!~good", "!~fine"]}]}),
            "headers/User-Agent",
        ),
        (json!({"cookies": {"session": "!~^[0-9a-f]+$"}}), "cookies/session"),
        (json!({"arguments": {"key": "!1"}}), "arguments/key"),
    ] {
        let lines = of(conditions, refuse.clone(), other.clone());
        only(&lines, &format!("/routes/0/match/{place}"), "a step in front");
    }
    for (conditions, action, other) in [
        (json!({"headers": {"X-Token": "sesame"}}), refuse.clone(), other.clone()),
        (
            json!({"headers": {"Referer": ["http*", "!~^https?://example"]}}),
            refuse.clone(),
            other.clone(),
        ),
        (json!({"headers": {"X-Token": "!sesame"}}), json!({"share": "/www$uri"}), other),
        (json!({"headers": {"X-Token": "!sesame"}}), refuse, json!({"if": "!$header_x_token"})),
    ] {
        assert_eq!(of(conditions, action, other), [""; 0]);
    }
}

#[test]
fn a_protected_path_without_those_below_it_is_named() {
    let on = |uri: Value, action: Value| {
        advice(json!({
            "listeners": {"*:80": {"pass": "routes"}},
            "routes": [{"match": {"uri": uri}, "action": action},
                {"action": {"share": "/www$uri"}}],
        }))
    };
    let protected = |key: &str, value: Value| json!({"share": "/www$uri", key: value});
    let users = json!({"users_file": "/etc/users"});
    for (uri, action) in [
        (json!("/admin"), protected("basic_auth", users.clone())),
        (json!(["/a/*", "/a/admin"]), protected("allow", json!("10.0.0.0/8"))),
        (json!("/admin"), json!({"proxy": "http://127.0.0.1:8080", "deny": "10.0.0.0/8"})),
    ] {
        only(&on(uri, action), "/routes/0/match/uri", "leaves out paths below it");
    }
    for (uri, action) in [
        (json!(["/admin", "/admin/*"]), protected("basic_auth", users.clone())),
        (json!(["/admin", "~^/admin/"]), protected("basic_auth", users.clone())),
        (json!("/admin*"), protected("basic_auth", users.clone())),
        (json!("/"), protected("basic_auth", users.clone())),
        (json!("/report.pdf"), protected("basic_auth", users)),
        (json!("/admin"), json!({"share": "/www$uri"})),
        (json!("/status"), json!({"return": 200, "allow": "10.0.0.0/8"})),
    ] {
        assert_eq!(on(uri, action), [""; 0]);
    }
}

#[test]
fn what_means_something_else_in_nginx_is_named() {
    let of = |conditions: Value, action: Value| {
        advice(json!({
            "listeners": {"*:80": {"pass": "routes"}},
            "routes": [{"match": conditions, "action": action}, {"action": {"share": "/www$uri"}}],
        }))
    };
    let uri = json!({"uri": "/a/*"});
    let share = |key: &str, value: Value| json!({"share": "/www$uri", key: value});
    for (conditions, action, place, remedy) in [
        (json!({"if": "$scheme = http"}), json!({"return": 403}), "match/if", "is not compared"),
        (
            json!({"if": "!$header_user_agent ~ bot"}),
            json!({"return": 403}),
            "match/if",
            "is not compared",
        ),
        (
            json!({"headers": {"http_x_a": "b"}}),
            json!({"return": 403}),
            "match/headers/http_x_a",
            "\"x-a\"",
        ),
        (
            uri.clone(),
            share("index", json!("a.html b.html")),
            "action/index",
            "[\"a.html\", \"b.html\"]",
        ),
        (uri.clone(), share("try", json!("$uri $uri/ /a.html")), "action/try", "array of paths"),
        (
            uri.clone(),
            share("error_pages", json!({"404": "/www/404.php"})),
            "action/error_pages/404",
            "names a script",
        ),
    ] {
        only(&of(conditions, action), &format!("/routes/0/{place}"), remedy);
    }
    for (conditions, action) in [
        (json!({"if": "$arg_a"}), json!({"return": 403})),
        (json!({"headers": {"X-A": "b"}}), json!({"return": 403})),
        (uri.clone(), share("index", json!(["a.html", "b.html"]))),
        (uri.clone(), share("try", json!(["$uri", "/a%20b.html"]))),
        (uri, share("error_pages", json!({"404": "/www/404.html"}))),
    ] {
        assert_eq!(of(conditions, action), [""; 0]);
    }
    let map = |definition: Value| {
        advice(json!({
            "listeners": {"*:80": {"pass": "routes"}},
            "variables": {"x": definition},
            "routes": [{"action": {"return": 301, "location": "$x"}}],
        }))
    };
    let lines = map(json!({"map": "$uri", "values": {"default": "/b", "/a": "/c"}}));
    only(&lines, "/variables/x/values/default", "beside \"values\"");
    assert_eq!(map(json!({"map": "$uri", "values": {"default": "/b"}, "default": "/c"})), [""; 0]);
}

/// The documents that users copy.
#[test]
fn the_examples_need_no_advice() {
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples");
    let mut count = 0;
    for example in std::fs::read_dir(examples).unwrap() {
        let file = example.unwrap().path().join("howdah.json");
        let Ok(document) = std::fs::read(&file) else { continue };
        let config = howdah_config::parse(&document).unwrap();
        let lines: Vec<_> = advise(&config)
            .into_iter()
            .map(|one| format!("{}: {}", one.path, one.message))
            .collect();
        assert_eq!(lines, [""; 0], "{}", file.display());
        count += 1;
    }
    assert!(count > 10, "{count} examples");
}
