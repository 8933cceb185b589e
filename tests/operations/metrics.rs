//! The metrics of the whole server: both text formats, checked by their rules and, if it is
//! installed, by Prometheus' own program.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use harness::client::Client;
use harness::{Server, Site, eventually, free_address};
use serde_json::{Value, json};

const CODE: &str = "if (isset($_GET['crash'])) { posix_kill(getmypid(), 11); }
    usleep((int) ($_GET['us'] ?? 0)); echo str_repeat('x', 1000);";

const OPEN_METRICS: &str = "Accept: application/openmetrics-text;version=1.0.0\r\n";

/// A site with a listener for metrics at an address.
fn site(address: SocketAddr) -> Site {
    Site::script("a.php", CODE)
        .file("style.css", "body {}")
        .with(json!({"settings": {"metrics": {"listen": address.to_string()}}}))
}

fn scrape(address: SocketAddr, fields: &str) -> String {
    let mut client = Client::connect(address);
    client.send(format!("GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{fields}\r\n"));
    let response = client.response();
    assert_eq!(response.status, 200, "{response:?}");
    let is_open = fields.contains("openmetrics");
    let media_type = if is_open {
        "application/openmetrics-text; version=1.0.0; charset=utf-8"
    } else {
        "text/plain; version=0.0.4; charset=utf-8"
    };
    assert_eq!(response.field("content-type"), Some(media_type));
    assert_eq!(response.field("vary"), Some("Accept"));
    response.text()
}

/// Returns the values of a text by their series. Checks the rules that both formats have: each
/// family stands once, between its description and the next one, and each series once.
fn series(text: &str) -> BTreeMap<String, f64> {
    let (mut families, mut all) = (BTreeMap::<&str, &str>::new(), BTreeMap::new());
    let mut current = "";
    let is_open = text.ends_with("\n# EOF\n");
    for line in text.lines().filter(|line| *line != "# EOF") {
        let mut words = line.splitn(4, ' ');
        match (words.next().unwrap(), words.next().unwrap_or_default()) {
            ("#", "HELP") => current = words.next().unwrap(),
            ("#", "TYPE") => {
                assert_eq!(words.next(), Some(current), "{line}");
                let known = families.insert(current, words.next().unwrap());
                assert_eq!(known, None, "{current} stands twice");
            }
            ("#", "UNIT") => assert!(is_open && current.ends_with(words.nth(1).unwrap())),
            (name, _) => {
                let (name, value) = (name.to_owned(), line.rsplit_once(' ').unwrap());
                let family = name.split('{').next().unwrap();
                let kind = families[current];
                let suffix = family.strip_prefix(current).unwrap_or_else(|| panic!("{line}"));
                let allowed: &[&str] = match kind {
                    "histogram" => &["_bucket", "_count", "_sum"],
                    "counter" if is_open => &["_total"],
                    "info" => &["_info"],
                    _ => &[""],
                };
                assert!(allowed.contains(&suffix), "{line} is no {kind}");
                assert!(kind != "counter" || family.ends_with("_total"), "{line}");
                let before = all.insert(value.0.to_owned(), value.1.parse().unwrap());
                assert_eq!(before, None, "{line} stands twice");
            }
        }
    }
    all
}

/// Lets Prometheus' own program check a text, if it is installed.
fn check_with_promtool(text: &str) {
    let mut command = Command::new("promtool");
    let command = command.args(["check", "metrics"]).stdin(Stdio::piped());
    let Ok(mut child) = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn() else {
        return;
    };
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success() && said.is_empty(), "{}", String::from_utf8_lossy(&said));
}

fn value(address: SocketAddr, name: &str) -> Option<f64> {
    series(&scrape(address, "")).get(name).copied()
}

/// Waits until a series has this value: a client may have its response before it is counted.
fn wait_for(address: SocketAddr, name: &str, expected: f64) {
    eventually(&format!("{name} is {expected}"), || {
        (value(address, name) == Some(expected)).then_some(())
    });
}

#[test]
fn a_listener_serves_the_metrics_and_nothing_else() {
    let address = free_address();
    let server = site(address).serve();
    server.get("/style.css");
    server.get("/a.php?us=20000");
    server.get("/missing");
    server.post("/a.php", "text/plain", "abc");
    let main = server.address;
    let requests = |method: &str, class: &str| {
        format!(
            "howdah_http_requests_total{{site=\"site\",listener=\"{main}\",method=\"{method}\",\
             code=\"{class}\"}}"
        )
    };
    wait_for(address, &requests("GET", "2xx"), 2.0);
    wait_for(address, &requests("GET", "4xx"), 1.0);
    wait_for(address, &requests("POST", "2xx"), 1.0);
    let text = scrape(address, "");
    check_with_promtool(&text);
    let all = series(&text);
    let open = scrape(address, OPEN_METRICS);
    assert!(open.ends_with("\n# EOF\n"));
    let names = |all: &BTreeMap<String, f64>| all.len();
    assert!(names(&series(&open)) >= names(&all), "a series is missing in OpenMetrics");

    assert_eq!(all["howdah_http_request_duration_seconds_count{site=\"site\"}"], 4.0);
    let script = "howdah_http_request_part_duration_seconds_sum{site=\"site\",part=\"script\"}";
    assert!(all[script] >= 0.02, "{}", all[script]);
    let sent =
        all[&format!("howdah_http_response_bytes_total{{site=\"site\",listener=\"{main}\"}}")];
    assert!((2000.0..20_000.0).contains(&sent), "{sent}");
    assert_eq!(all["howdah_php_requests_total{application=\"site\"}"], 2.0);
    assert!(all["howdah_php_run_seconds_total{site=\"site\"}"] >= 0.02);
    assert_eq!(all["howdah_php_up{application=\"site\"}"], 1.0);
    let busy = all["howdah_php_processes{application=\"site\",state=\"busy\"}"];
    let idle = all["howdah_php_processes{application=\"site\",state=\"idle\"}"];
    assert!(busy + idle >= 1.0);
    assert!(all["howdah_php_script_memory_peak_bytes{application=\"site\"}"] > 100_000.0);
    assert!(all["howdah_open_descriptors"] > 5.0 && all["howdah_max_descriptors"] > 100.0);
    assert!(all["howdah_event_loop_lag_seconds_count{thread=\"0\"}"] >= 1.0);
    assert!(all["howdah_start_timestamp_seconds"] > 1.7e9);
    assert!(all["howdah_document_applied_timestamp_seconds"] > 1.7e9);
    assert_eq!(all["howdah_document_refused"], 0.0);

    for (request, status) in [
        ("GET / HTTP/1.1\r\n", 404),
        ("GET /metrics/ HTTP/1.1\r\n", 404),
        ("GET /a.php HTTP/1.1\r\n", 404),
        ("POST /metrics HTTP/1.1\r\nContent-Length: 0\r\n", 405),
        ("HEAD /metrics HTTP/1.1\r\n", 200),
    ] {
        let mut client = Client::connect(address);
        client.send(format!("{request}Host: a\r\nConnection: close\r\n\r\n"));
        let response =
            if request.starts_with("HEAD") { client.head_response() } else { client.response() };
        assert_eq!(response.status, status, "{request}");
    }
    // Neither a path nor what clients send is a name.
    server.send("GET /x HTTP/1.1\r\nHost: evil-host\r\nConnection: close\r\n\r\n");
    server.send("EVIL /evil HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    wait_for(address, &requests("other", "4xx"), 1.0);
    let text = scrape(address, "").to_ascii_lowercase();
    let root = server.site.root().display().to_string();
    assert!(!text.contains("evil") && !text.contains(&root.to_ascii_lowercase()), "{text}");
}

#[test]
fn crashes_and_time_limits_of_a_site_are_counted_by_their_reason() {
    let address = free_address();
    let limited = json!({"applications": {"site": {"limits": {"timeout": 1}}}});
    let server = site(address).workers(1).with(limited).serve();
    assert_eq!(server.get("/a.php?crash").status, 502);
    let ends = |reason: &str| {
        format!("howdah_php_process_ends_total{{application=\"site\",reason=\"{reason}\"}}")
    };
    wait_for(address, &ends("signal_11"), 1.0);
    assert_eq!(server.get("/a.php?us=60000000").status, 504);
    wait_for(address, &ends("time_limit"), 1.0);
    wait_for(address, "howdah_php_timed_out_requests_total{application=\"site\"}", 1.0);
    let all = series(&scrape(address, ""));
    assert!(!all.contains_key(&ends("signal_9")), "a time limit is no crash");
    let class = |class: &str| {
        let main = server.address;
        format!(
            "howdah_http_requests_total{{site=\"site\",listener=\"{main}\",method=\"GET\",\
             code=\"{class}\"}}"
        )
    };
    wait_for(address, &class("5xx"), 2.0);
}

#[test]
fn an_action_and_a_unix_socket_serve_metrics_too() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("metrics");
    let listen = format!("unix:{}", socket.display());
    let routes = json!([
        {"match": {"uri": "/internal/metrics"}, "action": {"metrics": true, "allow": "127.0.0.0/8"}},
        {"match": {"uri": "/closed"}, "action": {"metrics": true, "allow": "192.0.2.1"}},
        {"action": {"return": 204}},
    ]);
    let settings = json!({"metrics": {"listen": [listen]}});
    let server = Site::new().with(json!({"routes": routes, "settings": settings})).serve();
    let response = server.get("/internal/metrics");
    assert_eq!(response.status, 200);
    check_with_promtool(&response.text());
    assert!(series(&response.text())["howdah_connections_accepted_total"] >= 1.0);
    assert_eq!(server.get("/closed").status, 403);

    let mut stream = UnixStream::connect(&socket).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.0\r\nHost: a\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.contains("\nhowdah_build_info{version="), "{text}");
}

#[test]
fn many_scrapes_at_once_hold_no_request_up() {
    let address = free_address();
    let server = site(address).serve();
    let mut clients: Vec<_> = (0..50).map(|_| Client::connect(address)).collect();
    for client in &mut clients {
        client.send("GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    }
    // Some leave before the text is written.
    clients.truncate(25);
    assert_eq!(server.get("/style.css").status, 200);
    for client in &mut clients {
        assert!(series(&client.response().text()).len() > 20);
    }
}

#[test]
fn a_change_of_the_document_opens_and_closes_the_listener() {
    let address = free_address();
    let server = Site::script("a.php", CODE).controlled().serve();
    server.put("/config", &server.site.document(server.address));
    let generation = |server: &Server| {
        let status = server.control("GET", "/status", "").succeeded();
        status.pointer("/configuration/generation").and_then(Value::as_u64).unwrap()
    };
    let before = generation(&server);
    server.put("/config/settings", &json!({"metrics": {"listen": address.to_string()}}));
    assert_eq!(generation(&server), before + 1);
    let shown = value(address, "howdah_document_generation").unwrap();
    assert_eq!(shown as u64, before + 1);
    server.control("DELETE", "/config/settings", "").succeeded();
    assert!(std::net::TcpStream::connect(address).is_err(), "it is still open");
}
