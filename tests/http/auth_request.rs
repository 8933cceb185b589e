//! `auth_request`: another action decides whether a request may continue.

use harness::{Server, Site};
use serde_json::{Value, json};

/// Admits a request whose cookie `s` is its name, and names its user; answers with the status in
/// the cookie otherwise.
const CHECK: &str = "header('X-Seen: ' . implode(' ', [$_SERVER['REQUEST_METHOD'], \
                     $_SERVER['REQUEST_URI'],
        $_SERVER['HTTP_X_ORIGINAL_URI'], $_SERVER['HTTP_X_ORIGINAL_METHOD'],
        strlen(file_get_contents('php://input'))]));
    $session = $_COOKIE['s'] ?? '401';
    if (ctype_digit($session)) {
        http_response_code((int) $session);
        if ($session == 401) \
        { header('WWW-Authenticate: Bearer'); header('WWW-Authenticate: Basic', false); }
        if ($session == 302) header('Location: /login');
    } else {
        header('X-User: ' . $session);
        setcookie('renewed', '1');
    }
    echo str_repeat('x', 100000);";

const TELL: &str =
    "echo json_encode([$_SERVER['HTTP_X_USER'] ?? null, $_SERVER['HTTP_X_SEEN'] ?? null,
    $_SERVER['REQUEST_METHOD'], file_get_contents('php://input')], JSON_UNESCAPED_SLASHES);";

fn serve() -> Server {
    let address = harness::free_address().to_string();
    let site = Site::script("check.php", CHECK).file("tell.php", format!("<?php {TELL}"));
    let check = json!({
        "action": {"rewrite": "/check.php", "pass": "routes/check"},
        "copy_headers": ["X-User", "X-Seen"],
        "response_headers": ["Set-Cookie"],
    });
    let routes = json!({
        "main": [
            {"match": {"uri": "/open"},
                "action": {"rewrite": "/tell.php", "pass": "applications/site"}},
            {"action": {"auth_request": check, "rewrite": "/tell.php",
                "pass": "applications/site"}},
        ],
        "check": [{"action": {"pass": "applications/site", "internal": true}}],
    });
    site.with(json!({"routes": null, "listeners": {&address: {"pass": "routes/main"}}}))
        .with(json!({"routes": routes}))
        .serve_at(&address)
}

fn ask(server: &Server, fields: &str, body: &str) -> harness::client::Response {
    let length = body.len();
    server.send(format!(
        "POST /a?b=c HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: \
         {length}\r\n{fields}\r\n{body}"
    ))
}

#[test]
fn another_action_admits_and_refuses_requests() {
    let server = serve();
    let forged = "X-User: root\r\nX-Original-URI: /x\r\nX-Original-Method: PUT\r\n";
    let admitted = ask(&server, &format!("Cookie: s=me\r\n{forged}"), "body");
    assert_eq!((admitted.status, admitted.field("set-cookie")), (200, Some("renewed=1")));
    let told: Value = serde_json::from_str(&admitted.text()).unwrap();
    assert_eq!(told, json!(["me", "GET /a?b=c /a?b=c POST 0", "POST", "body"]));

    let refused = ask(&server, forged, "body");
    assert_eq!(refused.status, 401);
    let challenges: Vec<_> = refused
        .fields
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case("www-authenticate"))
        .map(|(_, value)| value.as_str())
        .collect();
    assert_eq!(challenges, ["Bearer", "Basic"]);
    assert!(!refused.text().contains("xxxx"), "the page is the server's own");
    for (status, expected) in [(403, 403), (404, 500), (302, 500), (500, 500), (204, 200)] {
        let response = ask(&server, &format!("Cookie: s={status}\r\n{forged}"), "");
        assert_eq!(response.status, expected, "{status}");
        if expected == 200 {
            let told: Value = serde_json::from_str(&response.text()).unwrap();
            assert_eq!(told[0], Value::Null, "the client cannot name a user");
        }
    }
    assert!(server.log().contains("auth_request has the status 302"));
    assert_eq!(server.get("/open").status, 200);
}

#[test]
fn a_refusal_has_the_error_page_of_the_action() {
    let page = json!({"action": {"return": 303, "location": "/login"}, "keep_status": false});
    let address = harness::free_address().to_string();
    let routes = json!([{"action": {
        "auth_request": {"action": {"return": 401}},
        "error_pages": {"401": page},
        "return": 200,
    }}]);
    let site = Site::new().with(json!({"routes": null})).with(json!({"routes": routes}));
    let server = site.serve_at(&address);
    let response = server.get("/");
    assert_eq!((response.status, response.field("location")), (303, Some("/login")));
}

#[test]
fn a_check_that_cannot_be_made_admits_nobody() {
    for check in [
        json!({"proxy": "http://127.0.0.1:1"}),
        json!({"pass": "routes/loop"}),
        json!({"pass": "routes/checked"}),
        json!({"share": "/nonexistent$uri"}),
    ] {
        let address = harness::free_address().to_string();
        let checked = json!({"auth_request": {"action": check}, "return": 200});
        let routes = json!({
            "main": [{"action": checked}],
            "checked": [{"action": checked}],
            "loop": [{"action": {"pass": "routes/loop"}}],
        });
        let server = Site::new()
            .with(json!({"routes": null, "listeners": {&address: {"pass": "routes/main"}}}))
            .with(json!({"routes": routes}))
            .serve_at(&address);
        assert_eq!(server.get("/").status, 500);
    }
}

#[test]
fn a_site_with_htaccess_files_admits_and_refuses_as_its_directives_say() {
    let address = harness::free_address().to_string();
    let rules = "RewriteEngine on\n\
                 RewriteCond %{HTTP_COOKIE} s=stranger\nRewriteRule ^ - [F]\n\
                 RewriteCond %{HTTP:X-Original-URI} ^/closed\nRewriteRule ^ - [F]\n\
                 RewriteRule ^ask$ check.php [L]\n";
    let site = Site::script("check.php", CHECK)
        .file("tell.php", format!("<?php {TELL}"))
        .file("checks/.htaccess", rules)
        .file("checks/check.php", format!("<?php {CHECK}"))
        .file("pages/.htaccess", "RewriteEngine on\nRewriteRule ^sorry$ sorry.html [L]\n")
        .file("pages/sorry.html", "sorry");
    let root = site.root();
    let share = |directory: &str, more: Value| {
        let mut share = json!({
            "share": format!("{}/{directory}$uri", root.display()), "scripts": "applications/site",
            "htaccess": true,
        });
        share.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        share
    };
    let check =
        json!({"action": share("checks", json!({"rewrite": "/ask"})), "copy_headers": "X-User"});
    let missing = json!({
        "action": share("checks", json!({"rewrite": "/nowhere", "fallback": {"return": 204}})),
    });
    let page = json!({"403": {"action": share("pages", json!({"rewrite": "/sorry"}))}});
    let routes = json!({
        "main": [
            {
                "match": {"uri": "/fallback"},
                "action": {"auth_request": missing, "rewrite": "/tell.php",
                    "pass": "applications/site"},
            },
            {
                "action": {
                    "auth_request": check, "error_pages": page,
                    "rewrite": "/tell.php", "pass": "applications/site",
                },
            },
        ],
    });
    let server = site
        .with(json!({"routes": null, "listeners": {&address: {"pass": "routes/main"}}}))
        .with(json!({"routes": routes}))
        .serve_at(&address);
    let asked = |target: &str, cookie: &str| {
        server.send(format!(
            "GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-User: root\r\nCookie: \
             s={cookie}\r\n\r\n"
        ))
    };
    let admitted = asked("/a", "me");
    assert_eq!(admitted.status, 200, "{admitted:?}\n{}", server.log());
    assert!(admitted.text().starts_with("[\"me\","), "{admitted:?}");
    for (target, cookie) in [("/a", "stranger"), ("/closed/b", "me")] {
        let refused = asked(target, cookie);
        assert_eq!((refused.status, refused.text().as_str()), (403, "sorry"), "{target}");
    }
    assert_eq!(asked("/a", "401").status, 401);
    assert_eq!(asked("/fallback", "me").status, 200);
}
