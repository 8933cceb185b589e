//! The activity of an application, as seen from outside, also when it is overloaded.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use harness::{Ends, Server, Site, allow_many_files, eventually};
use serde_json::{Value, json};

/// Steps for the status page and the ping of `site`, then its scripts.
fn watched(script: &str, workers: u32, application: Value) -> Site {
    let site = Site::script("a.php", script);
    let share = json!({
        "share": format!("{}$uri", site.root().display()), "scripts": "applications/site",
    });
    site.workers(workers).with(json!({
        "routes": [
            {"match": {"uri": "/status"}, "action": {"status": "applications/site"}},
            {"match": {"uri": "/ping"}, "action": {"ping": "applications/site"}},
            {"action": share},
        ],
        "applications": {"site": application},
    }))
}

fn json_of(server: &Server, target: &str) -> Value {
    let response = server.get(target);
    assert_eq!(response.field("content-type"), Some("application/json"), "{response:?}");
    serde_json::from_slice(&response.body).unwrap()
}

/// Begins to work when the test says so.
const WAITS: &str =
    "while (!file_exists(getenv('DATA') . '/go')) { usleep(2000); clearstatcache(); }";

#[test]
fn the_status_page_shows_what_workers_do_and_did() {
    let script = format!("{WAITS} usleep((int) $_GET['us']); echo getmypid();");
    let server = watched(&script, 2, json!({})).serve();
    server.workers();
    let mut busy = server.connect();
    busy.send("GET /a.php?us=2000000&x=<b> HTTP/1.1\r\nHost: a\r\n\r\n");
    let status = eventually("a worker is busy", || {
        let status = json_of(&server, "/status?json&full");
        (status["active processes"] == 1).then_some(status)
    });
    assert_eq!(status["pool"], "site");
    assert_eq!(status["process manager"], "static");
    assert_eq!((&status["idle processes"], &status["total processes"]), (&json!(1), &json!(2)));
    assert_eq!((&status["accepted conn"], &status["max processes"]), (&json!(1), &json!(2)));
    let running: Vec<_> = status["processes"].as_array().unwrap().iter().collect();
    let running = running.into_iter().find(|process| process["state"] == "Running").unwrap();
    assert_eq!(running["request method"], "GET");
    assert_eq!(running["request uri"], "/a.php?us=2000000&x=<b>");
    assert_eq!(running["script"], server.site.root().join("a.php").display().to_string());
    assert!(running["request duration"].as_u64().unwrap() > 0, "{running}");
    assert!(running["memory"].as_u64().unwrap() > 100_000, "{running}");

    std::fs::write(server.site.data().join("go"), "").unwrap();
    let pid: u64 = busy.response().text().parse().unwrap();
    let status = eventually("the worker is idle again", || {
        let status = json_of(&server, "/status?json&full");
        (status["active processes"] == 0).then_some(status)
    });
    let processes = status["processes"].as_array().unwrap();
    let worker = processes.iter().find(|process| process["pid"] == pid).unwrap();
    assert_eq!((&worker["state"], &worker["requests"]), (&json!("Idle"), &json!(1)));
    assert!(worker["request duration"].as_u64().unwrap() >= 2_000_000, "{worker}");
    assert!(worker["last request memory"].as_u64().unwrap() >= 2 << 20, "{worker}");
    assert_eq!(worker["request id"].as_str().map(str::len), Some(32), "{worker}");
    assert!(status["memory peak"].as_u64().unwrap() >= 2 << 20, "{status}");
}

#[test]
fn the_status_page_has_php_fpms_formats() {
    let server = watched("echo 1;", 1, json!({})).serve();
    server.workers();
    server.get("/a.php?a=<b>&c");
    for (query, media_type, part) in [
        ("", "text/plain;charset=UTF-8", "process manager:      static\n"),
        ("?full", "text/plain;charset=UTF-8", "\nrequest URI:          /a.php?a=<b>&c\n"),
        ("?html&full", "text/html;charset=UTF-8", "<td>/a.php?a=&lt;b&gt;&amp;c</td>"),
        (
            "?xml&full",
            "text/xml;charset=UTF-8",
            "<request-uri>/a.php?a=&lt;b&gt;&amp;c</request-uri>",
        ),
        (
            "?openmetrics",
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
            "\nphpfpm_accepted_connections 1\n",
        ),
    ] {
        let page = eventually(query, || {
            let page = server.get(&format!("/status{query}"));
            page.text().contains(part).then_some(page)
        });
        assert_eq!((page.status, page.field("content-type")), (200, Some(media_type)));
        assert_eq!(page.field("x-content-type-options"), Some("nosniff"), "{page:?}");
        assert!(page.field("cache-control").unwrap().starts_with("no-cache"), "{page:?}");
    }
}

#[test]
fn a_ping_is_answered_while_the_application_takes_requests() {
    let server = watched("echo 1;", 1, json!({})).serve();
    let pong = server.get("/ping");
    assert_eq!((pong.status, pong.text().as_str()), (200, "pong"));
    let mut client = server.connect();
    client.send("HEAD /ping HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!((client.head_response().status, client.get("/ping").status), (200, 200));
}

#[test]
fn four_thousand_clients_at_once_are_served_and_the_status_page_answers_meanwhile() {
    const CLIENTS: usize = 4000;
    allow_many_files();
    let server = watched(&format!("{WAITS} usleep(5000);"), 4, json!({})).serve();
    server.workers();
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| server.connect()).collect();
    let over = AtomicBool::new(false);
    let delays = std::thread::scope(|scope| {
        let ended = Ends(&over);
        let probe = scope.spawn(|| {
            let (mut client, mut delays) = (server.connect(), Vec::new());
            while !over.load(Relaxed) {
                let begun = Instant::now();
                let status = client.get("/status?json&full");
                delays.push(begun.elapsed());
                assert_eq!(status.status, 200);
                let status: Value = serde_json::from_slice(&status.body).unwrap();
                assert_eq!(status["total processes"], 4);
                std::thread::sleep(Duration::from_millis(20));
            }
            delays
        });
        for client in &mut clients {
            client.send("GET /a.php HTTP/1.1\r\nHost: a\r\n\r\n");
        }
        eventually("all wait but those that are worked on", || {
            (json_of(&server, "/status?json")["listen queue"] == CLIENTS - 4).then_some(())
        });
        std::fs::write(server.site.data().join("go"), "").unwrap();
        for (number, client) in clients.iter_mut().enumerate() {
            let response = client.response();
            assert_eq!(response.status, 200, "client {number}: {response:?}");
        }
        drop(ended);
        probe.join().unwrap()
    });
    let mut sorted = delays.clone();
    sorted.sort();
    println!("median {:?}, the longest {:?}", sorted[sorted.len() / 2], sorted.last());
    let status = json_of(&server, "/status?json");
    assert_eq!(status["accepted conn"], CLIENTS);
    assert!(status["max waiting time"].as_u64().unwrap() > 1_000_000, "{status}");
}

#[test]
fn beyond_the_queue_clients_are_told_to_come_again_and_none_is_failed() {
    const CLIENTS: usize = 4000;
    allow_many_files();
    let server = watched(WAITS, 4, json!({"limits": {"queue": 500}})).serve();
    server.workers();
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send("GET /a.php HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    server.wait_for_log("the queue of the application is full");
    std::fs::write(server.site.data().join("go"), "").unwrap();
    let mut served = 0;
    for client in &mut clients {
        let response = client.response();
        match response.status {
            200 => served += 1,
            503 => assert_eq!(response.field("retry-after"), Some("5"), "{response:?}"),
            _ => panic!("{response:?}"),
        }
    }
    assert!((500..CLIENTS).contains(&served), "{served} were served");
    assert_eq!(json_of(&server, "/status?json")["max listen queue"], 500);
}

#[test]
fn scripts_get_the_array_of_fpm_get_status() {
    let server = watched("echo json_encode(fpm_get_status());", 2, json!({})).serve();
    server.workers();
    for requests in 1..4 {
        let response = server.get("/a.php?a=%C3%A4&b");
        let status: Value = serde_json::from_slice(&response.body).unwrap();
        assert_eq!(
            (&status["pool"], &status["process-manager"]),
            (&json!("site"), &json!("static"))
        );
        assert_eq!(
            (&status["accepted-conn"], &status["total-processes"]),
            (&json!(requests), &json!(2))
        );
        let processes = status["procs"].as_array().unwrap();
        let own = processes.iter().find(|process| process["state"] == "Running").unwrap();
        assert_eq!(own["request-uri"], "/a.php");
        assert_eq!(own["query-string"], "a=%C3%A4&b");
        assert!(own["last-request-cpu"].is_number() && own["start-time"].is_u64(), "{own}");
    }
    // Also when no client waits for the answer any more.
    let file = watched(
        "fastcgi_finish_request(); file_put_contents(getenv('DATA') . '/pool', \
         fpm_get_status()['pool']);",
        1,
        json!({}),
    );
    let server = file.serve();
    assert_eq!(server.get("/a.php").status, 200);
    eventually("the status is there", || (server.data("pool") == "site").then_some(()));
}

#[test]
fn a_script_may_ask_in_the_first_moment_of_its_worker() {
    let script = "$status = fpm_get_status(); echo $status['pool'];";
    let server = Site::script("a.php", script)
        .with(json!({"applications": {"site": {"limits": {"requests": 1}}}}))
        .serve();
    let mut client = server.connect();
    (0..100).for_each(|n| assert_eq!(client.get("/a.php").text(), "site", "request {n}"));
    assert!(!server.log().contains("protocol error of the worker"), "{}", server.log());
}

fn with_control(site: Site) -> Site {
    let address = format!("unix:{}", site.control_socket().display());
    site.argument("--control").argument(&address)
}

#[test]
fn the_status_has_the_state_of_each_applications_opcache() {
    let site = Site::new()
        .file("a.php", "<?php require 'b.php'; echo 'a';")
        .file("b.php", "<?php")
        .with(json!({
            "routes": [{"action": {"pass": "applications/site"}}],
            // Scripts are kept also if they are new.
            "applications": {"site": {"script": "a.php", "processes": 1, "options": {"admin":
                {"opcache.file_update_protection": "0"}}}},
        }));
    let server = with_control(site).serve();
    let state = || server.control("GET", "/status/php/site", "").succeeded()["opcache"].clone();
    assert_eq!(state(), Value::Null, "no process has had a request");
    assert_eq!(server.get("/").text(), "a");
    let first = eventually("a process has reported", || Some(state()).filter(|s| !s.is_null()));
    assert_eq!((&first["enabled"], &first["scripts"]), (&json!(true), &json!(2)), "{first}");
    assert!(first["memory"]["free"].as_u64().unwrap() > 1 << 20, "{first}");
    assert_eq!(first["misses"], 2, "{first}");
    // The figures are at most a second old while there are requests.
    eventually("the scripts are found", || {
        server.get("/");
        (state()["hits"].as_u64() > Some(0)).then_some(())
    });
    // The entries belong to processes that run.
    server.control("GET", "/control/applications/site/restart", "").succeeded();
    assert_eq!(state(), Value::Null);
}

#[test]
fn without_opcache_the_status_says_so() {
    let application = json!({"options": {"admin": {"opcache.enable": "0"}}});
    let server = with_control(watched("echo 'a';", 1, application)).serve();
    assert_eq!(server.get("/a.php").text(), "a");
    eventually("a process has reported", || {
        let state = server.control("GET", "/status/php/site", "").succeeded();
        (state["opcache"]["enabled"] == false).then_some(())
    });
    let disabled = json!({"options": {"admin": {"disable_functions": "opcache_get_status"}}});
    let server = with_control(watched("echo 'a';", 1, disabled)).serve();
    assert_eq!(server.get("/a.php").text(), "a");
    let state = server.control("GET", "/status/php/site", "").succeeded();
    assert!(state.get("opcache").is_none(), "{state}");
}
