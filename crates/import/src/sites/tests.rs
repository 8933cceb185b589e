use super::*;

/// A document as nginx's importer makes it of two servers.
fn document() -> Value {
    json!({
        "listeners": {
            "*:80": { "pass": "routes/hosts" },
            "*:443": {
                "pass": "routes/shop.example",
                "tls": { "certificate": { "chain": "/a.pem", "key": "/a.key" } }
            }
        },
        "routes": {
            "shop.example-files": [
                {
                    "match": { "uri": "*/", "file": "/srv/shop${uri}index.php" },
                    "action": { "rewrite": "${uri}index.php", "pass": "routes/shop.example" }
                },
                {
                    "match": { "uri": "*/", "directory": "/srv/shop$uri" },
                    "action": { "return": 403 }
                },
                { "action": { "share": "/srv/shop$uri", "follow_symlinks": true } }
            ],
            "shop.example-root": [
                {
                    "match": { "file": "/srv/shop$uri" },
                    "action": { "pass": "routes/shop.example-files" }
                },
                { "action": { "rewrite": "/index.php?$args?", "pass": "routes/shop.example" } }
            ],
            "shop.example": [
                {
                    "match": { "uri": "~\\.php$" },
                    "action": { "pass": "applications/shop", "environment": { "SERVER_NAME": "a" } }
                },
                {
                    "match": { "uri": "~/\\.ht" },
                    "action": { "pass": "routes/shop.example-files", "allow": [] }
                },
                { "action": { "pass": "routes/shop.example-root" } }
            ],
            "static.example": [{ "action": { "share": "/srv/static$uri" } }],
            "hosts": [
                {
                    "match": { "host": ["shop.example", "www.shop.example"] },
                    "action": { "pass": "routes/shop.example" }
                },
                {
                    "match": { "host": "static.example" },
                    "action": { "pass": "routes/static.example" }
                },
                { "action": { "pass": "routes/shop.example" } }
            ]
        },
        "applications": { "shop": {
            "type": "php 8.2",
            "user": "shop",
            "processes": 4,
            "limits": { "slow": 0 },
            "environment": { "A": "b" },
            "options": { "file": "/etc/php/8.2/fpm/php.ini", "admin": { "memory_limit": "64M" } },
            "internal_redirect": "routes/shop.example",
            "root": "/srv/shop"
        } }
    })
}

#[test]
fn servers_of_one_directory_are_sites() {
    let found = sites(&document());
    assert_eq!(found.len(), 2);
    assert_eq!(found[0].name, "shop.example");
    assert_eq!(
        found[0].site,
        Ok(json!({
            "hosts": ["shop.example", "www.shop.example"],
            "root": "/srv/shop",
            "public": ".",
            "front_controller": "index.php",
            "htaccess": false,
            "https": { "certificate": "/a.pem", "key": "/a.key" },
            "user": "shop",
            "environment": { "A": "b" },
            "php": { "version": "8.2", "processes": 4, "ini": { "memory_limit": "64M" } },
            "routes": [{ "match": { "uri": "~/\\.ht" }, "action": { "return": 403 } }]
        }))
    );
    assert_eq!(found[1].name, "static.example");
    assert_eq!(found[1].site.as_ref().unwrap()["https"], false);
}

#[test]
fn what_a_site_cannot_say_is_the_reason_why_there_is_none() {
    let mut document = document();
    document["routes"]["shop.example"][2]["action"]["limit"] = json!({ "rate": "1/s" });
    document["routes"]["hosts"][1]["action"]["max_body_size"] = json!(1);
    let reasons: Vec<_> = sites(&document).into_iter().map(|one| one.site.unwrap_err()).collect();
    assert_eq!(reasons, ["it has \"limit\"", "it has \"max_body_size\""]);
}

#[test]
fn a_server_alone_is_the_site_for_all_hosts() {
    let document = json!({
        "listeners": { "*:80": { "pass": "routes" } },
        "routes": [
            { "match": { "uri": "/secret/*" }, "action": { "return": 404 } },
            { "action": { "share": "/srv$uri", "fallback": { "return": 404 } } }
        ]
    });
    let found = sites(&document);
    assert_eq!(found[0].name, "site");
    let site = found[0].site.as_ref().unwrap();
    assert_eq!((&site["hosts"], &site["front_controller"]), (&json!(["*"]), &json!(false)));
    assert_eq!(site["routes"][0]["action"]["return"], 404);
}
