//! Connections that are closed when descriptors run short.

use super::persistence::GET;
use super::*;

/// Waits until `count` connections may be evicted. Returns the one that waits longest.
async fn oldest(server: &Server, count: usize) -> (usize, bool) {
    let waiting = async {
        loop {
            let waiting = server.drain.waiting();
            if waiting.len() == count {
                let oldest = waiting.iter().min_by_key(|one| one.since).unwrap();
                return (oldest.key, oldest.is_idle);
            }
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(TEST_TIMEOUT, waiting).await.expect("a connection waits")
}

#[test]
fn heads_that_are_not_complete_and_idle_connections_are_cut_without_a_word() {
    with_default(|server| async move {
        for (bytes, is_idle) in [("", false), ("GET / HT", false), (GET, true)] {
            let mut client = server.client().await;
            client.send(bytes).await;
            if is_idle {
                client.reply().await;
            }
            let (place, was_idle) = oldest(&server, 1).await;
            assert_eq!(was_idle, is_idle, "{bytes:?}");
            server.drain.evict(place);
            assert_eq!(client.rest().await, "", "{bytes:?}");
        }
        server.emptied().await;
        assert_eq!(server.ended(), [(200, SendOutcome::Complete)]);
    });
}

#[test]
fn a_body_that_is_not_complete_is_answered_with_408_and_the_connection_ends_at_once() {
    with_default(|server| async move {
        let head = "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nabc";
        let mut client = server.client().await;
        client.send(head).await;
        let (place, is_idle) = oldest(&server, 1).await;
        assert!(!is_idle);
        server.drain.evict(place);
        // The server has stopped reading from the connection.
        timeout(Duration::from_secs(4), server.emptied()).await.expect("it does not linger");
        assert!(client.rest().await.starts_with("HTTP/1.1 408 "));
        assert_eq!(server.ended(), [(408, SendOutcome::Complete)]);
    });
}

#[test]
fn what_is_left_of_a_body_after_its_response_holds_no_connection() {
    with_default(|server| async move {
        let mut client = server.client().await;
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nabc").await;
        assert_eq!(client.reply().await.status, 200);
        let (place, is_idle) = oldest(&server, 1).await;
        assert!(is_idle);
        server.drain.evict(place);
        assert_eq!(client.rest().await, "");
    });
}

#[test]
fn a_connection_that_lingers_may_be_cut() {
    with_default(|server| async move {
        let mut client = server.client().await;
        client.send("no HTTP\r\n\r\n").await;
        assert_eq!(client.head().await.status, 400);
        let (place, is_idle) = oldest(&server, 1).await;
        assert!(is_idle);
        server.drain.evict(place);
        timeout(Duration::from_secs(4), server.emptied()).await.expect("it does not linger");
    });
}

#[test]
fn a_request_in_hand_is_never_cut() {
    with_default(|server| async move {
        let mut client = server.client().await;
        client.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n").await;
        server.sees(1).await;
        assert!(server.drain.waiting().is_empty());
        server.drain.evict(0);
        assert_eq!(client.reply().await.text(), "slow\n");
        // A request that arrives together with the eviction is served.
        let (place, _) = oldest(&server, 1).await;
        client.stream.try_write(GET.as_bytes()).unwrap();
        tokio::task::yield_now().await;
        server.drain.evict(place);
        assert_eq!(client.reply().await.text(), "hello\n");
        client.send(GET).await;
        assert_eq!(client.reply().await.text(), "hello\n");
    });
}
