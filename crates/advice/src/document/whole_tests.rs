//! Advice for which several parts of the document are looked at.

use serde_json::json;

use howdah_config::Config;

use crate::obstructed_listeners;

use super::tests::{advice, lines, notes, on_steps, only};

#[test]
fn an_address_and_all_addresses_of_its_port_are_not_both_listened_on() {
    let listeners = |names: &[&str]| {
        let members = names.iter().map(|name| ((*name).to_owned(), json!({"pass": "routes"})));
        let members: serde_json::Map<_, _> = members.collect();
        let document = json!({"listeners": members, "routes": [{"action": {"return": 200}}]});
        lines(obstructed_listeners(&Config::from_value(document).unwrap()).into_iter())
    };
    only(&listeners(&["*:80", "127.0.0.1:80"]), "/listeners/127.0.0.1:80", "\"*:80\" listens");
    only(&listeners(&["[::1]:80", "[::]:80"]), "/listeners/[::1]:80", "\"[::]:80\" listens");
    assert_eq!(listeners(&["*:80", "127.0.0.1:81", "[::]:80", "unix:/a"]), [""; 0]);
}

#[test]
fn a_circle_of_routes_is_named_once() {
    let document = |routes| json!({"listeners": {"*:80": {"pass": "routes/a"}}, "routes": routes});
    let pass = |name: &str| {
        json!([{"match": {"uri": "/x"},
        "action": {"pass": format!("routes/{name}")}}])
    };
    let fallback = json!([{"action": {"share": "/www$uri", "fallback": {"pass": "routes/a"}}}]);
    let circle = json!({"a": pass("b"), "b": pass("c"), "c": fallback});
    let found = advice(document(circle));
    only(&found, "/routes/a/0/action/pass", "routes/a → routes/b → routes/c → routes/a");
    only(
        &advice(document(json!({"a": pass("a")}))),
        "/routes/a/0/action/pass",
        "routes/a → routes/a",
    );
    // A circle that is not entered at its first route.
    let behind = json!({"a": pass("b"), "b": pass("c"), "c": pass("b")});
    only(&advice(document(behind)), "/routes/b/0/action/pass", "routes/b → routes/c → routes/b");
    // A rewrite changes which steps hold.
    let rewritten = json!([{"action": {"rewrite": "/y", "pass": "routes/a"}}]);
    assert_eq!(advice(document(json!({"a": pass("b"), "b": rewritten}))), [""; 0]);
}

#[test]
fn parts_that_nothing_leads_to_are_noted() {
    let php = json!({"type": "php", "root": "/www"});
    let found = notes(json!({
        "listeners": {"*:80": {"pass": "routes/main"}},
        // A variable that leads nowhere.
        "access_log": {"path": "/log", "format": "$remote_addr"},
        "routes": {
            "main": [{"action": {"share": "/www$uri", "scripts": "applications/a%2Fb"}}],
            "old": [{"action": {"return": 404}}],
        },
        "applications": {
            "a/b": php, "c": php, "fpm": {"type": "fastcgi", "upstream": "u", "root": "/www"},
        },
        "upstreams": {"u": {"servers": {"127.0.0.1:1": {}}}, "v": {"servers": {"127.0.0.1:1": {}}}},
    }));
    let places: Vec<_> = found.iter().map(|line| line.split(": ").next().unwrap()).collect();
    assert_eq!(places, ["/routes/old", "/applications/c", "/applications/fpm", "/upstreams/v"]);
    // Any application may be meant.
    let listener = json!({"*:80": {"pass": "routes"}});
    let steps = json!([{"action": {"pass": "applications/$host"}}]);
    let any = json!({"listeners": listener, "routes": steps, "applications": {"c": php}});
    assert_eq!(notes(any), [""; 0]);
}

#[test]
fn a_variable_of_a_shell_in_the_environment_is_noted() {
    let with = |text: &str| {
        notes(json!({
            "listeners": {"*:80": {"pass": "applications/a"}},
            "applications": {"a": {"type": "php", "root": "/www", "environment": {"X": text}}},
        }))
    };
    for text in ["$PATH:/x", "a${HOME}", "$DB_HOST"] {
        only(&with(text), "/applications/a/environment/X", "is not replaced");
    }
    for text in ["5$", "pa$$word", "$b", "${a}", "$5", "a$A", "${HOME"] {
        assert_eq!(with(text), [""; 0], "{text}");
    }
}

#[test]
fn a_regular_expression_without_its_mark_is_told() {
    let steps = |uri: &str| on_steps(json!([{"match": {"uri": uri}, "action": {"return": 200}}]));
    let found = steps("^/foo");
    assert!(found[0].contains("write \"~^/foo\""), "{found:?}");
    assert!(steps("!^/foo")[0].contains("write \"~^/foo\""));
}

#[test]
fn mistakes_of_form_are_answered_with_what_to_write() {
    let php = json!({"type": "php", "root": "/www"});
    let with = |listener: serde_json::Value, changes: serde_json::Value| {
        let mut application = php.clone();
        application.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        let document = json!({"listeners": {"*:80": listener},
            "applications": {"blog": application},
                              "upstreams": {"u": {"servers": ["127.0.0.1:3000"]}}});
        let error = Config::from_value(document).unwrap_err();
        error.lines(ToString::to_string)
    };
    let pass = json!({"pass": "applications/blog"});
    for (listener, changes, hint) in [
        (json!("routes"), json!({}), "write {\"pass\": \"routes\"}"),
        (json!({"pass": "application/blog"}), json!({}), "did you mean \"applications/blog\"?"),
        (pass.clone(), json!({"processes": "10"}), "write 10, without quotes"),
        (pass.clone(), json!({"htaccess": "on"}), "write true, without quotes"),
        (pass, json!({}), "write {\"127.0.0.1:3000\": {}}"),
    ] {
        let found = with(listener, changes);
        assert!(found.contains(hint), "{hint}: {found}");
    }
}

#[test]
fn response_headers_of_a_share_are_not_for_its_fallback() {
    let on = |headers: serde_json::Value, fallback: serde_json::Value| {
        let action =
            json!({"share": "/www$uri", "response_headers": headers, "fallback": fallback});
        notes(json!({
            "listeners": {"*:80": {"pass": "routes/a"}},
            "routes": {
                "a": [{"action": action}],
                "b": [{"action": {"return": 200}}],
            },
            "applications": {"php": {"type": "php", "root": "/www"}},
        }))
        .into_iter()
        .filter(|line| line.contains("response_headers"))
        .collect::<Vec<_>>()
    };
    let (place, fields) =
        ("/routes/a/0/action/response_headers", json!({"X-Frame-Options": "DENY"}));
    let php = json!({"pass": "applications/php"});
    for fallback in [php.clone(), json!({"proxy": "http://127.0.0.1:1"}), json!({"return": 200})] {
        only(&on(fields.clone(), fallback), place, "no \"X-Frame-Options\"");
    }
    only(&on(json!({"Expires": "0", "X-Powered-By": null}), php.clone()), place, "X-Powered-By");
    let own = json!({"pass": "applications/php", "response_headers": {"X-A": "b"}});
    for fallback in [own, json!({"pass": "routes/b"}), json!({"return": 404})] {
        assert_eq!(on(fields.clone(), fallback), [""; 0]);
    }
    let of_files = json!({"Cache-Control": "max-age=60", "Access-Control-Allow-Origin": "*"});
    assert_eq!(on(of_files, php), [""; 0]);
}
