//! Floods of lines that the server itself writes about requests: they neither fill the log nor
//! silence the lines about other sites.

use std::fs;

use harness::client::Client;
use harness::{Server, Site, eventually};
use serde_json::json;

/// Bytes that a site may have in the log at once, and some for other lines.
const MAX_BURST: u64 = 18 << 20;

fn length(server: &Server) -> u64 {
    fs::metadata(server.site.log_path()).unwrap().len()
}

/// Sends requests for a target in parts, and reads their responses.
fn ask(client: &mut Client, target: &str, count: usize) {
    let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
    for part in [20].repeat(count / 20) {
        client.send(request.repeat(part));
        (0..part).for_each(|_| drop(client.response()));
    }
}

/// Checks of passwords by an action that fails: each request is a line, as long as its client
/// likes.
#[test]
fn lines_about_failed_requests_are_limited_and_those_of_other_sites_are_written() {
    let check = json!({"action": {"return": 500}});
    let action =
        |name: &str| json!({"auth_request": check, "pass": format!("applications/{name}")});
    let site = Site::script("a.php", "echo 1;");
    let other = json!({"type": "php", "root": site.root(), "script": "a.php", "processes": 1});
    let routes = json!([
        {"match": {"uri": "/other"}, "action": action("other")},
        {"action": action("site")},
    ]);
    let server = site.with(json!({"routes": routes, "applications": {"other": other}})).serve();
    let mut client = server.connect();
    let target = format!("/{}", "x".repeat(1500));
    assert_eq!(client.get(&target).status, 500);
    let log = server.wait_for_log("auth_request has the status 500");
    assert!(log.contains("x… (1501 bytes): auth_request"), "{log}");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| ask(&mut server.connect(), &target, 6000));
        }
    });
    let written = length(&server);
    assert!((8 << 20..MAX_BURST).contains(&written), "{written} bytes");
    let log = server.wait_for_log("too many lines about requests to \"site\": they are left out");
    assert!(!log.contains("/other: "));
    assert_eq!(client.get("/other").status, 500);
    server.wait_for_log("/other: auth_request has the status 500");
    eventually("what was left out is counted", || {
        client.get("/again");
        server.log().contains(" lines about requests to \"site\" were left out\n").then_some(())
    });
}

/// A script names as much in its answer as fits a field.
#[test]
fn what_a_script_names_in_its_answer_is_shortened_in_the_log() {
    let script = "header('X-Accel-Redirect: no-path-' . str_repeat('r', 30000));";
    let redirect = json!({
        "routes": {"main": [{"action": {"pass": "applications/site"}}], "files": []},
        "applications": {"site": {"internal_redirect": "routes/files"}},
    });
    let address = harness::free_address().to_string();
    let listeners = json!({"listeners": {&address: {"pass": "routes/main"}}});
    let server = Site::script("a.php", script).with(redirect).with(listeners).serve_at(&address);
    let mut client = server.connect();
    ask(&mut client, "/a.php", 200);
    let log = server.wait_for_log("X-Accel-Redirect has no path: no-path-rrr");
    assert!(log.contains("r… (30008 bytes)"));
    assert!(length(&server) < 1 << 20, "{} bytes", length(&server));
}

/// Programs that ban clients by the log would miss the refusals.
#[test]
fn refusals_at_one_site_do_not_hide_those_at_another() {
    let site = Site::script("a.php", "echo 1;");
    let share = |name: &str| {
        let directory = site.root().join(name);
        fs::create_dir(&directory).unwrap();
        json!({"share": format!("{}/a.txt", directory.display()), "limit": {"rate": "1/h"}})
    };
    let routes = json!([
        {"match": {"uri": "/quiet*"}, "action": share("quiet")},
        {"action": share("flooded")},
    ]);
    let server = site.with(json!({"settings": {"listen_threads": 1}, "routes": routes})).serve();
    let (mut client, mut quiet) = (server.connect(), server.connect());
    for number in 0..5 {
        ask(&mut client, "/flooded", 200);
        quiet.get(&format!("/quiet{number}"));
    }
    let log = server.wait_for_log("/quiet4: limit ");
    for number in 1..5 {
        assert!(log.contains(&format!("/quiet{number}: limit ")), "{number}");
    }
}
