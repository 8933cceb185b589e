//! Advice about pages that are stored.

use super::*;

/// Scenario: the usual condition on `$request_uri` of nginx's guides for WordPress.
#[test]
fn a_bypass_for_the_script_of_all_pages_is_named() {
    let of = |mut action: Value, bypass: Value| {
        action["cache"] = json!({"preset": "wordpress", "bypass": bypass});
        advice(json!({
            "listeners": {"*:80": {"pass": "routes"}},
            "routes": [{"action": action}],
            "applications": {"php": {"type": "php", "root": "/www"}},
        }))
    };
    let share = json!({"share": "/www$uri", "scripts": "applications/php"});
    let (mut tries, mut falls_back) = (share.clone(), share.clone());
    tries["try"] = json!(["$uri", "$uri/", "/index.php?$args"]);
    falls_back["fallback"] = json!({"rewrite": "/index.php", "pass": "applications/php"});
    let condition = json!({"uri": "~(?i)/wp-admin/|/xmlrpc.php|wp-.*.php|/feed/|index.php"});
    for action in [&tries, &falls_back] {
        let lines = of(action.clone(), json!([{"query": "a"}, condition]));
        only(&lines, "/routes/0/action/cache/bypass", "so none is stored");
    }
    for (action, bypass) in [
        (share, condition.clone()),
        (tries.clone(), json!({"uri": "~(?i)/wp-admin/|/feed/"})),
        (tries, json!({"uri": "/index.php", "query": "a"})),
        (falls_back, json!([])),
    ] {
        assert_eq!(of(action, bypass), [""; 0]);
    }
}

/// Scenario: `location ~ \.(css|xml)$ { expires 1y; try_files $uri /index.php; }`, which nginx
/// leaves for the script.
#[test]
fn a_time_of_files_that_pages_would_have_is_named() {
    let of = |list: Value, expires: Value| {
        let action = json!({"share": "/www$uri", "try": list, "scripts": "applications/php",
            "expires": expires});
        advice(json!({
            "listeners": {"*:80": {"pass": "routes"}},
            "routes": [{"match": {"uri": "~\\.(css|xml)$"}, "action": action}],
            "applications": {"php": {"type": "php", "root": "/www"}},
        }))
    };
    let front = json!(["$uri", "/index.php?$args"]);
    for expires in [json!("1y"), json!(60), json!("max"), json!({"text/css": "1y", "*": "1d"})] {
        let lines = of(front.clone(), expires);
        only(&lines, "/routes/0/action/expires", "write an object of media types");
    }
    for expires in [
        json!("off"),
        json!("epoch"),
        json!({"text/css": "1y", "image/*": "1y"}),
        json!({"*": "1y", "text/html": "off"}),
        json!({"*": "1y", "text/html": "1y"}),
    ] {
        assert_eq!(of(front.clone(), expires), [""; 0]);
    }
    assert_eq!(of(json!(["$uri", "$uri.html"]), json!("1y")), [""; 0]);
}

/// Scenario: `add_header Cache-Control "public"` in such a location.
#[test]
fn a_cache_control_that_pages_would_have_is_named() {
    let of = |name: &str, value: Value, list: Value| {
        let action = json!({"share": "/www$uri", "try": list, "scripts": "applications/php",
                            "response_headers": {name: value}});
        advice(json!({
            "listeners": {"*:80": {"pass": "routes"}},
            "routes": [{"action": action}],
            "applications": {"php": {"type": "php", "root": "/www"}},
        }))
    };
    let front = json!(["$uri", "/index.php"]);
    for value in [json!("public"), json!("Max-Age=60"), json!({"value": "public", "always": true})]
    {
        let lines = of("Cache-Control", value, front.clone());
        only(&lines, "/routes/0/action/response_headers/Cache-Control", "with media types");
    }
    for value in [json!("private, max-age=60"), json!("no-store"), json!(null)] {
        assert_eq!(of("Cache-Control", value, front.clone()), [""; 0]);
    }
    assert_eq!(of("X-A", json!("public"), front), [""; 0]);
    assert_eq!(of("Cache-Control", json!("public"), json!(["$uri", "/a.html"])), [""; 0]);
}
