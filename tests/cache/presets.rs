//! Presets for applications.

use serde_json::json;

use super::origin::{ask, cached, get, is_hit, origin, page};

/// WordPress says nothing about pages of visitors.
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

#[test]
fn what_wordpress_forbids_is_not_cached() {
    let origin = origin(|head, _| match head.starts_with("GET /private") {
        true => {
            page("Cache-Control: no-cache, must-revalidate, max-age=0, no-store, private\r\n", "x")
        }
        false => page("Set-Cookie: wp_lang=de\r\n", "x"),
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
