//! Listeners for FastCGI under load and beside clients that break the protocol; logs, metrics and
//! traces of their requests.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use harness::{Site, eventually};
use howdah_wire::fastcgi::{
    Kind, Part, Protocol, Records, Role, header, put_begin, put_end_of_stream, put_stream,
};
use serde_json::json;

use crate::web_server_sockets::place;
use crate::web_servers::{WebServer, body, head, request, serve, serve_controlled};

/// Number of connections of a flood.
const FLOOD: usize = 300;

/// Web servers ask on new and on kept connections while the listener, and the application behind
/// it, change again and again.
#[test]
fn changes_of_the_configuration_lose_no_request() {
    let behind = serve_controlled(Site::script("a.php", "usleep(2000); echo 'ok';"), json!({}));
    let (is_over, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for keep in [false, true, false, true] {
            let (behind, is_over, answered) = (&behind, &is_over, &answered);
            scope.spawn(move || {
                let asked = request(&behind.root, "a.php", keep, &[], b"");
                let mut connection = behind.connect();
                while !is_over.load(Ordering::Relaxed) {
                    if !keep {
                        connection = behind.connect();
                    }
                    let answer = connection.send(&asked).answer().expect("a response");
                    assert_eq!(body(&answer), "ok");
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let changes = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for number in 0..12 {
                let listener = json!({
                    "protocol": "fastcgi",
                    "pass": "applications/site",
                    "socket": {"mode": if number % 2 == 0 { "0600" } else { "0660" }},
                    "status_path": format!("/status{number}"),
                });
                behind.server.put(&place(&behind.socket), &listener);
                let variable = json!(number.to_string());
                behind.server.put("/config/applications/site/environment/NUMBER", &variable);
                let before = answered.load(Ordering::Relaxed);
                eventually("further responses", || {
                    (answered.load(Ordering::Relaxed) > before + 4).then_some(())
                });
            }
        }));
        is_over.store(true, Ordering::Relaxed);
        changes.unwrap();
    });
}

/// Each of them sends a part of a request and no more.
#[test]
fn connections_that_send_half_a_request_delay_no_other_and_are_closed() {
    let timeout = json!({"settings": {"http": {"header_read_timeout": 3}}});
    let behind = serve(Site::script("a.php", "echo 'ok';"), timeout);
    let whole = head(&behind.root, "a.php", true, &[]);
    let parts = [&[][..], &[1], &whole[..7], &whole[..16], &whole[..30], &whole[..whole.len() - 1]];
    let mut flood: Vec<_> = (0..FLOOD).map(|_| behind.connect()).collect();
    for (connection, part) in flood.iter_mut().zip(parts.iter().cycle()) {
        connection.send(part);
    }
    assert_eq!(body(&behind.ask("a.php", &[])), "ok");
    for connection in &mut flood {
        assert_eq!(connection.answer(), None, "it is closed without a response");
    }
    assert_eq!(body(&behind.ask("a.php", &[])), "ok");
}

/// A connection that begins requests without end costs no memory, as none of them is kept.
#[test]
fn requests_beside_that_of_a_connection_are_refused_and_the_one_is_answered() {
    let site = Site::script("a.php", "usleep(300000); echo file_get_contents('php://input');");
    let behind = serve(site, json!({}));
    let mut connection = behind.connect();
    for _ in 0..2 {
        let more = [("REQUEST_METHOD", "POST"), ("CONTENT_LENGTH", "4")];
        let mut bytes = head(&behind.root, "a.php", true, &more);
        put_stream(Kind::Stdin, 1, b"bo", &mut bytes);
        for id in 2..1002 {
            put_begin(Role::Responder, true, id, &mut bytes);
            bytes.extend_from_slice(&header(Kind::Params, id, 2));
            bytes.extend_from_slice(&[0, 0]);
            put_end_of_stream(Kind::Params, id, &mut bytes);
            put_end_of_stream(Kind::Stdin, id, &mut bytes);
        }
        put_stream(Kind::Stdin, 1, b"dy", &mut bytes);
        put_end_of_stream(Kind::Stdin, 1, &mut bytes);
        let mut sender = connection.0.try_clone().unwrap();
        let sending = std::thread::spawn(move || sender.write_all(&bytes).unwrap());
        let (output, refused) = read_all(&mut connection);
        sending.join().unwrap();
        assert!(output.ends_with("\r\n\r\nbody"), "{output}");
        assert_eq!(refused, 1000);
    }
}

/// Reads the output of the request with id 1, and the number of refused ones with others.
fn read_all(connection: &mut WebServer) -> (String, usize) {
    let (mut records, mut output, mut refused) = (Records::default(), Vec::new(), 0);
    let (mut buffer, mut is_complete) = ([0; 65536], false);
    while !is_complete || refused < 1000 {
        let len = connection.0.read(&mut buffer).unwrap();
        assert!(len > 0, "the connection stays open");
        let mut input = &buffer[..len];
        while let Some((kind, id, part)) = records.next(&mut input).unwrap() {
            match (Kind::from_byte(kind), part) {
                (Some(Kind::Stdout), Part::Content(bytes)) => output.extend_from_slice(bytes),
                (Some(Kind::EndRequest), Part::Content(bytes)) if id > 1 => {
                    // Whole in one read, as the server writes it.
                    assert_eq!(bytes.get(4), Some(&(Protocol::CannotMultiplex as u8)));
                    refused += 1;
                }
                (Some(Kind::EndRequest), Part::End(_)) if id == 1 => is_complete = true,
                _ => {}
            }
        }
    }
    (String::from_utf8(output).unwrap(), refused)
}

#[test]
fn a_web_server_that_reads_no_response_holds_no_process() {
    let site = Site::script("a.php", "echo str_repeat('x', (int)$_GET['n']);").workers(2);
    let behind = serve(site, json!({}));
    let asked = request(&behind.root, "a.php", false, &[("QUERY_STRING", "n=3000000")], b"");
    let mut deaf: Vec<_> = (0..20).map(|_| behind.connect()).collect();
    for connection in &mut deaf {
        connection.send(&asked);
    }
    for _ in 0..20 {
        let (out, _) = behind.ask("a.php", &[("QUERY_STRING", "n=1")]);
        assert!(out.ends_with("\r\n\r\nx"), "{out}");
    }
}

#[test]
fn slow_requests_are_logged() {
    let site = Site::script("a.php", "usleep(3000000); echo 'ok';");
    let behind = serve(site, json!({"applications": {"site": {"limits": {"slow": 1}}}}));
    let more = [("REQUEST_URI", "/pretty?a=b"), ("QUERY_STRING", "a=b")];
    assert_eq!(body(&behind.ask("a.php", &more)), "ok");
    let log = behind.server.wait_for_log("{main}");
    let expected = format!("GET /pretty?a=b ({}/a.php): is slow", behind.root);
    assert!(log.contains(&expected), "{log}");
}

#[test]
fn requests_are_counted_and_belong_to_the_trace_of_the_web_server() {
    let site = Site::script("a.php", "echo $_SERVER['HTTP_TRACEPARENT'];");
    let (log, metrics) = (site.data().join("access.log"), site.data().join("metrics.sock"));
    let behind = serve(
        site,
        json!({
            "access_log": {"path": log, "format": "$trace_id $status"},
            "settings": {
                "telemetry": {"endpoint": "http://127.0.0.1:1", "protocol": "http"},
                "metrics": {"listen": format!("unix:{}", metrics.display())},
            },
        }),
    );
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let parent = format!("00-{trace}-b7ad6b7169203331-01");
    let answer = behind.ask("a.php", &[("HTTP_TRACEPARENT", &parent)]);
    assert!(body(&answer).contains(trace), "{answer:?}");
    eventually("a line of the log", || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        text.lines().any(|line| line == format!("{trace} 200")).then_some(())
    });
    let listener = format!("listener=\"unix:{}\"", behind.socket.display());
    eventually("a count", || {
        let mut stream = UnixStream::connect(&metrics).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.0\r\nHost: a\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let counted = text.lines().find(|line| {
            line.starts_with("howdah_http_requests_total{") && line.contains(&listener)
        });
        counted.filter(|line| line.contains("code=\"2xx\"") && line.ends_with(" 1")).map(drop)
    });
}
