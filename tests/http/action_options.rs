//! Options of actions that scripts, other servers and internal requests notice.

use harness::fastcgi::{Socket, fpm};
use harness::{Server, Site};
use serde_json::{Value, json};

/// Serves a site with these routes. Its listener passes requests to the route `main`.
fn serve(site: Site, changes: Value) -> Server {
    let address = harness::free_address().to_string();
    site.with(json!({"routes": null, "listeners": {&address: {"pass": "routes/main"}}}))
        .with(changes)
        .serve_at(&address)
}

/// The application of the harness, or one of PHP-FPM in its place.
fn php_fpm(site: &Site, address: &str) -> Value {
    json!({"type": "fastcgi", "server": address, "root": site.root()})
}

#[test]
fn an_action_sets_variables_and_settings_of_scripts() {
    let code = "echo json_encode([$_SERVER['A'] ?? null, getenv('A'), $_SERVER['B'] ?? null,
        $_SERVER['SERVER_NAME'], $_SERVER['SERVER_PORT'] ?? null, ini_get('memory_limit'),
        ini_get('precision'), ini_get('user_agent')], JSON_UNESCAPED_SLASHES);";
    let routes = json!({
        "main": [
            {"match": {"uri": "/plain*"},
                "action": {"rewrite": "/a.php", "pass": "applications/site"}},
            {
                "match": {"uri": "~^/(.*)/a\\.php$"},
                "action": {
                    "environment": {
                        "A": "one", "B": "$1-$arg_b", "SERVER_NAME": "$host.example",
                        "SERVER_PORT": "",
                    },
                    "options": {"user": {"memory_limit": "77M", "precision": "5",
                        "user_agent": "x"}},
                    "rewrite": "/a.php",
                    "pass": "routes/second",
                },
            },
        ],
        "second": [{
            "action": {
                "environment": {"A": "two"},
                "options": {"user": {"precision": "6"}},
                "pass": "applications/site",
            },
        }],
    });
    let fastcgi = fpm(&Socket::Unix(128), 2, "");
    for is_fpm in [false, true] {
        let mut site = Site::script("a.php", code);
        if is_fpm {
            let application = php_fpm(&site, &fastcgi.address);
            site = site
                .with(json!({"applications": null}))
                .with(json!({"applications": {"site": application}}));
        } else {
            let admin = json!({"admin": {"user_agent": "of the application"}});
            site = site.with(json!({"applications": {"site": {"options": admin}}}));
        }
        let server = serve(site, json!({"routes": routes}));
        let seen = |target: &str| -> Value {
            let response = server.get(target);
            serde_json::from_str(&response.text()).unwrap_or_else(|_| panic!("{response:?}"))
        };
        let agent = if is_fpm { "x" } else { "of the application" };
        let set = seen("/dir/a.php?b=q%00r");
        assert_eq!(set[2], Value::Null, "a value with NUL is left out");
        let set = seen("/dir/a.php?b=q");
        assert_eq!(set, json!(["two", "two", "dir-q", "a.example", null, "77M", "6", agent]));
        // The next request of the same worker starts clean; PHP-FPM keeps settings.
        let plain = seen("/plain");
        let kept = [&plain[0], &plain[2], &plain[3]];
        assert_eq!(kept, [&Value::Null, &Value::Null, &json!("a")]);
        assert!(is_fpm || plain[6] == "14", "{plain}");
    }
}

#[test]
fn an_internal_action_answers_internal_requests_alone() {
    let code = "if (str_ends_with($_SERVER['REQUEST_URI'], 'redirect'))
        header('X-Accel-Redirect: /files/a.txt'); else http_response_code(404);";
    let site = Site::script("a.php", code).file("files/a.txt", "protected").file("e.html", "page");
    let root = site.root().display().to_string();
    let share = |uri: &str| {
        json!({
            "match": {"uri": uri},
            "action": {"share": format!("{root}$uri"), "internal": true},
        })
    };
    let page = json!({"action": {"rewrite": "/e.html", "pass": "routes/main"}});
    let changes = json!({
        "routes": {"main": [
            share("/files/*"),
            share("/e.html"),
            {"match": {"uri": "/to-files"},
                "action": {"rewrite": "/files/a.txt", "pass": "routes/main"}},
            {"match": {"uri": "/missing"}, "action": {"return": 410, "error_pages": {"410": page}}},
            {"action": {"rewrite": "/a.php", "pass": "applications/site"}},
        ]},
        "applications": {"site": {"internal_redirect": "routes/main"}},
    });
    let server = serve(site, changes);
    assert_eq!(server.get("/files/a.txt").status, 404);
    assert_eq!(server.get("/e.html").status, 404);
    assert_eq!(
        server.get("/to-files").status,
        404,
        "passing a request on does not make it internal"
    );
    assert_eq!(server.get("/redirect").text(), "protected");
    let missing = server.get("/missing");
    assert_eq!((missing.status, missing.text().as_str()), (410, "page"));
}

#[test]
fn error_pages_replace_responses_of_applications_where_the_action_says_so() {
    let code = "$status = (int) ($_GET['status'] ?? 200); http_response_code($status);
        if ($status == 401) header('WWW-Authenticate: Basic'); header('X-Debug: secret'); \
        setcookie('a', 'b');
        echo str_repeat('own', 100000);";
    let site = Site::script("a.php", code).file("e.html", "page");
    let page = site.root().join("e.html");
    let action = |intercept: Value| {
        json!({
            "pass": "applications/site",
            "error_pages": {"401": page.clone(), "404": page.clone(), "503": page.clone()},
            "intercept_errors": intercept,
        })
    };
    let routes = json!({"main": [
        {"match": {"uri": "/a.php"},
            "action": {"pass": "routes/intercepted", "intercept_errors": true}},
        {"match": {"uri": "/not/*"}, "action": {"rewrite": "/a.php", "pass": "routes/not"}},
    ], "intercepted": [{"action": {
        "pass": "applications/site", "error_pages": action(json!(true))["error_pages"],
    }}], "not": [{"action": action(json!(false))}]});
    let server = serve(site, json!({"routes": routes}));
    for status in [401, 404, 503] {
        let response = server.get(&format!("/a.php?status={status}"));
        assert_eq!((response.status, response.text().as_str()), (status, "page"));
        assert_eq!(response.field("x-debug"), None);
        assert_eq!(response.field("set-cookie"), None);
        let scheme = (status == 401).then_some("Basic");
        assert_eq!(response.field("www-authenticate"), scheme);
    }
    for target in ["/a.php?status=200", "/a.php?status=500", "/not/x?status=404"] {
        assert_eq!(server.get(target).text().len(), 300_000, "{target}");
    }
}

#[test]
fn a_response_is_sent_at_the_rate_of_its_action() {
    let site =
        Site::new().file("slow/a.bin", vec![b'a'; 300_000]).file("b.bin", vec![b'b'; 300_000]);
    let share = format!("{}$uri", site.root().display());
    let slow = json!({"share": share, "rate": {"rate": 200_000, "after": 100_000}});
    let routes = json!({"main": [
        {"match": {"uri": "/slow/*"}, "action": slow}, {"action": {"share": share}},
    ]});
    let server = serve(site, json!({"routes": routes}));
    let times: Vec<_> = std::thread::scope(|scope| {
        let download = |target: &'static str| {
            let server = &server;
            scope.spawn(move || {
                let started_at = std::time::Instant::now();
                assert_eq!(server.get(target).body.len(), 300_000);
                started_at.elapsed().as_secs_f64()
            })
        };
        let all = ["/slow/a.bin", "/slow/a.bin", "/b.bin"].map(download);
        all.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    // 200,000 bytes behind the first ones, at this rate for each response.
    assert!(times[..2].iter().all(|time| (0.6..2.0).contains(time)), "{times:?}");
    assert!(times[2] < 0.6, "{times:?}");
}

#[test]
fn a_fallback_has_the_options_of_its_share_also_under_htaccess_files() {
    for htaccess in [false, true] {
        let code = "header('Cache-Control: max-age=60');
            echo $_SERVER['HTTP_X_USER'] ?? '', strlen(file_get_contents('php://input'));";
        let site = Site::script("tell.php", code)
            .file("check.php", "<?php header('X-User: ' . $_GET['u']);")
            .file("files/.htaccess", "Options -Indexes\n")
            .file("files/scripts.php", format!("<?php {code}"));
        let share = format!("{}/files$uri", site.root().display());
        let log = site.data().join("access.log");
        let tell = json!({"rewrite": "/tell.php", "pass": "applications/site"});
        let with = |mut action: Value, changes: Value| {
            let members = changes.as_object().unwrap().clone();
            action.as_object_mut().unwrap().extend(members);
            action
        };
        let step = |uri: &str, changes: Value| {
            let action = json!({"share": &share, "htaccess": htaccess});
            json!({"match": {"uri": uri}, "action": with(action, changes)})
        };
        let larger = json!({
            "max_body_size": 5,
            "fallback": with(tell.clone(), json!({"max_body_size": 10})),
        });
        let routes = json!({
            "main": [
                step("/users", json!({
                    "auth_request": {
                        "action": {"rewrite": "/check.php?u=$header_x_u", "pass": "applications/site"},
                        "copy_headers": "X-User",
                    },
                    "security_headers": true,
                    "fallback": with(tell.clone(), json!({"cache": {}})),
                })),
                step("/limited", json!({
                    "fallback": with(tell.clone(), json!({"max_body_size": 10})),
                })),
                step("/larger", larger.clone()),
                step("/scripts*", with(larger, json!({"scripts": "applications/site"}))),
                step("/loop", json!({"fallback": {"pass": "routes/main"}})),
            ],
        });
        let changes = json!({"routes": routes, "access_log": {"path": log, "format": "$uri"}});
        let server = serve(site, changes);
        let get = |user: &str| {
            server.send(format!(
                "GET /users HTTP/1.1\r\nHost: a\r\nX-U: {user}\r\nConnection: close\r\n\r\n"
            ))
        };
        // Each user has a response, because the check may have told for whom it is.
        for user in ["alice", "bob"] {
            let response = get(user);
            assert_eq!(response.text(), format!("{user}0"), "{htaccess}");
            assert_eq!(response.field("x-frame-options"), Some("SAMEORIGIN"), "{htaccess}");
        }
        let long = server.post("/limited", "text/plain", "x".repeat(11));
        assert_eq!(long.status, 413, "{htaccess}");
        for uri in ["/limited", "/larger", "/scripts"] {
            let answered = server.post(uri, "text/plain", "x".repeat(10));
            assert_eq!(answered.text(), "10", "{uri}, {htaccess}");
        }
        let by_share = |length| server.post("/scripts.php", "text/plain", "x".repeat(length));
        assert_eq!((by_share(6).status, by_share(5).text().as_str()), (413, "5"), "{htaccess}");
        assert_eq!(server.get("/loop").status, 500, "{htaccess}");
        harness::eventually("each request is in the access log", || {
            (server.data("access.log").lines().count() == 9).then_some(())
        });
    }
}

#[test]
fn a_directive_lowers_the_limit_for_bodies_and_does_not_raise_it() {
    let server = Site::script("tell.php", "echo strlen(file_get_contents('php://input'));")
        .file(".htaccess", "LimitRequestBody 1000\n")
        .file("low/.htaccess", "LimitRequestBody 5\n")
        .file("low/tell.php", "<?php echo strlen(file_get_contents('php://input'));")
        .with(json!({"settings": {"http": {"max_body_size": 10}}}))
        .with(json!({"applications": {"site": {"htaccess": true}}, "routes": null}))
        .with(json!({"routes": [{"action": {"pass": "applications/site"}}]}))
        .serve();
    let chunked = |uri: &str, body: &str| {
        let length = body.len();
        server.send(format!(
            "POST {uri} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: \
             close\r\n\r\n{length:x}\r\n{body}\r\n0\r\n\r\n"
        ))
    };
    assert_eq!(chunked("/tell.php", "0123456789").text(), "10");
    assert_eq!(chunked("/tell.php", "0123456789a").status, 413);
    assert_eq!(chunked("/low/tell.php", "01234").text(), "5");
    assert_eq!(chunked("/low/tell.php", "012345").status, 413);
}
