//! Presets for applications.

use harness::Site;
use serde_json::{Value, json};

use super::origin::{ask, cached, get, is_hit, origin, page};

/// WordPress states no lifetime for pages of visitors.
#[test]
fn wordpress_pages_are_cached_for_visitors_only() {
    let origin = origin(|_, number| page("Content-Type: text/html\r\n", number.to_string()));
    let server = cached(&origin, json!({"preset": "wordpress"}));
    for target in ["/", "/hello-world/", "/feed/", "/?p=1", "/category/a/page/2/"] {
        get(&server, target, "Cookie: _ga=1; wordpress_test_cookie=WP+Cookie+check\r\n");
        assert!(is_hit(&get(&server, target, "Cache-Control: no-cache\r\n")), "{target}");
        for cookie in [
            "wordpress_logged_in_5f4=admin%7C1",
            "wp-postpass_1=x",
            "comment_author_1=me",
            "woocommerce_items_in_cart=1",
            "woocommerce_cart_hash=x",
            "wp_woocommerce_session_1=x",
            "a=b; wordpress_logged_in_=x",
            "wordpress.logged.in_5f4=x",
        ] {
            let response = get(&server, target, &format!("Cookie: {cookie}\r\n"));
            assert_eq!(response.field("Cache-Status"), Some("Howdah; fwd=bypass"), "{cookie}");
        }
    }
    for target in [
        "/wp-admin/",
        "/wp-login.php",
        "/blog/wp-admin/a",
        "/wp-json/wp/v2/posts",
        "/?rest_route=/wp",
        "/cart/",
        "/checkout/x",
        "/my-account/",
        "/?add-to-cart=1",
        "/?wc-ajax=get_refreshed_fragments",
        "/?p=1&preview=true",
        "/xmlrpc.php",
        "/?s=text",
        "/?preview_id=1&preview_nonce=2",
    ] {
        get(&server, target, "");
        assert!(!is_hit(&get(&server, target, "")), "{target}");
    }
    for fields in ["Authorization: Basic eDp5\r\n", "X-WP-Nonce: 1\r\n"] {
        assert!(!is_hit(&get(&server, "/", fields)), "{fields}");
    }
    ask(&server, "POST", "/hello-world/", "");
    assert!(!is_hit(&get(&server, "/hello-world/", "")), "a comment shows at once");
}

/// Scenario: `try` or a `rewrite` leads `/my-account/` to `index.php`, as nginx's `try_files` does.
#[test]
fn wordpress_pages_are_known_by_the_path_that_the_client_has_sent() {
    let cache = json!({"preset": "wordpress"});
    let origin = origin(|_, number| page("Content-Type: text/html\r\n", number.to_string()));
    let proxy = json!({"rewrite": "/index.php", "proxy": origin.url()});
    let again = |last: Value, first: Value| {
        let uri = json!({"uri": "!/index.php"});
        json!([{"match": uri, "action": first}, {"action": last}])
    };
    let (plain, with_cache) =
        (json!({"proxy": origin.url()}), json!({"proxy": origin.url(), "cache": cache}));
    for routes in [
        json!([{"action": {"rewrite": "/index.php?q=$uri&$args", "proxy": origin.url(),
            "cache": cache}}]),
        json!([{"action": {"share": "/nonexistent$uri", "fallback": proxy, "cache": cache}}]),
        again(with_cache, json!({"rewrite": "/index.php", "pass": "routes"})),
        again(plain, json!({"rewrite": "/index.php", "pass": "routes", "cache": cache})),
    ] {
        let server = Site::new().with(json!({"routes": routes})).serve();
        for target in ["/cart/", "/cart/?a=b", "/my-account/orders", "/%63art/", "/x/../cart/"] {
            for _ in 0..2 {
                let response = get(&server, target, "");
                let status = response.field("Cache-Status");
                assert_eq!(status, Some("Howdah; fwd=bypass"), "{target} {routes}");
            }
        }
        for target in ["/hello-world/", "/hello-world/2"] {
            get(&server, target, "");
            assert!(is_hit(&get(&server, target, "")), "{target} {routes}");
        }
    }
}

#[test]
fn conditions_are_about_the_path_of_the_client_and_that_of_routes() {
    let origin = origin(|_, number| page("", number.to_string()));
    let stored = |cache: &Value, target: &str| {
        let action = json!({"rewrite": "/app$1", "proxy": origin.url(), "cache": cache});
        let step = json!({"match": {"uri": "~^/site(.*)$"}, "action": action});
        let server = Site::new().with(json!({"routes": [step]})).serve();
        get(&server, target, "");
        is_hit(&get(&server, target, ""))
    };
    for (conditions, target, expected) in [
        (json!({"uri": "/site/a"}), "/site/a", true),
        (json!({"uri": "/app/a"}), "/site/a", true),
        (json!({"uri": "/site/a"}), "/site/b", false),
        (json!({"uri": "!/site/a"}), "/site/a", false),
        (json!({"uri": "!/app/a"}), "/site/a", false),
        (json!({"uri": "!/site/a"}), "/site/b", true),
        (json!({"uri": ["/app/*", "!/site/a"]}), "/site/a", false),
        (json!({"uri": ["/app/*", "!/site/a"]}), "/site/b", true),
    ] {
        let store = json!({"ttl": {"200": 60}, "store": conditions});
        assert_eq!(stored(&store, target), expected, "{conditions} {target}");
        let bypass = json!({"ttl": {"200": 60}, "bypass": conditions});
        assert_eq!(stored(&bypass, target), !expected, "{conditions} {target}");
    }
}

#[test]
fn what_wordpress_forbids_is_not_cached() {
    let origin = origin(|head, _| {
        if head.starts_with("GET /private") {
            page("Cache-Control: no-cache, must-revalidate, max-age=0, no-store, private\r\n", "x")
        } else {
            page("Set-Cookie: wp_lang=de\r\n", "x")
        }
    });
    let server = cached(&origin, json!({"preset": "wordpress"}));
    for target in ["/private", "/lang"] {
        get(&server, target, "");
        assert!(!is_hit(&get(&server, target, "")), "{target}");
    }
}

#[test]
fn mediawiki_pages_are_cached_in_spite_of_vary_on_cookies() {
    let origin = origin(|_, number| {
        page(
            "Cache-Control: s-maxage=18000, must-revalidate, max-age=0\r\n\
             Vary: Accept-Encoding, Cookie\r\n",
            number.to_string(),
        )
    });
    let server = cached(&origin, json!({"preset": "mediawiki"}));
    get(&server, "/index.php/Page", "");
    assert!(is_hit(&get(&server, "/index.php/Page", "Cookie: seen=1\r\n")));
    for cookie in ["wikidbUserID=1", "wikidb_session=x", "wikidbToken=x"] {
        assert!(!is_hit(&get(&server, "/index.php/Page", &format!("Cookie: {cookie}\r\n"))));
    }
    assert!(!is_hit(&get(&server, "/index.php?title=Page&action=edit", "")));
    let purged = ask(&server, "PURGE", "/index.php/Page", "");
    assert_eq!(purged.status, 200);
    assert!(!is_hit(&get(&server, "/index.php/Page", "")));
}

#[test]
fn drupal_pages_are_cached_and_purged_by_tag() {
    let origin = origin(|_, number| {
        page(
            "Cache-Control: max-age=900, public\r\nVary: Cookie\r\nCache-Tags: node:1 node_list\r\n\
             Expires: Sun, 19 Nov 1978 05:00:00 GMT\r\n",
            number.to_string(),
        )
    });
    let server = cached(&origin, json!({"preset": "drupal", "purge": "127.0.0.1"}));
    get(&server, "/node/1", "");
    assert!(is_hit(&get(&server, "/node/1", "Cookie: has_js=1\r\n")));
    assert!(!is_hit(&get(&server, "/node/1", "Cookie: SESSab12=1\r\n")));
    assert!(!is_hit(&get(&server, "/user/login", "")));
    assert_eq!(ask(&server, "BAN", "/", "Cache-Tags: node:1\r\n").status, 200);
    assert!(!is_hit(&get(&server, "/node/1", "")));
}
