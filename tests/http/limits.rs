//! `limit`: how often and how many at once a client is served.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use harness::client::Client;
use harness::dns::Dns;
use harness::time::Stopwatch;
use harness::{Server, Site, eventually};
use serde_json::{Value, json};

/// Serves a script under a limit on the listener.
fn limited(script: &str, limit: Value) -> Server {
    site(script, limit).serve()
}

fn site(script: &str, limit: Value) -> Site {
    let routes = json!([
        {"match": {"uri": "/free.php"}, "action": {"pass": "applications/site"}},
        {"action": {"pass": "applications/site", "limit": limit}},
    ]);
    Site::script("a.php", script)
        .file("free.php", "<?php touch(getenv('DATA') . '/go');")
        .workers(4)
        .with(json!({"routes": routes}))
        .with(json!({"settings": {"listen_threads": 4}}))
}

const WAIT: &str = "
    file_put_contents(getenv('DATA') . '/started', '1');
    while (!file_exists(getenv('DATA') . '/go')) {
        usleep(1000);
        clearstatcache();
    }
    echo 'done';";

/// The connections are spread over four threads, which share the rate.
#[test]
fn a_burst_is_exact_over_several_router_threads() {
    let server = limited("echo 'ok';", json!({"rate": "1/h", "burst": 49}));
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let clients = (0..16).map(|_| {
            scope.spawn(|| {
                let mut client = server.connect();
                (0..20).map(|_| client.get("/a.php").status).collect::<Vec<_>>()
            })
        });
        let clients: Vec<_> = clients.collect();
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });
    let count = |status| statuses.iter().filter(|found| **found == status).count();
    assert_eq!((count(200), count(429)), (50, 270));
    assert_eq!(server.get("/free.php").status, 200);
    let mut other = Client::connect_from(Ipv4Addr::new(127, 0, 0, 9), server.address);
    assert_eq!(other.get("/a.php").status, 200, "another client has its own rate");
}

#[test]
fn a_refusal_says_when_to_come_again_and_keeps_the_connection() {
    let server = limited("echo 'ok';", json!({"rate": "1/h", "zone": "shop", "announce": true}));
    let mut client = server.connect();
    let first = client.get("/a.php");
    assert_eq!(first.field("RateLimit-Policy"), Some("\"shop\";q=1;w=3600"), "{first:?}");
    assert!(first.field("RateLimit").is_some_and(|value| value.starts_with("\"shop\";r=0;t=")));
    let second = client.get("/a.php");
    assert_eq!(
        (second.status, second.field("RateLimit-Policy")),
        (429, Some("\"shop\";q=1;w=3600"))
    );
    let retry: u32 = second.field("Retry-After").unwrap().parse().unwrap();
    assert!((3500..=3600).contains(&retry), "{retry}");
    assert_eq!(client.get("/free.php").status, 200);
    server.wait_for_log("limit shop refuses 127.0.0.1 (429)");
}

#[test]
fn requests_of_a_delayed_burst_are_all_served_and_the_next_is_refused() {
    let server = limited("echo 'ok';", json!({"rate": "12/m", "burst": 2, "delay": true}));
    // For each five seconds that the requests take, one more is served: the last of the burst waits
    // for ten, and a busy machine may send some of them late.
    let mut clients: Vec<_> = (0..12).map(|_| server.connect()).collect();
    let begun = Instant::now();
    for client in &mut clients {
        client.send("GET /a.php HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    let statuses: Vec<_> = clients.iter_mut().map(|client| client.response().status).collect();
    let served = statuses.iter().filter(|status| **status == 200).count();
    let refused = statuses.iter().filter(|status| **status == 429).count();
    assert_eq!(served + refused, 12, "{statuses:?}");
    let most = 3 + begun.elapsed().as_secs() as usize / 5;
    assert!((3..=most).contains(&served), "{statuses:?}");
}

#[test]
fn requests_at_once_are_limited_until_their_responses_are_sent() {
    let server = limited(WAIT, json!({"concurrency": 1}));
    let mut first = server.connect();
    first.send("GET /a.php HTTP/1.1\r\nHost: a\r\n\r\n");
    server.wait_for_data("started");
    let refused = server.get("/a.php");
    assert_eq!((refused.status, refused.field("Retry-After")), (429, Some("1")));
    assert_eq!(server.get("/free.php").status, 200);
    assert_eq!(first.response().text(), "done");
    eventually("the place is free", || (server.get("/a.php").status == 200).then_some(()));
}

#[test]
fn a_client_that_leaves_frees_its_place() {
    let server = limited(WAIT, json!({"concurrency": 1}));
    let mut first = server.connect();
    first.send("GET /a.php HTTP/1.1\r\nHost: a\r\n\r\n");
    server.wait_for_data("started");
    assert_eq!(server.get("/a.php").status, 429);
    drop(first);
    assert_eq!(server.get("/free.php").status, 200, "the script ends");
    eventually("the place is free", || (server.get("/a.php").status == 200).then_some(()));
}

#[test]
fn a_limit_of_the_listener_counts_before_routes_and_the_password_after_the_limit() {
    let address = harness::free_address().to_string();
    let server = Site::script("a.php", "echo 'ok';")
        .with(json!({
            "routes": [{"action": {
                "pass": "applications/site", "basic_auth": {"users_file": "/nonexistent/users"},
            }}],
        }))
        .with(json!({"listeners": {&address: {
            "limit": {"rate": "1/h", "burst": 1, "except": "127.0.0.9"},
        }}}))
        .serve_at(&address);
    let statuses = [0; 3].map(|_| server.get("/a.php").status);
    assert_eq!(statuses, [401, 401, 429]);
    let mut other = Client::connect_from(Ipv4Addr::new(127, 0, 0, 9), server.address);
    assert!((0..3).all(|_| other.get("/a.php").status == 401));
}

/// Serves a site with a front controller: a `rewrite` leads all pages to one path, which has the
/// limit.
fn behind_rewrite(limit: &Value) -> Server {
    let routes = json!({
        "main": [{"action": {"rewrite": "/app.php", "pass": "routes/app"}}],
        "app": [{"action": {"return": 204, "limit": limit}}],
    });
    let address = harness::free_address().to_string();
    Site::new()
        .with(json!({"routes": routes, "listeners": {&address: {"pass": "routes/main"}}}))
        .serve_at(&address)
}

/// Scenario: `rewrite` leads `/user/login` to the script of all pages, in front of the step with
/// the limit.
#[test]
fn log_ins_are_counted_behind_a_rewrite_in_every_spelling_of_their_path() {
    let server = behind_rewrite(&json!({"preset": "login", "rate": "1/h", "burst": 3}));
    let post = |target: &str| {
        let head = format!("POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
        server.connect().send(head).response().status
    };
    for target in ["/cart", "/cart", "/app.php", "/app.php", "/login/other"] {
        assert_eq!(post(target), 204, "{target} is no log-in");
    }
    for target in ["/user/login", "/user/%6cogin", "//user/./login?x=/cart", "/cart/../user/login"]
    {
        assert_eq!(post(target), 204, "{target} is in the burst");
    }
    for target in
        ["/user/login", "/x/../login", "/user%2Flogin", "http://a/login/", "/wp-login.php/x"]
    {
        assert_eq!(post(target), 429, "{target}");
    }
    assert_eq!(server.get("/user/login").status, 204, "only POST is counted");
    assert_eq!(post("/cart"), 204);
}

/// A comparison with the path of the client adds requests to a rule and takes none away: it could
/// be chosen to evade the rule.
#[test]
fn the_path_of_the_client_only_adds_requests_to_a_rule() {
    for (rule, target, is_counted) in [
        (json!({"match": {"uri": "/a/*"}}), "/a/b", true),
        (json!({"match": {"uri": "/a/*"}}), "/b", false),
        (json!({"match": {"uri": "/app.php"}}), "/b", true),
        (json!({"match": {"uri": "!/a"}}), "/a", true),
        (json!({"match": {"uri": "!/app.php"}}), "/a", false),
        (json!({"match": {"uri": ["/app.php", "!/a"]}}), "/a", true),
        (json!({"match": {"uri": ["/a/*", "!/a/b"]}}), "/a/b", false),
        (json!({"match": {"uri": ["/a/*", "!/a/b"]}}), "/a/c", true),
        (json!({"match": {"uri": ["/a/*", "!/app.php"]}}), "/a/c", false),
        (json!({"match": {"uri": "/a/*", "method": "POST"}}), "/a/c", false),
        (json!({"except": {"uri": "/a"}}), "/a", true),
        (json!({"except": {"uri": "/app.php"}}), "/a", false),
        (json!({"match": {"uri": "/a/*"}, "except": {"uri": "/a/b"}}), "/a/b", false),
        (json!({"match": {"uri": "/a/*"}, "except": {"uri": "/a/b"}}), "/a/c", true),
        (json!({"match": {"uri": "/a/*"}, "except": {"uri": "/app.php"}}), "/a/c", false),
        (json!({"match": {"uri": "/a/*"}, "except": "127.0.0.1"}), "/a/c", false),
    ] {
        let mut limit = rule.clone();
        limit["rate"] = json!("1/h");
        let server = behind_rewrite(&limit);
        let statuses = [0; 2].map(|_| server.get(target).status);
        assert_eq!(statuses, [204, if is_counted { 429 } else { 204 }], "{rule} {target}");
    }
}

/// Over HTTP/1 the connection is closed, over HTTP/2 the stream is reset.
#[test]
fn clients_that_go_on_get_no_answer_at_last() {
    let penalty = json!({"after": 2, "time": 600, "close_after": 4});
    let address = harness::free_address().to_string();
    let site = site("echo 'ok';", json!({"zone": "a", "rate": "1/h", "penalty": penalty}));
    let server = site.with(json!({"listeners": {&address: {"http2": true}}})).serve_at(&address);
    let mut client = server.connect();
    let statuses = [0; 4].map(|_| client.get("/a.php").status);
    assert_eq!(statuses, [200, 429, 429, 429]);
    client.send("GET /free.php HTTP/1.1\r\nHost: a\r\n\r\nGET /a.php HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response().status, 200, "an earlier response is sent");
    assert!(client.is_closed());
    server.wait_for_log("limit a refuses 127.0.0.1 (429), for 600 seconds from now on");
    let output = std::process::Command::new("curl")
        .args(["--http2-prior-knowledge", "-s", "-o", "/dev/null", "-w", "%{http_code}"])
        .arg(format!("http://{address}/a.php"))
        .output()
        .expect("curl runs");
    assert_eq!((output.stdout.as_slice(), output.status.success()), (&b"000"[..], false));
    assert_eq!(server.get("/free.php").status, 200, "others rules are not concerned");
}

#[test]
fn the_status_has_the_counters_and_the_clients_that_are_refused_most() {
    let site = site("echo 'ok';", json!({"zone": "shop", "rate": "1/h"}));
    let control = format!("unix:{}", site.control_socket().display());
    let server = site.argument("--control").argument(&control).serve();
    for (source, requests) in [(8, 3), (9, 6)] {
        let mut client = Client::connect_from(Ipv4Addr::new(127, 0, 0, source), server.address);
        (0..requests).for_each(|_| drop(client.get("/a.php")));
    }
    let status = server.control("GET", "/status/limits/shop", "").succeeded();
    let number = |name: &str| status[name].as_u64();
    assert_eq!(
        (number("requests"), number("refused"), number("keys")),
        (Some(9), Some(7), Some(2))
    );
    assert_eq!(status["top"][0]["key"], "127.0.0.9");
    assert_eq!(
        (&status["top"][0]["refused"], &status["top"][1]["refused"]),
        (&json!(5), &json!(2))
    );
    let output = harness::programs::howdah();
    let output = std::process::Command::new(output)
        .args(["limits", "top", "--control", &control])
        .output()
        .expect("howdah runs");
    let text = String::from_utf8(output.stdout).expect("text");
    let places = ["shop", "127.0.0.9", "127.0.0.8"].map(|key| text.find(key).expect("listed"));
    assert!(output.status.success() && places.is_sorted(), "{text}");
}

#[test]
fn connections_of_a_client_beyond_its_limit_are_closed() {
    let address = harness::free_address().to_string();
    let server = Site::script("a.php", "echo 'ok';")
        .with(json!({"listeners": {&address: {"limit": {"connections": 2}}}}))
        .serve_at(&address);
    let mut open: Vec<_> = (0..2).map(|_| server.connect()).collect();
    open.iter_mut().for_each(|client| assert_eq!(client.get("/a.php").status, 200));
    let mut third = server.connect();
    let _ = third.try_send("GET /a.php HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(third.is_closed());
    let mut other = Client::connect_from(Ipv4Addr::new(127, 0, 0, 9), server.address);
    assert_eq!(other.get("/a.php").status, 200);
    drop(open);
    eventually("there is room again", || {
        let mut client = server.connect();
        client.try_send("GET /a.php HTTP/1.1\r\nHost: a\r\n\r\n").ok()?;
        client.next_response().filter(|response| response.status == 200)
    });
}

/// The content does not depend on the bandwidth: files, scripts, ranges, and HEAD.
#[test]
fn a_bandwidth_changes_nothing_but_the_speed() {
    let content: Vec<u8> = (0..300_000u32).map(|n| (n % 251) as u8).collect();
    let limit = json!({"bandwidth": {"rate": 400_000, "after": 1000}});
    let site = Site::script("a.php", "echo str_repeat('x', 100000);").file("file.bin", &content);
    let share = format!("{}$uri", site.root().display());
    let action = json!({"share": share, "scripts": "applications/site", "limit": limit});
    let server = site.with(json!({"routes": [{"action": action}]})).serve();
    let mut client = server.connect();
    let file = client.get("/file.bin");
    assert!(file.body == content && !file.cut);
    assert_eq!(client.get("/a.php").body, vec![b'x'; 100_000]);
    client.send("GET /file.bin HTTP/1.1\r\nHost: a\r\nRange: bytes=100000-200000\r\n\r\n");
    let range = client.response();
    assert_eq!((range.status, &range.body[..]), (206, &content[100_000..=200_000]));
    client.send("HEAD /file.bin HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.head_response().field("Content-Length"), Some("300000"));
}

/// Each of the clients that leave waits for a quarter of a second of the bandwidth that all share.
#[test]
fn clients_that_leave_cost_the_others_no_bandwidth() {
    const LEAVING: usize = 80;
    let limit = json!({"bandwidth": {"rate": 4000}});
    let site = Site::new().file("large.bin", vec![b'x'; 300_000]).file("small.txt", b"small");
    let share = format!("{}$uri", site.root().display());
    let action = json!({"share": share, "limit": limit});
    let control = format!("unix:{}", site.control_socket().display());
    let site = site.argument("--control").argument(&control);
    let server = site.with(json!({"routes": [{"action": action}]})).serve();
    let status =
        |part: &str| server.control("GET", &format!("/status/{part}"), "").body.as_u64().unwrap();
    let leaving: Vec<_> = (0..LEAVING)
        .map(|_| {
            let mut client = server.connect();
            client.send("GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n");
            client
        })
        .collect();
    eventually("all have asked", || (status("requests/total") >= LEAVING as u64).then_some(()));
    drop(leaving);
    eventually("all have left", || (status("connections/active") == 0).then_some(()));
    let asked_at = Stopwatch::start();
    assert_eq!(server.connect().get("/small.txt").body, b"small");
    let waited = asked_at.elapsed();
    assert!(waited < Duration::from_secs(10), "{waited:?}");
}

/// A crawler names itself; the name of its address in DNS must agree, and lead back to the address.
#[test]
fn a_crawler_is_excepted_if_dns_confirms_its_name_and_not_if_it_only_says_so() {
    let [real, forged, stranger] = [7, 8, 9].map(|host| Ipv4Addr::new(127, 9, 9, host));
    let dns = Dns::start(None);
    dns.set_name(real, "crawl-7.googlebot.com");
    dns.set("crawl-7.googlebot.com", &[real.into()]);
    // The owner of an address chooses its name in DNS.
    dns.set_name(forged, "crawl-7.googlebot.com");
    // Any customer can have a machine of that company.
    dns.set_name(stranger, "9.bc.googleusercontent.com");
    dns.set("9.bc.googleusercontent.com", &[stranger.into()]);
    let limit = json!({"preset": "crawlers", "rate": "1/h", "burst": 0, "zone": "crawlers"});
    let server = Site::new()
        .with(json!({
            "settings": {"resolver": dns.address.to_string()},
            "routes": [{"action": {"return": 200, "limit": limit}}],
        }))
        .serve();
    let ask = |from: Ipv4Addr, agent: &str| {
        let mut client = Client::connect_from(from, server.address);
        client.send(format!(
            "GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: {agent}\r\nConnection: close\r\n\r\n"
        ));
        client.response().status
    };
    let statuses = |from, agent: &str| [(); 3].map(|()| ask(from, agent));
    assert_eq!(statuses(real, "Googlebot/2.1"), [200; 3]);
    assert_eq!(statuses(forged, "Googlebot/2.1"), [200, 429, 429]);
    assert_eq!(statuses(stranger, "Googlebot/2.1"), [429; 3], "one number for one name");
    assert_eq!(statuses(stranger, "Mozilla/5.0"), [200; 3]);
}
