//! Clients that exceed limits of size or time.

use super::*;

const MS: fn(u64) -> Duration = Duration::from_millis;

fn impatient() -> Limits {
    Limits {
        header_timeout: MS(800),
        body_timeout: MS(800),
        send_timeout: MS(800),
        idle_timeout: MS(800),
        ..Limits::default()
    }
}

/// Limits that a client keeps although the machine is busy for a few seconds.
fn unhurried() -> Limits {
    Limits { body_timeout: MS(4000), idle_timeout: MS(4000), ..Limits::default() }
}

#[test]
fn a_head_beyond_the_limits_is_refused() {
    with_default(|server| async move {
        let long = "x".repeat(1024 * 1024);
        let many = |count| "A: b\r\n".repeat(count);
        for (status, request) in [
            (414, format!("GET /{long} HTTP/1.1\r\nHost: a\r\n\r\n")),
            (414, format!("{long} / HTTP/1.1\r\nHost: a\r\n\r\n")),
            (414, long.clone()),
            (431, format!("GET / HTTP/1.1\r\nHost: a\r\nA: {long}\r\n\r\n")),
            (431, format!("GET / HTTP/1.1\r\nHost: {long}\r\n\r\n")),
            (431, format!("GET / HTTP/1.1\r\nHost: a\r\n{long}: b\r\n\r\n")),
            (431, format!("GET / HTTP/1.1\r\nHost: a\r\nA: {}\r\n\r\n", "x".repeat(8192))),
            (431, format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", many(100))),
            (431, format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", many(10_000))),
            (200, format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", many(99))),
            (200, format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(8000))),
            (200, format!("GET / HTTP/1.1\r\nHost: a\r\nA: {}\r\n\r\n", "x".repeat(8191))),
        ] {
            let mut client = server.client().await;
            client.send(&request).await;
            let reply = client.reply().await;
            assert_eq!(reply.status, status, "{:.60}", request);
        }
        assert_eq!(server.seen().len(), 3);
    });
}

#[test]
fn a_body_beyond_the_limit_is_refused_before_it_is_read() {
    let limits = Limits { max_body: 1000, ..Limits::default() };
    with_server(limits, |server| async move {
        let answer =
            server.talk("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 413 Content Too Large\r\n"), "{answer}");
        let answer = server
            .talk(
                "POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\
                 Content-Length: 1001\r\n\r\n",
            )
            .await;
        assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
        assert!(server.seen().is_empty());
        let chunks = format!("3e8\r\n{}\r\n1\r\nx\r\n0\r\n\r\n", "x".repeat(1000));
        let head = "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        let answer = server.talk(format!("{head}{chunks}")).await;
        assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
        let mut client = server.client().await;
        client.send(format!("{head}3e8\r\n{}\r\n0\r\n\r\n", "x".repeat(1000))).await;
        assert_eq!(client.reply().await.body.len(), 1000);
    });
}

#[test]
fn a_client_that_goes_on_sending_can_read_why_it_was_refused() {
    let limits = Limits { max_body: 1000, ..Limits::default() };
    with_server(limits, |server| async move {
        let mut client = server.client().await;
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 8000000\r\n\r\n").await;
        client.send("x".repeat(4_000_000)).await;
        assert_eq!(client.head().await.status, 413);
        client.rest().await;
    });
}

#[test]
fn a_body_of_unknown_length_can_be_forbidden() {
    let limits = Limits { chunked_bodies: false, ..Limits::default() };
    with_server(limits, |server| async move {
        let answer = server
            .talk("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
            .await;
        assert!(answer.starts_with("HTTP/1.1 411 Length Required\r\n"), "{answer}");
    });
}

#[test]
fn a_head_that_does_not_come_in_time_is_answered_with_408() {
    with_server(impatient(), |server| async move {
        for start in ["G", "GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nHost: a\r\nA: b\r\n"] {
            let answer = server.talk(start).await;
            assert!(answer.starts_with("HTTP/1.1 408 Request Timeout\r\n"), "{answer}");
        }
        // Sending byte by byte does not extend the time.
        let mut client = server.client().await;
        let started_at = std::time::Instant::now();
        client.send("GET / HTTP/1.1\r\nHost: a\r\nX: ").await;
        while client.is_silent(MS(50)).await {
            client.send("y").await;
            assert!(started_at.elapsed() < TEST_TIMEOUT, "it goes on and on");
        }
        assert_eq!(client.head().await.status, 408);
        assert!(server.seen().is_empty());
        server.emptied().await;
    });
}

#[test]
fn an_idle_connection_is_told_that_it_ends() {
    with_server(impatient(), |server| async move {
        let mut client = server.client().await;
        assert!(client.rest().await.starts_with("HTTP/1.1 408 "));
    });
    with_server(unhurried(), |server| async move {
        let mut client = server.client().await;
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        client.reply().await;
        assert!(client.is_silent(MS(200)).await);
        assert!(client.rest().await.starts_with("HTTP/1.1 408 "));
        server.emptied().await;
    });
}

#[test]
fn a_body_that_stalls_is_answered_with_408() {
    with_server(impatient(), |server| async move {
        let answer =
            server.talk("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhel").await;
        assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    });
    // A slow client that never stalls is served.
    with_server(unhurried(), |server| async move {
        let mut client = server.client().await;
        client.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n").await;
        for byte in "hello".bytes() {
            sleep(MS(1000)).await;
            client.send([byte]).await;
        }
        assert_eq!(client.reply().await.text(), "hello");
    });
}

#[test]
fn a_body_below_the_least_rate_is_cut() {
    let limits = Limits { min_rate: 100, grace: MS(500), ..Limits::default() };
    with_server(limits, |server| async move {
        let mut client = server.client().await;
        client.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n").await;
        let started_at = std::time::Instant::now();
        while client.is_silent(MS(50)).await {
            client.send("x").await;
        }
        assert_eq!(client.head().await.status, 408);
        assert!(
            (MS(400)..MS(10_000)).contains(&started_at.elapsed()),
            "{:?}",
            started_at.elapsed()
        );
    });
}

#[test]
fn a_client_that_does_not_read_is_cut() {
    with_server(impatient(), |server| async move {
        server.answer(Body::Bytes(Bytes::from(vec![b'x'; 50_000_000])));
        let mut client = server.client().await;
        client.send("GET /body HTTP/1.1\r\nHost: a\r\n\r\n").await;
        while server.ended().is_empty() {
            sleep(MS(20)).await;
        }
        assert_eq!(server.ended(), [(200, SendOutcome::ClientGone)]);
        let (_, _, sent) = server.site.ended.borrow()[0];
        assert!(sent < 50_000_000);
        assert!(client.rest().await.len() < 50_000_000);
    });
}

#[test]
fn slow_clients_do_not_hold_up_others() {
    with_default(|server| async move {
        let mut slow = Vec::new();
        for number in 0..100 {
            let mut client = server.client().await;
            client
                .send(
                    ["G", "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nx"]
                        [number % 2],
                )
                .await;
            slow.push(client);
        }
        let started_at = std::time::Instant::now();
        for _ in 0..50 {
            let mut client = server.client().await;
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
            assert_eq!(client.reply().await.status, 200);
        }
        assert!(started_at.elapsed() < Duration::from_secs(10), "{:?}", started_at.elapsed());
    });
}

#[test]
fn limits_may_change_from_one_request_to_the_next() {
    with_default(|server| async move {
        let mut client = server.client().await;
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert_eq!(client.reply().await.field("Server"), Some("Howdah"));
        let limits = Limits { server: Bytes::new(), max_body: 1, ..Limits::default() };
        *server.site.limits.borrow_mut() = Rc::new(limits);
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert_eq!(client.reply().await.field("Server"), None);
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n").await;
        assert_eq!(client.reply().await.status, 413);
    });
}
