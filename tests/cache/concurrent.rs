//! Many requests for one response.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use harness::client::Response;
use harness::raw::Raw;
use harness::{Server, eventually};
use serde_json::json;

use super::origin::{cached, controlled, get, is_hit, origin, page};

const CLIENTS: usize = 40;

/// An origin that answers each request when the test allows it.
fn held(fields: &'static str) -> (Raw, mpsc::Sender<()>) {
    let (allow, allowed) = mpsc::channel();
    let allowed = Mutex::new(allowed);
    let origin = origin(move |_, number| {
        let _ = allowed.lock().unwrap().recv();
        page(fields, format!("page {number}"))
    });
    (origin, allow)
}

fn requests(server: &Server) -> u64 {
    server.control("GET", "/status/requests/total", "").body.as_u64().unwrap()
}

/// Sends a request from each of some clients, and calls `release` when the server has them all.
fn at_once(server: &Server, target: &str, release: impl FnOnce()) -> Vec<(bool, String)> {
    let before = requests(server);
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                scope.spawn(|| {
                    let response = get(server, target, "");
                    (is_hit(&response), response.text())
                })
            })
            .collect();
        eventually("all requests have arrived", || {
            (requests(server) >= before + CLIENTS as u64).then_some(())
        });
        release();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    })
}

#[test]
fn one_request_computes_and_the_others_wait() {
    let (origin, allow) = held("Cache-Control: max-age=600\r\n");
    let server = controlled(&origin, json!({"lock_timeout": 600}));
    let answers = at_once(&server, "/", || allow.send(()).unwrap());
    assert!(answers.iter().all(|(_, text)| text == "page 0"), "{answers:?}");
    assert_eq!(answers.iter().filter(|(is_hit, _)| !is_hit).count(), 1);
    assert_eq!(origin.asked().len(), 1);
}

/// Number of clients of an expired page.
const MANY: usize = 1000;

/// Starts an origin with a page that has expired, and a server that has it. The first request that
/// the origin gets for it again has to be allowed; its answer is the other one.
fn expired(fields: &'static str, other: &'static str) -> (Raw, mpsc::Sender<()>, Server) {
    let (allow, allowed) = mpsc::channel();
    let allowed = Mutex::new(allowed);
    let origin = origin(move |_, number| match number {
        0 => page(fields, "page 0"),
        _ => {
            let _ = allowed.lock().unwrap().recv();
            other.to_owned()
        }
    });
    let server = controlled(&origin, json!({"lock_timeout": 600}));
    assert_eq!(get(&server, "/", "").text(), "page 0");
    (origin, allow, server)
}

/// Sends requests of a thousand clients, and returns their answers. Calls `release` when the server
/// has them all.
fn a_thousand(server: &Server, release: impl FnOnce()) -> Vec<Response> {
    // The limit of this process, which has the other half of each connection.
    let own = std::process::id().to_string();
    let raised = Command::new("prlimit").args(["--pid", &own, "--nofile=8192:"]).status();
    assert!(raised.is_ok_and(|status| status.success()), "prlimit raises the limit of open files");
    let before = requests(server);
    let request = "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";
    let mut clients: Vec<_> = (0..MANY)
        .map(|_| {
            let mut client = server.connect();
            client.send(request);
            client
        })
        .collect();
    eventually("all requests have arrived", || {
        (requests(server) >= before + MANY as u64).then_some(())
    });
    release();
    clients.iter_mut().map(|client| client.response()).collect()
}

/// A thousand visitors of a page that has just expired cost one computation, however many threads
/// the server has.
#[test]
fn a_thousand_clients_of_an_expired_page_cost_one_computation() {
    let new = "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 6\r\n\r\npage 1";
    let (origin, allow, server) = expired("Cache-Control: max-age=1\r\nAge: 5\r\n", new);
    let answers = a_thousand(&server, || allow.send(()).unwrap());
    assert!(answers.iter().all(|answer| answer.text() == "page 1"));
    assert_eq!(answers.iter().filter(|answer| !is_hit(answer)).count(), 1);
    assert_eq!(origin.asked().len(), 2);
}

/// No request waits if the page may be sent while it is refreshed.
#[test]
fn a_thousand_clients_of_a_page_that_is_refreshed_cost_one_computation() {
    const FIELDS: &str = "Cache-Control: max-age=1, stale-while-revalidate=600\r\nAge: 5\r\n";
    let new = "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 6\r\n\r\npage 1";
    let (origin, allow, server) = expired(FIELDS, new);
    let answers = a_thousand(&server, || {});
    assert!(answers.iter().all(|answer| answer.text() == "page 0" && is_hit(answer)));
    assert_eq!(origin.asked().len(), 2);
    allow.send(()).unwrap();
    eventually("it is refreshed", || (get(&server, "/", "").text() == "page 1").then_some(()));
    assert_eq!(origin.asked().len(), 2);
}

/// An origin in trouble is not asked by all waiting requests at once.
#[test]
fn a_thousand_clients_of_an_expired_page_ask_a_failing_origin_once() {
    for fields in [
        "Cache-Control: max-age=1, stale-if-error=600\r\nAge: 5\r\n",
        "Cache-Control: max-age=1, stale-while-revalidate=600\r\nAge: 5\r\n",
    ] {
        let bad = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";
        let (origin, allow, server) = expired(fields, bad);
        let answers = a_thousand(&server, || allow.send(()).unwrap());
        assert!(answers.iter().all(|answer| answer.text() == "page 0"));
        assert_eq!(origin.asked().len(), 2, "{fields}");
    }
}

/// A page that cannot be shared must not make its visitors queue one behind the other.
#[test]
fn those_that_waited_in_vain_go_on_at_once() {
    let (origin, allow) = held("Cache-Control: private\r\n");
    let server = controlled(&origin, json!({"lock_timeout": 600}));
    let answers = at_once(&server, "/", || {
        allow.send(()).unwrap();
        // All others have been sent on before any of them is answered.
        eventually("the others are sent on", || (origin.asked().len() == CLIENTS).then_some(()));
        drop(allow);
    });
    assert!(answers.iter().all(|(is_hit, _)| !is_hit));
}

#[test]
fn a_leader_whose_origin_fails_holds_nobody() {
    let fails = Arc::new(AtomicBool::new(true));
    let (allow, allowed) = mpsc::channel::<()>();
    let (failing, allowed) = (Arc::clone(&fails), Mutex::new(allowed));
    let origin = Raw::new(move |connection| {
        while connection.request().is_some() {
            if failing.load(Relaxed) {
                let _ = allowed.lock().unwrap().recv();
                failing.store(false, Relaxed);
                connection.send("HTTP/1.1 nonsense\r\n\r\n");
                return;
            }
            connection.send(page("Cache-Control: max-age=600\r\n", "page"));
        }
    });
    let server = controlled(&origin, json!({"lock_timeout": 600}));
    let answers = at_once(&server, "/", || allow.send(()).unwrap());
    assert_eq!(answers.iter().filter(|(_, text)| text == "page").count(), CLIENTS - 1);
}

#[test]
fn a_stale_response_is_sent_while_it_is_refreshed() {
    let (allow, allowed) = mpsc::channel();
    let allowed = Mutex::new(allowed);
    let origin = origin(move |_, number| match number {
        0 => page("Cache-Control: max-age=1, stale-while-revalidate=600\r\nAge: 5\r\n", "old"),
        _ => {
            let _ = allowed.lock().unwrap().recv();
            page("Cache-Control: max-age=600\r\n", "new")
        }
    });
    let server = cached(&origin, json!({}));
    assert_eq!(get(&server, "/", "").text(), "old");
    for _ in 0..5 {
        let stale = get(&server, "/", "");
        assert_eq!(stale.text(), "old");
        let status = stale.field("Cache-Status").unwrap();
        assert!(status.contains("ttl=-") && status.contains("stale-while-revalidate"), "{status}");
    }
    allow.send(()).unwrap();
    eventually("the response is refreshed", || {
        (get(&server, "/", "").text() == "new").then_some(())
    });
    assert_eq!(origin.asked().len(), 2);
}

/// A client that does not read must not delay those that wait for the same response.
#[test]
fn a_slow_or_gone_client_delays_nobody() {
    const LENGTH: usize = 900_000;
    let origin = origin(|_, _| page("Cache-Control: max-age=600\r\n", "x".repeat(LENGTH)));
    let server = cached(&origin, json!({"lock_timeout": 600}));
    let mut slow = server.connect();
    slow.send("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n");
    let response = get(&server, "/", "");
    assert_eq!(response.body.len(), LENGTH);
    assert_eq!(slow.response().body.len(), LENGTH);
    eventually("the response is stored", || is_hit(&get(&server, "/", "")).then_some(()));
}

#[test]
fn an_invalidated_response_is_not_stored_after_all() {
    let (allow, allowed) = mpsc::channel();
    let allowed = Mutex::new(allowed);
    let origin = origin(move |head, number| {
        if head.starts_with("GET") && number == 0 {
            let _ = allowed.lock().unwrap().recv();
        }
        page("Cache-Control: max-age=600\r\n", number.to_string())
    });
    let server = cached(&origin, json!({}));
    thread::scope(|scope| {
        let first = scope.spawn(|| get(&server, "/", "").text());
        eventually("the origin is asked", || (!origin.asked().is_empty()).then_some(()));
        super::origin::ask(&server, "POST", "/", "");
        allow.send(()).unwrap();
        assert_eq!(first.join().unwrap(), "0");
    });
    assert_eq!(get(&server, "/", "").text(), "2");
}

/// Of requests that do not wait for each other, only one is that which an invalidation detaches.
#[test]
fn an_invalidated_response_is_not_stored_by_a_request_that_did_not_wait_either() {
    let (allow, allowed) = mpsc::channel();
    let allowed = Mutex::new(allowed);
    let origin = origin(move |head, number| {
        if head.starts_with("GET") && number < 2 {
            let _ = allowed.lock().unwrap().recv();
        }
        page("Cache-Control: max-age=600\r\n", number.to_string())
    });
    let server = cached(&origin, json!({"lock": false}));
    thread::scope(|scope| {
        let both = [(); 2].map(|()| scope.spawn(|| get(&server, "/", "").text()));
        eventually("the origin is asked twice", || (origin.asked().len() == 2).then_some(()));
        super::origin::ask(&server, "POST", "/", "");
        allow.send(()).unwrap();
        allow.send(()).unwrap();
        for one in both {
            one.join().unwrap();
        }
    });
    assert_eq!(get(&server, "/", "").text(), "3");
}

#[test]
fn an_invalidated_response_does_not_come_back_when_it_is_confirmed_late() {
    let (allow, allowed) = mpsc::channel();
    let allowed = Mutex::new(allowed);
    let origin = origin(move |head, number| {
        if head.contains("If-None-Match") || head.contains("if-none-match") {
            let _ = allowed.lock().unwrap().recv();
            return "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\nCache-Control: \
                    max-age=600\r\n\r\n"
                .into();
        }
        let fields = match number {
            0 => "ETag: \"a\"\r\nCache-Control: max-age=0\r\n",
            _ => "Cache-Control: max-age=600\r\n",
        };
        page(fields, number.to_string())
    });
    let server = cached(&origin, json!({}));
    assert_eq!(get(&server, "/", "").text(), "0");
    thread::scope(|scope| {
        let confirmed = scope.spawn(|| get(&server, "/", "").text());
        eventually("the origin is asked", || (origin.asked().len() == 2).then_some(()));
        super::origin::ask(&server, "POST", "/", "");
        allow.send(()).unwrap();
        assert_eq!(confirmed.join().unwrap(), "0");
    });
    assert_eq!(get(&server, "/", "").text(), "3");
}
