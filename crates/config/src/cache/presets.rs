//! The settings of `preset`: documents of the same grammar.

use serde_json::{Value, json};

/// Names of the presets.
pub const NAMES: [&str; 5] = ["drupal", "laravel", "mediawiki", "symfony", "wordpress"];

/// Returns the settings of a preset.
pub(super) fn document(name: &str) -> Option<Value> {
    Some(match name {
        "wordpress" => wordpress(),
        // MediaWiki states lifetimes itself if its settings say that there is a cache ($wgUseCdn),
        // varies them by cookies, and purges pages from the machine that it runs on.
        "mediawiki" => json!({
            "ignore": "request-cache-control",
            "heuristic": false,
            "vary": { "cookie": null },
            "bypass": [
                { "headers": { "authorization": "*" } },
                { "cookies": { "*UserID": "*" } },
                { "cookies": { "*UserName": "*" } },
                { "cookies": { "*Token": "*" } },
                { "cookies": { "*_session": "*" } },
                { "cookies": { "*session_id": "*" } },
                { "cookies": { "UseDC": "*" } },
                { "arguments": { "action": ["*", "!view", "!raw", "!history"] } }
            ],
            "purge": ["127.0.0.1", "::1"]
        }),
        // Drupal states lifetimes itself (Performance settings), and names its tags.
        "drupal" => json!({
            "ignore": "request-cache-control",
            "heuristic": false,
            "vary": { "cookie": null },
            "stale_if_error": 86400,
            "bypass": [
                { "headers": { "authorization": "*" } },
                { "cookies": { "SESS*": "*" } },
                { "cookies": { "SSESS*": "*" } },
                { "cookies": { "NO_CACHE": "*" } },
                { "uri": [
                    "/admin", "/admin/*", "/user", "/user/*", "/update.php", "/install.php",
                    "/core/authorize.php", "/batch", "/cron/*"
                ] }
            ]
        }),
        // Both frameworks state lifetimes themselves.
        "symfony" => json!({
            "ignore": "request-cache-control",
            "heuristic": false,
            "bypass": [
                { "headers": { "authorization": "*" } },
                { "cookies": { "PHPSESSID": "*" } },
                { "cookies": { "REMEMBERME": "*" } }
            ]
        }),
        "laravel" => json!({
            "ignore": "request-cache-control",
            "heuristic": false,
            "bypass": [
                { "headers": { "authorization": "*" } },
                { "cookies": { "*_session": "*" } },
                { "cookies": { "remember_*": "*" } }
            ]
        }),
        _ => return None,
    })
}

/// WordPress states no lifetime for pages of visitors, and forbids storing those of users. Pages
/// are stored for ten minutes; pages of commenters, of carts
/// and of password-protected posts are not cached.
fn wordpress() -> Value {
    let mut bypass: Vec<Value> = [
        "wordpress_logged_in_*",
        "wordpress_sec_*",
        "wordpress_no_cache",
        "wp-postpass_*",
        "comment_author_*",
        "woocommerce_items_in_cart",
        "woocommerce_cart_hash",
        "wp_woocommerce_session_*",
        "store_notice*",
        "edd_items_in_cart",
        "PHPSESSID",
    ]
    .into_iter()
    .map(|name| json!({ "cookies": { name: "*" } }))
    .collect();
    let arguments = [
        "preview",
        "preview_id",
        "preview_nonce",
        "customize_changeset_uuid",
        "rest_route",
        "s",
        "add-to-cart",
        "remove_item",
        "wc-ajax",
        "wc-api",
        "edd_action",
        "doing_wp_cron",
        "replytocom",
        "unapproved",
        "moderation-hash",
        "_wpnonce",
        "nonce",
    ];
    bypass.extend(arguments.into_iter().map(|name| json!({ "arguments": { name: "*" } })));
    bypass.push(json!({ "headers": { "authorization": "*" } }));
    bypass.push(json!({ "headers": { "x-wp-nonce": "*" } }));
    bypass.push(json!({ "headers": { "cart-token": "*" } }));
    bypass.push(json!({ "uri": [
        "*/wp-admin", "*/wp-admin/*", "*/wp-login.php", "*/wp-cron.php", "*/xmlrpc.php",
        "*/wp-signup.php", "*/wp-activate.php", "*/wp-comments-post.php", "*/wp-trackback.php",
        "*/wp-json", "*/wp-json/*", "*/cart", "*/cart/*", "*/checkout", "*/checkout/*",
        "*/my-account", "*/my-account/*", "*/addons", "*/addons/*", "*/wc-api/*"
    ] }));
    json!({
        "ignore": "request-cache-control",
        "heuristic": false,
        "ttl": { "200": 600, "301": 3600, "404": 60 },
        "stale_while_revalidate": 60,
        "stale_if_error": 86400,
        "bypass": bypass,
    })
}
