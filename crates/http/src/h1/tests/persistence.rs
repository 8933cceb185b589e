//! Several requests on one connection, and its end.

use super::*;
use crate::drain::HandedOver;

pub(super) const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

#[test]
fn a_connection_is_kept_as_the_version_and_the_client_say() {
    with_default(|server| async move {
        for (version, option, kept, said) in [
            ("1.1", "", true, None),
            ("1.1", "Connection: keep-alive\r\n", true, None),
            ("1.1", "Connection: close\r\n", false, Some("close")),
            ("1.1", "Connection: x, CLOSE\r\n", false, Some("close")),
            ("1.1", "Connection: x\r\nConnection: close\r\n", false, Some("close")),
            ("1.0", "", false, None),
            ("1.0", "Connection: Keep-Alive\r\n", true, Some("keep-alive")),
            ("1.0", "Connection: keep-alive, close\r\n", false, None),
        ] {
            let mut client = server.client().await;
            client.send(format!("GET / HTTP/{version}\r\nHost: a\r\n{option}\r\n")).await;
            let reply = client.reply().await;
            assert_eq!(reply.field("Connection"), said, "{version} {option}");
            client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await;
            assert_eq!(client.rest().await.is_empty(), !kept, "{version} {option}");
        }
    });
}

#[test]
fn a_response_may_end_the_connection() {
    with_default(|server| async move {
        let answer = server.talk(format!("GET /last HTTP/1.1\r\nHost: a\r\n\r\n{GET}")).await;
        assert!(answer.contains("Connection: close\r\n"), "{answer}");
        assert!(answer.ends_with("\r\n\r\nlast\n"), "{answer}");
    });
}

#[test]
fn a_connection_ends_after_its_last_request() {
    let limits = Limits { max_requests: Some(3), ..Limits::default() };
    with_server(limits, |server| async move {
        let answer = server.talk(GET.repeat(5)).await;
        assert_eq!(answer.matches("HTTP/1.1 200 OK").count(), 3);
        assert_eq!(answer.matches("Connection: close").count(), 1);
    });
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    with_default(|server| async move {
        let mut client = server.client().await;
        let mut requests = String::new();
        for number in 0..500 {
            let body = format!("body {number}");
            let length = body.len();
            requests.push_str(&match number % 3 {
                0 => format!("GET /facts?{number} HTTP/1.1\r\nHost: a\r\n\r\n"),
                1 => format!(
                    "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{body}"
                ),
                _ => format!(
                    "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
                     {length:x}\r\n{body}\r\n0\r\n\r\n"
                ),
            });
        }
        client.send(requests).await;
        for number in 0..500 {
            let reply = client.reply().await;
            let expected = match number % 3 {
                0 => format!("GET /facts?{number} /facts {number} a\nHost=a\n"),
                _ => format!("body {number}"),
            };
            assert_eq!(reply.text(), expected);
        }
    });
}

#[test]
fn a_response_does_not_wait_for_the_next_one() {
    with_default(|server| async move {
        let mut client = server.client().await;
        client.send(format!("{GET}GET /wait HTTP/1.1\r\nHost: a\r\n\r\n")).await;
        client.reply().await;
        client.stream.shutdown().await.unwrap();
        assert_eq!(client.reply().await.text(), "waited\n");
        // The response to the first request does not wait for the body of the next one either.
        let mut client = server.client().await;
        client
            .send(format!("{GET}POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n"))
            .await;
        client.reply().await;
        client.send("ok").await;
        assert_eq!(client.reply().await.text(), "ok");
    });
}

#[test]
fn a_request_may_come_byte_by_byte() {
    with_default(|server| async move {
        let mut client = server.client().await;
        let request = "\r\nPOST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
                       2;x=\"y\"\r\nhe\r\n3\r\nllo\r\n0\r\nA: b\r\n\r\n";
        for byte in request.bytes().chain(request.bytes()) {
            client.send([byte]).await;
            tokio::task::yield_now().await;
        }
        assert_eq!(client.reply().await.text(), "hello");
        assert_eq!(client.reply().await.text(), "hello");
    });
}

#[test]
fn head_has_the_head_of_get_and_no_body() {
    with_default(|server| async move {
        let mut client = server.client().await;
        let date = |reply: &Reply| reply.field("Date").unwrap().to_owned();
        client.send(GET).await;
        let get = client.reply().await;
        client.send(format!("HEAD{}{GET}", &GET[3..])).await;
        let head = client.head().await;
        assert_eq!(head.head.replace(&date(&head), ""), get.head.replace(&date(&get), ""));
        assert_eq!(client.reply().await.text(), "hello\n");
        // Also with bodies of unknown length.
        let script = Script::new(None, Duration::ZERO, &["a", "b"]);
        let dropped = Rc::clone(&script.dropped);
        server.answer(Body::Stream(Box::new(script)));
        client.send(format!("HEAD /body HTTP/1.1\r\nHost: a\r\n\r\n{GET}")).await;
        assert_eq!(client.head().await.field("Transfer-Encoding"), Some("chunked"));
        assert_eq!(client.reply().await.text(), "hello\n");
        assert!(dropped.get());
    });
}

#[test]
fn a_status_without_a_body_has_none() {
    with_default(|server| async move {
        let mut client = server.client().await;
        for (path, status) in [("/nothing", 204), ("/same", 304)] {
            client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n{GET}")).await;
            let reply = client.head().await;
            assert_eq!(reply.status, status);
            assert_eq!(reply.field("Content-Length"), None);
            assert_eq!(reply.field("Transfer-Encoding"), None);
            assert_eq!(client.reply().await.text(), "hello\n");
        }
    });
}

#[test]
fn a_client_that_expects_to_be_asked_is_asked_once_the_body_is_wanted() {
    with_default(|server| async move {
        let expect = "Expect: 100-Continue\r\nContent-Length: 5\r\n\r\n";
        let mut client = server.client().await;
        client.send(format!("POST /echo HTTP/1.1\r\nHost: a\r\n{expect}")).await;
        assert_eq!(client.head().await.head, "HTTP/1.1 100 Continue\r\n\r\n");
        client.send("hello").await;
        assert_eq!(client.reply().await.text(), "hello");
        // The body has arrived already, so no interim response is needed.
        client.send(format!("POST /echo HTTP/1.1\r\nHost: a\r\n{expect}hello")).await;
        assert_eq!(client.reply().await.text(), "hello");
        // There is no body.
        client.send("POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n").await;
        assert_eq!(client.reply().await.text(), "");
        // HTTP/1.0 has no interim responses.
        client.send(format!("POST /echo HTTP/1.0\r\n{expect}")).await;
        assert!(client.is_silent(Duration::from_millis(100)).await);
        client.send("hello").await;
        assert_eq!(client.reply().await.text(), "hello");
        let answer = server.talk("GET / HTTP/1.0\r\nExpect: more\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        // The handler does not read the body.
        let answer = server.talk(format!("POST / HTTP/1.1\r\nHost: a\r\n{expect}")).await;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.contains("Connection: close\r\n"), "{answer}");
        let answer = server.talk("GET / HTTP/1.1\r\nHost: a\r\nExpect: more\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 417 Expectation Failed\r\n"), "{answer}");
    });
}

#[test]
fn interim_responses_come_before_the_final_one() {
    with_default(|server| async move {
        let mut client = server.client().await;
        client.send("GET /early HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert_eq!(
            client.head().await.head,
            "HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n"
        );
        assert_eq!(client.reply().await.text(), "late\n");
        client.send("GET /early HTTP/1.0\r\n\r\n").await;
        assert_eq!(client.reply().await.status, 200);
    });
}

#[test]
fn a_handler_learns_that_its_client_has_left() {
    with_default(|server| async move {
        let request = "GET /wait HTTP/1.1\r\nHost: a\r\n\r\n";
        let mut client = server.client().await;
        client.send(request).await;
        server.sees(1).await;
        drop(client);
        server.emptied().await;
        assert_eq!(server.site.gone.take(), Some(Disconnect::Closed));
        // The client resets the connection.
        let mut client = server.client().await;
        client.send(request).await;
        server.sees(2).await;
        client.stream.set_zero_linger().unwrap();
        drop(client);
        server.emptied().await;
        assert_eq!(server.site.gone.take(), Some(Disconnect::Reset));
        assert_eq!(server.ended().last().unwrap().1, SendOutcome::ClientGone);
        // A client that only shuts down its sending direction still gets all responses, in order.
        let mut client = server.client().await;
        client.send(format!("{request}{GET}")).await;
        client.stream.shutdown().await.unwrap();
        assert_eq!(client.reply().await.text(), "waited\n");
        assert_eq!(client.reply().await.text(), "hello\n");
        assert_eq!(client.rest().await, "");
    });
}

#[test]
fn watching_for_the_client_loses_no_byte_of_the_next_request() {
    with_default(|server| async move {
        let mut client = server.client().await;
        client.send("GET /wait HTTP/1.1\r\nHost: a\r\n\r\nGET /fac").await;
        server.sees(1).await;
        client.send("ts HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await;
        client.stream.shutdown().await.unwrap();
        assert_eq!(client.reply().await.text(), "waited\n");
        assert!(client.reply().await.text().starts_with("GET /facts /facts  a\n"));
    });
}

#[test]
fn connections_end_when_they_are_told_to() {
    with_default(|server| async move {
        let mut idle = server.client().await;
        idle.send(GET).await;
        idle.reply().await;
        let mut busy = server.client().await;
        busy.send(format!("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n{GET}")).await;
        server.sees(2).await;
        let mut fresh = server.client().await;
        server.drain.start();
        assert_eq!(idle.rest().await, "");
        let reply = busy.reply().await;
        assert_eq!((reply.text(), reply.field("Connection")), ("slow\n", Some("close")));
        assert_eq!(busy.rest().await, "");
        // The time of a connection without a request began before it was accepted.
        assert!(fresh.rest().await.starts_with("HTTP/1.1 408 "));
        let mut silent = server.client().await;
        assert!(silent.rest().await.starts_with("HTTP/1.1 408 "));
        server.emptied().await;
    });
}

/// wrk and connection pools send a request at the moment at which the server decides to close the
/// idle connection; they count a connection without a response as an error.
#[test]
fn an_idle_connection_gets_its_last_response_after_a_hand_over() {
    with_default(|server| async move {
        let mut client = server.client().await;
        client.send(GET).await;
        client.reply().await;
        let mut silent = server.client().await;
        silent.send(GET).await;
        silent.reply().await;
        let idle_until = tokio::time::Instant::now() + Duration::from_secs(3600);
        server.drain.hand_over(HandedOver { idle_until, tunnels_until: None, is_accepting: false });
        server.drain.idle_closed().await;
        client.send(GET).await;
        assert_eq!(client.reply().await.field("Connection"), Some("close"));
        assert_eq!(client.rest().await, "");
        let idle_until = tokio::time::Instant::now();
        server.drain.hand_over(HandedOver { idle_until, tunnels_until: None, is_accepting: false });
        assert_eq!(silent.rest().await, "");
        server.emptied().await;
    });
}

#[test]
fn responses_gathered_for_a_client_that_is_gone_are_dropped() {
    with_default(|server| async move {
        let (mut client, stream) = tokio::io::duplex(1000);
        let get = "GET /body HTTP/1.1\r\nHost: a\r\n\r\n";
        client.write_all(format!("{GET}{get}").as_bytes()).await.unwrap();
        drop(client);
        server.answer(Body::Bytes(vec![b'x'; 100_000].into()));
        let info = Arc::new(ConnectionInfo::default());
        serve(stream, info, &*server.site, Drain::new().register()).await;
        assert_eq!(server.ended(), [(200, SendOutcome::Complete), (200, SendOutcome::ClientGone)]);
    });
}

/// The removal of a listener was reported before its connections had a turn, and requests sent
/// after the report were served.
#[test]
fn an_idle_connection_takes_no_request_once_all_have_heard_of_the_end() {
    with_default(|server| async move {
        let mut idle = Vec::new();
        for _ in 0..200 {
            let mut client = server.client().await;
            client.send(GET).await;
            client.reply().await;
            idle.push(client);
        }
        let mut early = server.client().await;
        early.stream.try_write(GET.as_bytes()).unwrap();
        server.drain.start();
        server.drain.idle_closed().await;
        for client in &idle {
            let _ = client.stream.try_write(GET.as_bytes());
        }
        for client in &mut idle {
            assert_eq!(client.rest().await, "");
        }
        assert!(early.rest().await.contains("hello"), "what was sent before is served");
    });
}

#[test]
fn a_connection_that_waits_is_small() {
    with_default(|server| async move {
        let (_client, stream) = tokio::net::UnixStream::pair().unwrap();
        let info = Arc::new(ConnectionInfo::default());
        let waiting = serve(stream, info, &*server.site, Drain::new().register());
        assert!(size_of_val(&waiting) <= 240, "{} bytes", size_of_val(&waiting));
    });
}

#[test]
fn a_head_that_a_client_leaves_off_is_reported_and_not_answered() {
    with_default(|server| async move {
        for head in ["GE", "GET / HTTP/1.1", "GET / HTTP/1.1\r\n", "\r\nGET / HTTP/1.1\r\nA: b\r\n"]
        {
            let mut client = server.client().await;
            client.send(head).await;
            client.stream.shutdown().await.unwrap();
            assert_eq!(client.rest().await, "", "{head:?}");
            server.emptied().await;
            assert_eq!(server.ended().pop(), Some((400, SendOutcome::ClientGone)), "{head:?}");
        }
        let before = server.ended().len();
        for nothing in ["", "\r\n"] {
            let mut client = server.client().await;
            client.send(nothing).await;
            client.stream.shutdown().await.unwrap();
            client.rest().await;
        }
        server.emptied().await;
        assert_eq!(server.ended().len(), before);
    });
}

#[test]
fn the_time_of_a_request_counts_from_its_first_byte() {
    with_default(|server| async move {
        let mut client = server.client().await;
        sleep(Duration::from_millis(600)).await;
        let started_at = std::time::Instant::now();
        client.send(GET).await;
        client.reply().await;
        assert!(server.site.elapsed.get() <= started_at.elapsed());
        client.send("G").await;
        sleep(Duration::from_millis(600)).await;
        client.send(&GET[1..]).await;
        client.reply().await;
        assert!(server.site.elapsed.get() >= Duration::from_millis(600));
        let started_at = std::time::Instant::now();
        client.send(GET).await;
        client.reply().await;
        assert!(server.site.elapsed.get() <= started_at.elapsed());
    });
}
