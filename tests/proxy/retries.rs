//! Requests that another server gets, clients that stay with their server, and changes by an action
//! to the requests that it passes on.

use std::time::Duration;

use harness::raw::Raw;
use harness::time::Stopwatch;
use harness::{Server, Site, eventually};
use serde_json::{Value, json};

/// A server that answers with this status and text.
fn says(status: &'static str, text: &'static str) -> Raw {
    let length = text.len();
    Raw::answering(format!(
        "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{text}"
    ))
}

fn address(server: &Raw) -> String {
    server.url().trim_start_matches("http://").to_owned()
}

/// Passes all requests to an upstream of these servers.
fn before(servers: &[&Raw], upstream: Value, action: Value) -> Server {
    let site = Site::new().controlled().serve();
    let servers: serde_json::Map<_, _> =
        servers.iter().map(|server| (address(server), json!({}))).collect();
    let mut document = json!({
        "listeners": {site.address.to_string(): {"pass": "routes"}},
        "routes": [{"action": {"pass": "upstreams/u"}}],
        "upstreams": {"u": {"servers": servers, "tries": 3}},
    });
    harness::merge(&mut document, json!({"upstreams": {"u": upstream}}));
    for (key, value) in action.as_object().unwrap() {
        document["routes"][0]["action"][key] = value.clone();
    }
    site.put("/config", &document);
    site
}

#[test]
fn a_status_leads_to_the_next_server_where_the_configuration_says_so() {
    let (busy, well) = (says("503 Busy", "busy"), says("200 OK", "well"));
    let server = before(&[&busy, &well], json!({"retry": {"on": [503]}}), json!({}));
    for _ in 0..6 {
        assert_eq!(server.get("/").text(), "well");
    }
    let posts: Vec<_> = (0..4).map(|_| server.post("/", "text/plain", "x").status).collect();
    assert!(posts.contains(&503), "a body is not sent twice: {posts:?}");
    server.wait_for_log("answered with 503, so another server is asked (retry/on)");

    let action = json!({"retry": {"on": "5xx", "methods": ["POST"]}});
    let server = before(&[&busy, &well], json!({}), action);
    for _ in 0..4 {
        assert_eq!(server.post("/", "text/plain", "x").text(), "well");
    }
}

#[test]
fn the_last_server_is_shown_and_nobody_gets_the_rest_of_a_dropped_answer() {
    // Its body never ends.
    let endless = Raw::new(|connection| {
        connection.request();
        connection.send("HTTP/1.1 500 No\r\nContent-Length: 1000000\r\n\r\n<secret of another>");
        connection.wait_for_end();
    });
    let well = says("200 OK", "well");
    let upstream = json!({"retry": {"on": "5xx"}, "keepalive": 4});
    let server = before(&[&endless, &well], upstream, json!({}));
    let mut client = server.connect();
    for _ in 0..6 {
        assert_eq!(client.get("/").text(), "well");
    }
    let all = [says("500 A", "a"), says("502 B", "b"), says("503 C", "c")];
    let all: Vec<_> = all.iter().collect();
    let server = before(&all, json!({"retry": {"on": "5xx"}}), json!({}));
    let shown = server.get("/");
    assert!([500, 502, 503].contains(&shown.status) && shown.text().len() == 1, "{shown:?}");
    assert_eq!(all.iter().map(|server| server.asked().len()).sum::<usize>(), 3);
}

#[test]
fn a_client_cannot_make_failing_servers_work_much_more() {
    let all = [says("503 A", "a"), says("503 B", "b"), says("503 C", "c")];
    let server =
        before(&all.iter().collect::<Vec<_>>(), json!({"retry": {"on": "5xx"}}), json!({}));
    let mut client = server.connect();
    for _ in 0..400 {
        assert_eq!(client.get("/").status, 503);
    }
    let asked: usize = all.iter().map(|server| server.asked().len()).sum();
    // Each request is sent once, a hundred are repeated at first, and a fifth of all.
    assert!(asked <= 400 + 100 + 80, "{asked}");
}

#[test]
fn a_server_that_is_emptied_keeps_its_sessions_and_gets_no_others() {
    let (one, two) = (says("200 OK", "one"), says("200 OK", "two"));
    let sticky = json!({"sticky": {"cookie": "at", "max_age": 60, "same_site": "strict"}});
    let server = before(&[&one, &two], sticky, json!({}));
    let ask = |cookie: &str| {
        server.send(format!(
            "GET / HTTP/1.1\r\nHost: a\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n"
        ))
    };
    let cookie = eventually("a session at the first", || {
        let response = server.get("/");
        let cookie = response.field("set-cookie").map(str::to_owned);
        (response.text() == "one").then_some(cookie?)
    });
    assert!(cookie.ends_with("; Path=/; Max-Age=60; HttpOnly; SameSite=Strict"), "{cookie}");
    let session = cookie.split(';').next().unwrap();
    server.put(&format!("/config/upstreams/u/servers/{}/drain", address(&one)), &json!(true));
    for _ in 0..6 {
        assert_eq!(ask(session).text(), "one");
        assert_eq!(server.get("/").text(), "two");
        // A forged cookie names no server.
        assert_eq!(ask("at=0000000000000000").text(), "two");
        assert_eq!(ask(&format!("at={}", "f".repeat(3000))).text(), "two");
    }
    let state = format!("/status/upstreams/u/servers/{}/state", address(&one));
    assert_eq!(server.control("GET", &state, "").succeeded(), "draining");
}

#[test]
fn an_action_says_what_servers_are_told() {
    let backend = says("200 OK", "ok");
    let action = json!({
        "request_headers": {"Host": "inside.example", "X-Path": "$uri", "X-Secret": null},
        "forwarded": ["x-forwarded", "forwarded"],
    });
    let upstream =
        json!({"host": "upstream.example", "headers": {"X-Path": "none", "X-Kept": "1"}});
    let server = before(&[&backend], upstream, action.clone());
    let send = "GET /a%0d%0aX-Evil:%201 HTTP/1.1\r\nHost: shop.example\r\nX-Secret: s\r\n\
                X-Forwarded-For: 6.6.6.6\r\nConnection: close\r\n\r\n";
    assert_eq!(server.send(send).status, 200);
    let told = backend.asked().join("").to_ascii_lowercase();
    for line in [
        "\r\nhost: inside.example\r\n",
        "\r\nx-path: /a%0d%0ax-evil: 1\r\n",
        "\r\nx-kept: 1\r\n",
        "\r\nx-forwarded-for: 127.0.0.1\r\n",
        "\r\nx-forwarded-host: shop.example\r\n",
        "\r\nforwarded: for=127.0.0.1;proto=http;host=\"shop.example\"\r\n",
    ] {
        assert!(told.contains(line), "{line:?} in {told}");
    }
    for absent in ["x-secret", "6.6.6.6", "\r\nx-evil", "upstream.example"] {
        assert!(!told.contains(absent), "{absent:?} in {told}");
    }
    // The same for a server without an upstream.
    let backend = says("200 OK", "ok");
    let mut direct = action;
    direct["proxy"] = json!(backend.url());
    let site = Site::new().controlled().serve();
    site.put(
        "/config",
        &json!({
            "listeners": {site.address.to_string(): {"pass": "routes"}},
            "routes": [{"action": direct}],
        }),
    );
    assert_eq!(site.send(send).status, 200);
    assert!(backend.asked().join("").contains("\r\nHost: inside.example\r\n"));
}

#[test]
fn an_action_has_its_own_patience() {
    let silent = Raw::new(|connection| {
        connection.request();
        connection.wait_for_end();
    });
    let timeouts = json!({"timeouts": {"first_byte": 1}});
    let server = before(&[&silent], json!({"tries": 1}), timeouts);
    let start = Stopwatch::start();
    assert_eq!(server.get("/").status, 504);
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    server.wait_for_log("no response came in time (routes/0/action/timeouts/first_byte)");
}

/// Scenario: the application ignored the timeouts of its upstream.
#[test]
fn an_application_has_the_patience_of_its_upstream() {
    let silent = Raw::new(|connection| connection.wait_for_end());
    let site = Site::new().controlled().serve();
    let application = json!({"type": "fastcgi", "upstream": "u", "root": "/", "script": "a.php"});
    let mut document = json!({
        "listeners": {site.address.to_string(): {"pass": "applications/remote"}},
        "upstreams": {"u": {"servers": {address(&silent): {}}, "timeouts": {"first_byte": 1}}},
        "applications": {"remote": application},
    });
    site.put("/config", &document);
    let start = Stopwatch::start();
    assert_eq!(site.get("/").status, 504);
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    site.wait_for_log("no response came in time (");
    // Its own count more.
    document["applications"]["remote"]["timeouts"] = json!({"first_byte": 2});
    document["upstreams"]["u"]["timeouts"]["first_byte"] = json!(600);
    site.put("/config", &document);
    assert_eq!(site.get("/").status, 504);
}
