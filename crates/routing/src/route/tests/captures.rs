//! Captures of regular expressions and their use in actions.

use super::*;

#[test]
fn a_location_has_what_was_captured_encoded_as_a_path() {
    let routes = Routes::new(
        r#"[{"match": {"uri": "~^/old/(?P<name>[^/]*)/?(.*)$", "host": "~^(?P<site>\\w+)\\.org$"},
             "action": {"return": 301, "location": "/$site/${name}?p=$2", "keep_query": true}}]"#,
    );
    let location = |target: &str| routes.answer(target).1.unwrap();
    assert_eq!(location("/old/a/b/c?x=%20"), "/example/a?p=b/c&x=%20");
    assert_eq!(location("/old/"), "/example/?p=");
    assert_eq!(location("/old/%D0%AE%2520/%3F%23"), "/example/%D0%AE%2520?p=%3F%23");
}

#[test]
fn what_was_captured_cannot_end_a_field() {
    let routes = Routes::new(
        r#"[{"match": {"uri": "~^/a/(.*)$"},
             "action": {"return": 301, "location": "https://x/$1"}},
            {"match": {"uri": "~(?s)^/b/(.*)$"},
             "action": {"return": 301, "location": "https://x/$1"}}]"#,
    );
    // Without `(?s)` a dot finds no line feed, so the first step does not hold.
    assert_eq!(routes.status("/a/x%0d%0aSet-Cookie:y"), 404);
    let location = routes.answer("/b/x%0d%0aSet-Cookie:y").1;
    assert_eq!(location.as_deref(), Some("https://x/x%0D%0ASet-Cookie:y"));
}

#[test]
fn a_rewrite_puts_captures_into_the_path() {
    let routes = Routes::new(
        r#"{"main": [{"match": {"uri": "~^/user/(\\d+)(?:/(.*))?$"},
                      "action": {"rewrite": "/index.php/$1/$2", "pass": "applications/app"}}]}"#,
    );
    for (target, path) in [
        ("/user/7", "/index.php/7/"),
        ("/user/7/a%2520b", "/index.php/7/a%20b"),
        ("/user/7/x%3Fy%23", "/index.php/7/x?y#"),
    ] {
        let mut request = request(target, &[]);
        let (decision, _) = routes.decide(&mut request);
        assert!(matches!(decision, Decision::Ask(Origin::Php(..))), "{decision:?}");
        assert_eq!(request.path, path, "{target}");
    }
}

#[test]
fn a_share_finds_files_by_captures_and_hardening_19_none_outside() {
    let names = ["img/a.png", "img/b/c.png", "secret.png", "img/.hidden/d.png"];
    let (_root, root) = with_files(&names);
    let routes = Routes::new(&format!(
        r#"[{{"match": {{"uri": "~^/pic(.*)$"}}, "action": {{"share": "{root}/img/$1"}}}},
            {{"match": {{"uri": "~^/slash/(.*)$"}}, "action": {{"share": "{root}/img$1"}}}},
            {{"match": {{"uri": "~^/q/(.*)$"}}, "action": {{"share": "{root}/img/$1"}}}}]"#
    ));
    for (target, status) in [
        ("/pic/a.png", 200),
        ("/pic/b/c.png", 200),
        ("/q/a.png", 200),
        ("/q/%2e%2e/secret.png", 404),
        ("/q/..%2fsecret.png", 404),
        ("/q/%252e%252e/secret.png", 404),
        ("/pic../secret.png", 404),
        ("/pic%2e%2e/secret.png", 404),
        ("/slash/..%2Fsecret.png", 404),
        ("/slash/../secret.png", 404),
        ("/q/.hidden/d.png", 404),
        ("/q/a.png%00.jpg", 404),
    ] {
        // The protocol layer refuses the others before they are routed.
        if howdah_http::target::Target::parse(target.as_bytes()).is_ok() {
            assert_eq!(routes.status(target), status, "{target}");
        }
    }
}

#[test]
fn captures_are_those_of_the_step_that_names_them() {
    let routes = Routes::new(
        r#"{"main": [{"match": {"uri": "~^/(?P<to>[a-z]+)/(.*)$"},
            "action": {"pass": "routes/$to"}}],
            "a": [{"match": {"uri": "~/(x)$"}, "action": {"return": 301, "location": "/$1"}},
                  {"action": {"return": 204}}],
            "b": [{"match": {"uri": ["/b/plain", "~^/b/(y)"]},
                   "action": {"return": 301, "location": "/found/$1"}}]}"#,
    );
    let location = |target: &str| routes.answer(target).1;
    assert_eq!(location("/a/x").as_deref(), Some("/x"));
    assert_eq!(location("/a/z"), None);
    assert_eq!(location("/b/y").as_deref(), Some("/found/y"));
    assert_eq!(location("/b/plain").as_deref(), Some("/found/"), "not those of another step");
    assert_eq!(routes.status("/none/x"), 404);
}

#[test]
fn captures_of_64_kib_and_captures_in_each_other_are_bounded() {
    let routes = Routes::with_log(
        r#"[{"match": {"uri": "~^/r/((.*)(.*))$"},
             "action": {"rewrite": "/$1$2$3$1", "return": 204}},
            {"match": {"uri": "~^/l/((a|(b))*)$"},
             "action": {"return": 301, "location": "/$1$2$3"}}]"#,
        false,
    );
    let long = "a".repeat(64 << 10);
    assert_eq!(routes.status(&format!("/r/{long}")), 500);
    assert_eq!(routes.status(&format!("/r/{}", &long[..16 << 10])), 204);
    let location = routes.answer(&format!("/l/{long}")).1.unwrap();
    assert_eq!(location, format!("/{long}a"), "a group that took no part is empty");
    assert_eq!(routes.answer("/l/ab").1.as_deref(), Some("/abbb"));
}
