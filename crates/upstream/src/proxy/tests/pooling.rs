//! Idle connections: when they are reused, and when they must not be.

use super::*;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

async fn pooled(backend: &Backend) -> Proxy {
    Proxy::new(several(&[backend], 1, 2), timeouts()).await
}

#[test]
fn a_connection_is_used_again_once_a_response_has_ended() {
    with(|| async {
        for answer in [
            OK,
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
            "HTTP/1.1 304 Not Modified\r\n\r\n",
        ] {
            let backend = Backend::new([keep(answer)]).await;
            let proxy = pooled(&backend).await;
            for _ in 0..3 {
                assert_eq!(status(&proxy.get().await), status(answer));
            }
            assert_eq!((backend.connections.get(), backend.requests()), (1, 3));
            assert!(backend.seen.borrow()[0].contains("Connection: keep-alive\r\n"));
        }
    });
}

#[test]
fn a_connection_is_not_used_again_if_anything_speaks_against_it() {
    with(|| async {
        for answer in [
            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
            "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
            // Hardening 30: bytes after a response are never the response to another request.
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: \
             4\r\n\r\nevil",
            "HTTP/1.1 204 No Content\r\nContent-Length: 4\r\n\r\nevil",
        ] {
            let backend = Backend::new([keep(answer)]).await;
            let proxy = pooled(&backend).await;
            for _ in 0..3 {
                let reply = proxy.get().await;
                assert!(!reply.contains("evil"), "{reply}");
            }
            assert_eq!(backend.connections.get(), 3, "{answer}");
        }
    });
}

#[test]
fn bytes_that_nobody_asked_for_are_nobodys_answer() {
    with(|| async {
        let late = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil".to_vec();
        let answer = Answer { parts: vec![OK.into(), late], ..keep("") };
        let backend = Backend::new([answer, keep(OK)]).await;
        let proxy = pooled(&backend).await;
        assert_eq!(content(&proxy.get().await), "ok");
        let late_is_sent = async {
            while backend.sent.get() < 2 {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(TEST_TIMEOUT, late_is_sent).await.expect("the server sends more");
        assert_eq!(content(&proxy.get().await), "ok");
        assert_eq!(backend.connections.get(), 2);
    });
}

#[test]
fn a_connection_that_the_server_closes_meanwhile_is_replaced() {
    with(|| async {
        // The server reads the second request, and closes the connection instead of answering.
        let backend = Backend::new([keep(OK), close(""), keep(OK)]).await;
        let proxy = pooled(&backend).await;
        assert_eq!(content(&proxy.get().await), "ok");
        assert_eq!(content(&proxy.get().await), "ok");
        assert_eq!((backend.connections.get(), backend.requests()), (2, 3));
        assert_eq!(proxy.log(), "");
    });
}

#[test]
fn a_request_that_must_not_be_repeated_gets_a_connection_of_its_own() {
    with(|| async {
        let backend = Backend::new([keep(OK)]).await;
        let proxy = pooled(&backend).await;
        let post = "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx";
        assert_eq!(content(&proxy.get().await), "ok");
        assert_eq!(content(&proxy.talk(post).await), "ok");
        assert_eq!(backend.connections.get(), 2);
        // Both connections are idle now.
        assert_eq!(content(&proxy.get().await), "ok");
        assert_eq!(backend.connections.get(), 2);
    });
}

#[test]
fn idle_connections_are_closed_after_their_time() {
    with(|| async {
        let backend = Backend::new([keep(OK)]).await;
        let brief = Timeouts { idle: Duration::from_secs(2), ..timeouts() };
        let proxy = Proxy::new(several(&[&backend], 1, 2), brief).await;
        assert_eq!(content(&proxy.get().await), "ok");
        assert_eq!(backend.closed.get(), 0);
        let gone = async {
            while backend.closed.get() == 0 {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(TEST_TIMEOUT, gone).await.expect("the connection stays");
    });
}
