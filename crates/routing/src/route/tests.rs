use std::sync::Arc;
use std::time::SystemTime;

use howdah_http::fixture::request;
use howdah_php_pool::queue::Queue;
use howdah_sys::log::Log;

use super::*;
use crate::snapshot::action::PageSource;

mod candidates;
mod captures;

/// A configuration to send requests to.
struct Routes {
    snapshot: Snapshot,
    files: Files,
    scratch: RefCell<Scratch>,
    log: RequestLog,
    logged: rustix::fd::OwnedFd,
}

impl Routes {
    fn new(routes: &str) -> Self {
        Self::with_log(routes, true)
    }

    fn with_log(routes: &str, log_route: bool) -> Self {
        let pass = if routes.starts_with('[') { "routes" } else { "routes/main" };
        let document = format!(
            r#"{{"listeners": {{"*:80": {{"pass": "{pass}"}}}}, "routes": {routes},
                 "settings": {{"http": {{"log_route": {log_route}}}}},
                 "upstreams": {{"one": {{"servers": {{"127.0.0.1:1": {{}}}}}}}},
                 "applications": {{"app": {{"type": "php", "root": "/www", "script": "i.php"}},
                                  "direct": {{"type": "php", "root": "/www"}}}}}}"#
        );
        let config = howdah_config::parse(document.as_bytes()).unwrap();
        let snapshot =
            Snapshot::compile(config, Default::default(), None, &Default::default(), |_| {
                Arc::new(Queue::new(1, false, None))
            });
        let (logged, writer) = rustix::pipe::pipe().unwrap();
        Routes {
            snapshot,
            files: Files::new(howdah_files::Limits::default()),
            scratch: RefCell::default(),
            log: RequestLog::new(Arc::new(Log::new(writer))),
            logged,
        }
    }

    fn router(&self) -> Routing<'_> {
        Routing {
            snapshot: &self.snapshot,
            files: &self.files,
            scratch: &self.scratch,
            log: &self.log,
            now: RequestTime { monotonic: Instant::now(), wall: SystemTime::now() },
            started_at: Instant::now(),
        }
    }

    fn route(&self, request: &mut Request) -> (Routed<'_>, Step<'_>) {
        self.router().route("*:80", request)
    }

    /// Returns the decision about a request, with the response in place of a file. A decision after
    /// a check is refused.
    fn decide(&self, request: &mut Request) -> (Decision, Effects<'_>) {
        let (routed, step) = self.route(request);
        let decision = match step.without_checks() {
            Decision::File(file) => {
                Decision::Respond(self.files.file_response(&file, request, SystemTime::now()))
            }
            decision => decision,
        };
        (decision, routed.effects)
    }

    /// Returns status and location.
    fn answer(&self, target: &str) -> (u16, Option<String>) {
        match self.decide(&mut request(target, &[])).0 {
            Decision::Respond(response) => {
                let location = response.fields.get("Location").map(<[u8]>::to_vec);
                (response.status, location.map(|value| String::from_utf8(value).unwrap()))
            }
            Decision::Refuse(error) => (error.status(), None),
            other => panic!("{other:?}"),
        }
    }

    fn status(&self, target: &str) -> u16 {
        self.answer(target).0
    }

    fn log(&self) -> String {
        let mut buffer = [0; 16 << 10];
        let read = rustix::io::read(&self.logged, &mut buffer).unwrap();
        String::from_utf8(buffer[..read].to_vec()).unwrap()
    }
}

/// Creates a directory with files that contain their names.
fn with_files(names: &[&str]) -> (tempfile::TempDir, String) {
    let root = tempfile::tempdir().unwrap();
    for name in names {
        let file = root.path().join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, name).unwrap();
    }
    let path = root.path().to_str().unwrap().to_owned();
    (root, path)
}

#[test]
fn the_first_step_that_holds_decides() {
    let routes = Routes::new(
        r#"[{"match": {"uri": "/zero"}, "action": {"return": 200}},
            {"match": {"uri": "/z*"}, "action": {"return": 201}}]"#,
    );
    assert_eq!((routes.status("/zero"), routes.status("/z"), routes.status("/")), (200, 201, 404));
    let log = routes.log();
    for line in [
        r#"[notice] PID#TID http request line "GET /zero HTTP/1.1""#,
        r#"[notice] PID#TID "routes/0" selected"#,
        r#"[info] PID#TID "routes/0" discarded"#,
        r#"[notice] PID#TID "routes/1" selected"#,
    ] {
        let (level, rest) = line.split_once(" PID#TID").unwrap();
        let is_it = |logged: &str| logged.contains(level) && logged.ends_with(rest);
        assert!(log.lines().any(is_it), "{line} is not in {log}");
    }
}

#[test]
fn a_long_route_decides_like_a_short_one() {
    let mut steps: Vec<_> = (0..100)
        .map(|n| format!(r#"{{"match": {{"uri": "/{n}"}}, "action": {{"return": {}}}}}"#, 200 + n))
        .collect();
    steps.insert(50, r#"{"match": {"uri": "/7*"}, "action": {"return": 404}}"#.to_owned());
    steps.push(r#"{"match": {"host": "!example.org"}, "action": {"return": 999}}"#.to_owned());
    for log_route in [false, true] {
        let routes = Routes::with_log(&format!("[{}]", steps.join(",")), log_route);
        let asked = ["/0", "/7", "/70", "/99", "/100"];
        assert_eq!(asked.map(|target| routes.status(target)), [200, 207, 404, 299, 404]);
        if log_route {
            assert!(routes.log().contains("\"routes/99\" discarded"));
        }
    }
}

#[test]
fn routes_pass_to_routes_but_not_in_a_circle() {
    let routes = Routes::new(
        r#"{"main": [{"match": {"uri": "/loop"}, "action": {"pass": "routes/main"}},
                     {"action": {"pass": "routes/$arg_to"}}],
            "b": [{"action": {"return": 204}}], "empty": []}"#,
    );
    assert_eq!(routes.status("/?to=b"), 204);
    assert_eq!(routes.status("/loop"), 500);
    for target in ["/?to=empty", "/?to=nothing", "/?to=a%2Fb", "/", "/?to=%ff"] {
        assert_eq!(routes.status(target), 404, "{target}");
    }
}

#[test]
fn a_rewritten_path_decides_from_then_on_and_the_target_stays() {
    let routes = Routes::new(
        r#"[{"match": {"uri": "/foo", "arguments": {"arg": "val"}},
             "action": {"rewrite": "/new?some", "pass": "routes"}},
            {"match": {"uri": "/new", "arguments": {"arg": "val"}}, "action": {"return": 200}},
            {"match": {"uri": ""}, "action": {"return": 201}},
            {"match": {"uri": "/nothing"}, "action": {"rewrite": "", "pass": "routes"}},
            {"match": {"uri": "/same"},
                "action": {"rewrite": "/x$uri", "return": 301, "location": "$uri"}},
            {"match": {"uri": "/bad"}, "action": {"rewrite": "$arg_x", "return": 200}},
            {"match": {"uri": "/circle*"}, "action": {"rewrite": "${uri}x", "pass": "routes"}}]"#,
    );
    let mut asked = request("/foo?arg=val", &[]);
    assert!(matches!(routes.decide(&mut asked).0, Decision::Respond(r) if r.status == 200));
    let parts = [&asked.path, &asked.query, &asked.target];
    assert_eq!(parts, ["/new", "some&arg=val", "/foo?arg=val"]);
    assert_eq!(routes.log().matches(r#"URI rewritten to "/new""#).count(), 1);
    assert_eq!(routes.status("/nothing"), 201);
    assert_eq!(routes.answer("/same"), (301, Some("/x/same".to_owned())));
    assert_eq!((routes.status("/bad?x=y"), routes.status("/bad?x=/../a")), (500, 500));
    let log = routes.log();
    let place = r#""rewrite" does not expand to a path: /routes/5/action/rewrite gives "#;
    assert!(log.contains(&format!("{place}\"y\": ")), "{log}");
    assert!(log.contains(&format!("{place}\"/../a\": ")), "{log}");
    // Text of a client is shortened, and cannot look like another line.
    let long = format!("/bad?x=a%0A%22%FF{}", "b".repeat(5000));
    assert_eq!(routes.status(&long), 500);
    let log = routes.log();
    let shown = format!("{place}\"a%0A\\\"\u{fffd}{}…\" (5006 bytes): ", "b".repeat(194));
    assert!(log.contains(&shown), "{log}");
    let quiet = r#"[{"action": {"rewrite": "${uri}x", "pass": "routes"}}]"#;
    assert_eq!(Routes::with_log(quiet, false).status("/circle"), 500);
}

#[test]
fn a_script_is_not_asked_for_a_path_that_is_nothing() {
    let routes = Routes::new(
        r#"[{"match": {"uri": "/none"}, "action": {"rewrite": "", "pass": "applications/app"}},
            {"action": {"rewrite": "/a/$host", "pass": "applications/app"}}]"#,
    );
    assert_eq!(routes.status("/none"), 404);
    let mut asked = request("/b", &[]);
    assert!(matches!(routes.decide(&mut asked).0, Decision::Ask(Origin::Php(..))));
    assert_eq!(asked.path, "/a/example.org");
}

#[test]
fn a_return_may_have_a_location() {
    let routes = Routes::new(
        r##"[{"match": {"uri": "/fixed"}, "action": {"return": 302, "location": "/a b?c=d"}},
            {"match": {"uri": "/var"}, "action": {"return": 301, "location": "/#$arg_a"}},
            {"match": {"uri": "/empty"}, "action": {"return": 301, "location": ""}},
            {"match": {"uri": "/error"}, "action": {"return": 404, "location": "/x"}},
            {"match": {"uri": "/zero"}, "action": {"return": 0}},
            {"action": {"return": 999}}]"##,
    );
    let answer = |target| routes.answer(target);
    assert_eq!(answer("/fixed"), (302, Some("/a%20b?c=d".to_owned())));
    assert_eq!(answer("/var?a=%23foo%3Fbar"), (301, Some("/#%23foo%3Fbar".to_owned())));
    assert_eq!(answer("/var?a=%0d%0aX:y"), (301, Some("/#%0D%0AX:y".to_owned())));
    assert_eq!(answer("/empty"), (301, Some(String::new())));
    assert_eq!((answer("/error"), answer("/")), ((404, None), (999, None)));
    let Decision::Respond(zero) = routes.decide(&mut request("/zero", &[])).0 else {
        panic!("no answer")
    };
    assert!(zero.status == 0 && zero.close);
}

#[test]
fn a_chroot_that_comes_to_nothing_lets_nobody_out() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.txt"), "a").unwrap();
    let root = dir.path().display().to_string();
    let routes =
        Routes::new(&format!(r#"[{{"action": {{"share": "{root}$uri", "chroot": "$arg_dir"}}}}]"#));
    assert_eq!(routes.status("/a.txt"), 403);
    assert_eq!(routes.status(&format!("/a.txt?dir={root}")), 200);
}

#[test]
fn only_the_last_action_changes_the_response() {
    let routes = Routes::new(
        r#"{"main": [{"match": {"uri": "/share"},
                      "action": {"share": "/nonexistent", "response_headers": {"X-Share": "a"},
                                 "fallback": {"return": 200, "response_headers": {"X-Foo": "a"}}}},
                     {"match": {"uri": "/app"},
                      "action": {"pass": "applications/app", "response_headers": {"X-App": "a"}}},
                     {"action": {"pass": "routes/b", "response_headers": {"X-Foo": "a"}}}],
            "b": [{"action": {"return": 200}}]}"#,
    );
    let names = |target| {
        let decided = routes.decide(&mut request(target, &[]));
        decided.1.response_headers.iter().map(|change| change.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names("/share"), ["X-Foo"]);
    assert_eq!(names("/app"), ["X-App"]);
    assert!(names("/").is_empty());
    assert_eq!(routes.log().matches("\"fallback\" taken").count(), 1);
}

#[test]
fn addresses_are_allowed_and_denied() {
    let routes = |access: &str| {
        Routes::new(&format!(
            r#"[{{"match": {{"uri": "/a"}}, "action": {{"return": 204, {access}}}}},
                {{"action": {{{access}, "share": "/nowhere$uri",
                    "fallback": {{"return": 205}}}}}}]"#
        ))
    };
    for (access, allowed) in [
        (r#""allow": "127.0.0.0/8""#, true),
        (r#""allow": ["127.0.0.0/8", "!127.0.0.1"]"#, false),
        (r#""allow": []"#, false),
        (r#""allow": "unix""#, false),
        (r#""deny": "127.0.0.1""#, false),
        (r#""deny": "10.0.0.0/8""#, true),
        (r#""allow": "127.0.0.1", "deny": "127.0.0.0/8""#, false),
    ] {
        let routes = routes(access);
        let expected = if allowed { [204, 205] } else { [403, 403] };
        assert_eq!(["/a", "/b"].map(|target| routes.status(target)), expected, "{access}");
    }
}

#[test]
fn a_password_is_asked_for_before_anything_else_happens() {
    let routes = Routes::new(
        r#"{"main": [
            {"match": {"uri": "/in"}, "action": {"pass": "routes/main"}},
            {"action": {"rewrite": "/in", "basic_auth": {"users_file": "/none"},
                        "pass": "routes/other"}}],
            "other": [{"action": {"return": 301, "location": "$uri"}}]}"#,
    );
    let mut request = request("/x", &[]);
    let (mut routed, step) = routes.route(&mut request);
    let Step::Check(check @ Check::Password(..)) = step else { panic!("{step:?}") };
    assert_eq!(&*request.path, b"/x");
    let step = routes.router().resume(check, &mut routed, &mut request);
    let Step::Handle(Decision::Respond(response)) = &step else { panic!("{step:?}") };
    assert_eq!(response.fields.get("location"), Some(&b"/in"[..]));
}

#[test]
fn passwords_do_not_make_circles_endless() {
    let routes =
        Routes::new(r#"[{"action": {"basic_auth": {"users_file": "/none"}, "pass": "routes"}}]"#);
    let mut request = request("/x", &[]);
    let (mut routed, mut step) = routes.route(&mut request);
    let mut asked = 0;
    while let Step::Check(check @ Check::Password(..)) = step {
        asked += 1;
        step = routes.router().resume(check, &mut routed, &mut request);
    }
    assert!(asked < 256 && matches!(step, Step::Handle(Decision::Refuse(RequestError::Internal))));
}

#[test]
fn the_page_of_the_nearest_action_is_the_first() {
    let routes = Routes::new(
        r#"{"main": [
            {"match": {"uri": "/in"}, "action": {
                "error_pages": {"403": "/a/403.txt", "404": "/a/missing"}, "return": 404}},
            {"match": {"uri": "/denied"}, "action": {
                "error_pages": {"403": "/a/403.txt"}, "deny": "127.0.0.1", "return": 200}},
            {"action": {"error_pages": {"404": "/a/404.html"}, "pass": "routes/other"}}],
            "other": [{"match": {"uri": "/a"}, "action": {
                "error_pages": {"404": "/a/nearest.html"}, "return": 404}}]}"#,
    );
    let page = |target: &str| {
        let (decision, effects) = routes.decide(&mut request(target, &[]));
        let Decision::Refuse(error) = decision else { panic!("{decision:?}") };
        let status = error.status();
        let page = effects.error_pages.iter().find(|page| page.status == status).expect("a page");
        let PageSource::File { path, .. } = &page.source else { panic!("{page:?}") };
        (status, String::from_utf8(path.to_vec()).unwrap())
    };
    assert_eq!(page("/a"), (404, "/nearest.html".to_owned()));
    assert_eq!(page("/b"), (404, "/404.html".to_owned()));
    assert_eq!(page("/denied"), (403, "/403.txt".to_owned()));
    assert_eq!(page("/in"), (404, "/missing".to_owned()));
}

#[test]
fn a_redirect_keeps_the_query_if_it_is_told_to() {
    let routes = Routes::new(
        r#"[{"match": {"uri": "/a"},
            "action": {"return": 301, "location": "/b", "keep_query": true}},
            {"action": {"return": 301, "location": "$uri?x", "keep_query": true}}]"#,
    );
    assert_eq!(routes.answer("/a?q=%20"), (301, Some("/b?q=%20".to_owned())));
    assert_eq!(routes.answer("/a"), (301, Some("/b".to_owned())));
    assert_eq!(routes.answer("/c?q"), (301, Some("/c?x&q".to_owned())));
}

#[test]
fn a_text_is_sent_in_place_of_no_body_and_of_a_page() {
    let routes = Routes::new(
        r#"[{"match": {"uri": "/busy"},
            "action": {"return": 503, "location": "/x", "body": "later"}},
            {"action": {"return": 200, "body": "<$arg_a>\n"}}]"#,
    );
    for (target, expected) in [
        ("/busy", (503, "later")),
        ("/?a=b%20c", (200, "<b c>\n")),
        ("/?a=%0d%0aX:%20y", (200, "<\r\nX: y>\n")),
        ("/", (200, "<>\n")),
    ] {
        let (decision, _) = routes.decide(&mut request(target, &[]));
        let Decision::Respond(response) = decision else { panic!("{target}") };
        assert_eq!(response.fields.get("content-type"), Some(&b"text/plain; charset=utf-8"[..]));
        assert_eq!(response.fields.get("location"), None, "errors have none");
        let Body::Bytes(body) = response.body else { panic!("{target}") };
        assert_eq!((response.status, &*body), (expected.0, expected.1.as_bytes()), "{target}");
    }
}

#[test]
fn a_browser_may_ask_for_its_rights_without_a_password() {
    let routes = Routes::new(
        r#"[{"action": {"cors": {"origins": "https://a.example"}, "return": 201,
                        "basic_auth": {"users_file": "/none"}}}]"#,
    );
    let fields = [("Origin", "https://a.example"), ("Access-Control-Request-Method", "PUT")];
    let mut asks = request("/", &fields);
    let (_, step) = routes.route(&mut asks);
    assert!(matches!(step, Step::Check(Check::Password(..))));
    asks.method = Bytes::from_static(b"OPTIONS");
    let (decision, effects) = routes.decide(&mut asks);
    let Decision::Respond(response) = &decision else { panic!("{decision:?}") };
    assert!(response.status == 204 && effects.cors.is_some());
}

#[test]
fn no_part_of_a_request_makes_an_address() {
    let routes = Routes::new(
        r#"[{"match": {"uri": "/fixed"}, "action": {"proxy": "http://unix:/run/x"}},
            {"action": {"pass": "$arg_to"}}]"#,
    );
    let upstream = |target: &str| match routes.decide(&mut request(target, &[])).0 {
        Decision::Ask(Origin::Proxy(upstream)) => Some(upstream.to_string()),
        _ => None,
    };
    assert_eq!(upstream("/fixed?to=upstreams/two").as_deref(), Some("http://unix:/run/x"));
    assert_eq!(upstream("/?to=upstreams%2Fone").as_deref(), Some("upstreams/one"));
    for to in ["upstreams%2Ftwo", "http:%2F%2F10.0.0.1:80", "unix:%2Frun%2Fx", "10.0.0.1:80"] {
        assert_eq!(routes.status(&format!("/?to={to}")), 404, "{to}");
    }
    assert_eq!(routes.status("/?to=upstreams%2F127.0.0.1:1"), 404);
}
