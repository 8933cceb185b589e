//! Traces and metrics over OTLP: a server of OpenTelemetry gets them, and its loss costs no request.

mod metrics;
mod receiver;

use std::collections::BTreeMap;

use harness::raw::Raw;
use harness::{Server, Site, eventually, free_address};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use serde_json::{Value, json};

use self::receiver::{Receiver, attribute, hex};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

/// Prints the fields of the trace, as a script gets them.
const CODE: &str =
    "usleep((int) ($_GET['us'] ?? 0)); http_response_code((int) ($_GET['s'] ?? 200));
    echo $_SERVER['HTTP_TRACEPARENT'] ?? '-', ' ', $_SERVER['HTTP_TRACESTATE'] ?? '-';";

fn settings(url: &str, protocol: &str, more: Value) -> Value {
    let mut telemetry = json!({"endpoint": url, "protocol": protocol});
    harness::merge(&mut telemetry, more);
    json!({"settings": {"telemetry": telemetry}})
}

/// A site with a control API and a state directory.
fn controlled() -> Site {
    let site = Site::script("a.php", CODE).file("style.css", "body {}");
    let control = format!("unix:{}", site.control_socket().display());
    let state = site.state().display().to_string();
    site.argument("--control").argument(&control).argument("--state").argument(&state)
}

/// A site whose spans go to a receiver.
fn site(receiver: &Receiver, more: Value) -> Site {
    controlled().with(settings(&receiver.url(), receiver.protocol(), more))
}

fn traced(server: &Server, target: &str, fields: &str) -> String {
    let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{fields}\r\n");
    server.send(request).text()
}

fn flags_of(parent: &str) -> &str {
    &parent[53..55]
}

/// Returns the spans of a trace by their names.
fn of_trace<'s>(spans: &'s [Span], trace: &str) -> BTreeMap<&'s str, &'s Span> {
    let found = spans.iter().filter(|span| hex(&span.trace_id) == trace);
    found.map(|span| (span.name.as_str(), span)).collect()
}

/// Checks the spans of a request to a script that belongs to the trace of its caller.
fn check_spans_of_a_script(receiver: &Receiver) {
    let more = json!({
        "service_name": "shop", "attributes": {"deployment.environment.name": "test"},
        "headers": {"X-Key": "secret"},
    });
    let server = site(receiver, more).serve();
    let fields = format!("traceparent: 00-{TRACE}-{PARENT}-01\r\ntracestate: a=1\r\n");
    let said = traced(&server, "/a.php?us=2000&token=x", &fields);
    let (parent, state) = said.split_once(' ').unwrap();
    assert_eq!((&parent[..36], flags_of(parent), state), (&*format!("00-{TRACE}-"), "01", "a=1"));
    let all = receiver.wait_for("php script", 1);
    let spans = of_trace(&all, TRACE);
    let (request, script) = (spans["GET"], spans["php script"]);
    assert_eq!(hex(&request.parent_span_id), PARENT);
    assert_eq!((request.kind, request.trace_state.as_str()), (SpanKind::Server as i32, "a=1"));
    assert_eq!(hex(&script.span_id), &parent[36..52], "the script knows its own span");
    assert_eq!(script.parent_span_id, request.span_id);
    let waited = spans.get("php queue").or(spans.get("php start")).expect("it has waited");
    assert_eq!(waited.parent_span_id, request.span_id);
    assert!(request.start_time_unix_nano <= waited.start_time_unix_nano);
    assert_eq!(waited.end_time_unix_nano, script.start_time_unix_nano);
    assert!(script.end_time_unix_nano <= request.end_time_unix_nano);
    let ran = script.end_time_unix_nano - script.start_time_unix_nano;
    assert!(ran >= 2_000_000, "{ran} ns");
    for (name, value) in [
        ("http.request.method", "GET"),
        ("url.path", "/a.php"),
        ("url.query", "us=2000&token=***"),
        ("http.response.status_code", "200"),
        ("howdah.site", "site"),
        ("network.protocol.version", "1.1"),
    ] {
        assert_eq!(attribute(request, name).as_deref(), Some(value), "{name}");
    }
    let resource: BTreeMap<_, _> = receiver.resources().remove(0).into_iter().collect();
    assert_eq!(resource["service.name"], "shop");
    assert_eq!(resource["deployment.environment.name"], "test");
    assert!(resource.contains_key("host.name") && resource.contains_key("service.version"));
    assert_eq!(receiver.fields("x-key")[0], "secret");
    let titles: Vec<_> = server.processes().into_iter().map(|process| process.title).collect();
    assert_eq!(titles.iter().filter(|title| *title == "howdah: telemetry").count(), 1);
}

#[test]
fn a_receiver_over_http_gets_the_spans_of_a_script() {
    check_spans_of_a_script(&Receiver::http());
}

#[test]
fn a_receiver_over_grpc_gets_the_spans_of_a_script() {
    check_spans_of_a_script(&Receiver::grpc());
}

#[test]
fn without_telemetry_fields_pass_unchanged_and_no_process_runs() {
    let server = controlled().with(json!({})).serve();
    let fields = "traceparent: not-a-trace\r\ntracestate: x\r\n";
    assert_eq!(traced(&server, "/a.php", fields), "not-a-trace x");
    assert_eq!(traced(&server, "/a.php", ""), "- -");
    assert!(server.processes().iter().all(|process| process.title != "howdah: telemetry"));
}

#[test]
fn malformed_parents_begin_another_trace() {
    let receiver = Receiver::http();
    let server = site(&receiver, json!({})).serve();
    let valid = format!("00-{TRACE}-{PARENT}-01");
    let hostile = [
        format!("traceparent: {}\r\n", valid.to_uppercase()),
        format!("traceparent: ff{}\r\n", &valid[2..]),
        format!("traceparent: {valid}-x\r\n"),
        format!("traceparent: {valid}\r\ntraceparent: {valid}\r\n"),
        format!("traceparent: {}\r\n", "0".repeat(7000)),
        format!("traceparent: 00-{}-{PARENT}-01\r\n", "0".repeat(32)),
        format!("traceparent: {}\r\n", valid.replace('-', "\u{2010}")),
        "traceparent: \r\n".to_owned(),
    ];
    for fields in &hostile {
        let said = traced(&server, "/a.php", &format!("{fields}tracestate: a=1\r\n"));
        let (parent, state) = said.split_once(' ').unwrap();
        assert!(parent.len() == 55 && parent.starts_with("00-"), "{fields}: {said}");
        assert_ne!(&parent[3..35], TRACE, "{fields}");
        assert_eq!(state, "-", "the state of another trace goes no further");
    }
    let spans = receiver.wait_for("php script", hostile.len());
    let roots = spans.iter().filter(|span| span.name == "GET" && span.parent_span_id.is_empty());
    assert_eq!(roots.count(), hostile.len());
}

#[test]
fn the_caller_the_ratio_and_the_end_decide_what_is_sent() {
    let receiver = Receiver::http();
    let server = site(&receiver, json!({"sampling_ratio": 0, "failed": true})).serve();
    let unsampled = format!("traceparent: 00-{TRACE}-{PARENT}-00\r\n");
    for fields in ["", &unsampled] {
        let said = traced(&server, "/a.php", fields);
        assert_eq!(flags_of(&said), "00", "scripts learn that the trace is not sent");
    }
    server.get("/style.css");
    traced(&server, "/a.php?s=503", &unsampled);
    let sampled = format!("traceparent: 00-{}-{PARENT}-01\r\n", TRACE.replace('0', "1"));
    traced(&server, "/a.php?s=404", &sampled);
    let spans = receiver.wait_for("GET", 2);
    let status = |span: &Span| attribute(span, "http.response.status_code").unwrap();
    let mut sent: Vec<_> = spans.iter().filter(|span| span.name == "GET").map(status).collect();
    sent.sort();
    assert_eq!(sent, ["404", "503"]);
    let failed = of_trace(&spans, TRACE)["GET"];
    assert_eq!(failed.status.as_ref().unwrap().code, 2);
    assert_eq!(failed.flags & 1, 0, "its caller has not sampled it");
    assert_eq!(attribute(failed, "error.type").as_deref(), Some("503"));

    let slow = site(&receiver, json!({"sampling_ratio": 0, "slow": 0})).serve();
    slow.get("/style.css");
    let spans = receiver.wait_for("GET", 3);
    assert!(spans.iter().any(|span| attribute(span, "url.path").as_deref() == Some("/style.css")));
}

#[test]
fn each_attempt_at_a_server_has_a_span_of_its_own() {
    let receiver = Receiver::http();
    let answer = |status: &str| {
        format!("HTTP/1.1 {status}\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx")
    };
    let (busy, well) = (Raw::answering(answer("503 Busy")), Raw::answering(answer("200 OK")));
    let address = |server: &Raw| server.url().trim_start_matches("http://").to_owned();
    let server = Site::new().controlled().serve();
    let mut document = settings(&receiver.url(), "http", json!({}));
    harness::merge(
        &mut document,
        json!({
            "listeners": {server.address.to_string(): {"pass": "routes"}},
            "routes": [{"action": {"pass": "upstreams/u"}}],
            "upstreams": {"u": {
                "servers": {address(&busy): {"weight": 1000}, address(&well): {}},
                "tries": 2, "retry": {"on": [503]},
            }},
        }),
    );
    server.put("/config", &document);
    let fields = format!("traceparent: 00-{TRACE}-{PARENT}-01\r\ntracestate: a=1\r\n");
    assert_eq!(traced(&server, "/", &fields), "x");
    let spans = receiver.wait_for("GET", 3);
    let request = spans.iter().find(|span| span.kind == SpanKind::Server as i32).unwrap();
    let attempts: Vec<_> =
        spans.iter().filter(|span| span.kind == SpanKind::Client as i32).collect();
    assert_eq!(attempts.len(), 2);
    for (attempt, server, status) in [(attempts[0], &busy, "503"), (attempts[1], &well, "200")] {
        assert_eq!(attempt.parent_span_id, request.span_id);
        assert_eq!(attribute(attempt, "http.response.status_code").as_deref(), Some(status));
        let port = address(server).rsplit_once(':').unwrap().1.to_owned();
        assert_eq!(attribute(attempt, "server.port"), Some(port));
        let asked = server.asked().remove(0).to_ascii_lowercase();
        let expected = format!("\r\ntraceparent: 00-{TRACE}-{}-01\r\n", hex(&attempt.span_id));
        assert!(asked.contains(&expected) && asked.contains("\r\ntracestate: a=1\r\n"), "{asked}");
        assert_eq!(asked.matches("traceparent").count(), 1, "{asked}");
    }
}

#[test]
fn the_cache_has_a_span_with_its_result() {
    let receiver = Receiver::http();
    let site = site(&receiver, json!({}))
        .file("c.php", "<?php header('Cache-Control: max-age=60'); echo 'c';")
        .with(json!({"routes": [{"action": {"pass": "applications/site", "cache": {}}}]}));
    let server = site.serve();
    for before in 0..2 {
        server.get("/c.php");
        receiver.wait_for("cache", before + 1);
    }
    let spans = receiver.spans();
    let result = |span: &Span| attribute(span, "howdah.cache.result").unwrap();
    let results: Vec<_> = spans.iter().filter(|span| span.name == "cache").map(result).collect();
    assert_eq!(results, ["MISS", "HIT"]);
}

/// Sends requests on one connection. Returns the number of responses with status 200.
fn send_many(server: &Server, requests: usize) -> usize {
    let mut client = server.connect();
    (0..requests).filter(|_| client.get("/a.php").status == 200).count()
}

/// Checks that each of many requests has its spans: just one of each kind.
fn check_many(receiver: &Receiver, requests: usize) {
    let server = site(receiver, json!({})).workers(2).serve();
    let each = requests / 4;
    let answered: usize = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..4).map(|_| scope.spawn(|| send_many(&server, each))).collect();
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    });
    assert_eq!(answered, 4 * each);
    let spans = receiver.wait_for("GET", answered);
    let spans = if spans.len() < 3 * answered {
        eventually("all spans arrive", || {
            let spans = receiver.spans();
            (spans.len() >= 3 * answered).then_some(spans)
        })
    } else {
        spans
    };
    let mut traces = BTreeMap::<Vec<u8>, Vec<&Span>>::new();
    spans.iter().for_each(|span| traces.entry(span.trace_id.clone()).or_default().push(span));
    assert_eq!((traces.len(), spans.len()), (answered, 3 * answered));
    for spans in traces.values() {
        let root = spans.iter().find(|span| span.parent_span_id.is_empty()).unwrap();
        let below = spans.iter().filter(|span| span.parent_span_id == root.span_id).count();
        assert_eq!(below, 2, "{spans:?}");
    }
    assert!(!server.log().contains("were lost"), "{}", server.log());
}

#[test]
fn every_span_of_many_requests_arrives() {
    let requests = std::env::var("TRACED_REQUESTS").ok().and_then(|text| text.parse().ok());
    check_many(&Receiver::http(), requests.unwrap_or(400));
    check_many(&Receiver::grpc(), requests.unwrap_or(400));
}

#[test]
fn the_loss_of_the_receiver_costs_no_request_and_spans_wait_for_it() {
    let address = free_address();
    let server =
        controlled().with(settings(&format!("http://{address}"), "http", json!({}))).serve();
    assert_eq!(send_many(&server, 100), 100);
    server.wait_for_log("takes no spans: the connection is refused");
    let receiver = Receiver::http_at(address);
    receiver.wait_for("php script", 100);
    server.wait_for_log("takes spans again; 0 more were lost");

    receiver.be_busy(3);
    assert_eq!(send_many(&server, 10), 10);
    receiver.wait_for("php script", 110);
    receiver.warn();
    assert_eq!(send_many(&server, 1), 1);
    server.wait_for_log("use another port");
}

#[test]
fn a_process_that_ends_is_replaced_and_costs_no_request() {
    let receiver = Receiver::http();
    let server = site(&receiver, json!({})).serve();
    let pid = |server: &Server| {
        let found = server.processes().into_iter();
        found.filter(|process| process.title == "howdah: telemetry").map(|one| one.pid).next()
    };
    let first = eventually("the telemetry process runs", || pid(&server));
    let target = rustix::process::Pid::from_raw(i32::try_from(first).unwrap()).unwrap();
    rustix::process::kill_process(target, rustix::process::Signal::KILL).unwrap();
    assert_eq!(send_many(&server, 20), 20);
    receiver.wait_for("php script", 20);
    server.wait_for_log("another is started");
    assert_ne!(pid(&server), Some(first));

    // Without the settings it ends, after its last spans.
    assert_eq!(send_many(&server, 20), 20);
    server.control("DELETE", "/config/settings/telemetry", "").succeeded();
    receiver.wait_for("php script", 40);
    eventually("the telemetry process ends", || pid(&server).is_none().then_some(()));
    assert_eq!(traced(&server, "/a.php", ""), "- -");
}

#[test]
fn the_id_of_the_trace_is_in_the_logs() {
    let receiver = Receiver::http();
    let site = site(&receiver, json!({})).file("b.php", "<?php error_log('hello'); echo 'b';");
    let log = site.data().join("access.log");
    let format = json!({"trace": "$trace_id", "id": "$request_id"});
    let server = site.with(json!({"access_log": {"path": log, "format": format}})).serve();
    traced(&server, "/b.php", &format!("traceparent: 00-{TRACE}-{PARENT}-01\r\n"));
    server.wait_for_log(&format!("of trace {TRACE}: GET /b.php"));
    traced(&server, "/b.php", "");
    let lines = eventually("two lines are written", || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        let read = |line| serde_json::from_str::<Value>(line).unwrap();
        (text.lines().count() == 2).then(|| text.lines().map(read).collect::<Vec<_>>())
    });
    assert_eq!(lines[0]["trace"], TRACE);
    assert_eq!(lines[1]["trace"], lines[1]["id"], "a trace that begins here has the request's id");
}
