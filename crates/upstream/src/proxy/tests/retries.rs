//! Selection of the server, and requests that are sent twice.

use super::*;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const POST: &str =
    "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc";

/// Returns an address without a listener.
async fn nowhere() -> Backend {
    let backend = Backend::new([]).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    Backend { address: listener.local_addr().unwrap(), ..backend }
}

#[test]
fn servers_take_turns() {
    with(|| async {
        let (one, two) = (Backend::new([close(OK)]).await, Backend::new([close(OK)]).await);
        let proxy = Proxy::new(several(&[&one, &two], 1, 0), timeouts()).await;
        for _ in 0..6 {
            assert_eq!(status(&proxy.get().await), 200);
        }
        assert_eq!((one.requests(), two.requests()), (3, 3));
    });
}

#[test]
fn a_server_that_is_not_there_is_answered_for_with_502() {
    with(|| async {
        let (one, two) = (nowhere().await, Backend::new([close(OK)]).await);
        let proxy = Proxy::new(several(&[&one, &two], 1, 0), timeouts()).await;
        let mut statuses = Vec::new();
        for _ in 0..4 {
            statuses.push(status(&proxy.get().await));
        }
        assert_eq!(statuses, [502, 200, 502, 200]);
        assert!(proxy.log().contains("cannot connect: Connection refused"), "{}", proxy.log());
        assert_eq!(*proxy.statuses.borrow(), statuses);
    });
}

#[test]
fn with_more_tries_the_next_server_is_asked() {
    with(|| async {
        let (one, two) = (nowhere().await, Backend::new([close(OK)]).await);
        let proxy = Proxy::new(several(&[&one, &two], 2, 0), timeouts()).await;
        for request in ["GET / HTTP/1.0\r\n\r\n", POST] {
            for _ in 0..4 {
                assert_eq!(status(&proxy.talk(request).await), 200);
            }
        }
        assert_eq!(two.requests(), 8);
    });
}

#[test]
fn a_request_that_may_have_been_acted_upon_is_not_sent_again() {
    with(|| async {
        let (one, two) = (Backend::new([close("")]).await, Backend::new([close(OK)]).await);
        let proxy = Proxy::new(several(&[&one, &two], 2, 0), timeouts()).await;
        assert_eq!(status(&proxy.talk(POST).await), 502);
        assert_eq!((one.requests(), two.requests()), (1, 0));
        assert_eq!(status(&proxy.talk(POST).await), 200);
        // An idempotent request is.
        assert_eq!(status(&proxy.get().await), 200);
        assert_eq!((one.requests(), two.requests()), (2, 2));
    });
}

#[test]
fn after_the_first_byte_timeout_only_an_idempotent_request_goes_to_another_server() {
    with(|| async {
        let silent = Backend::new([Answer { parts: Vec::new(), ..keep("") }]).await;
        let two = Backend::new([close(OK)]).await;
        let proxy = Proxy::new(several(&[&silent, &two], 2, 0), impatient()).await;
        assert_eq!(status(&proxy.talk(POST).await), 504);
        assert_eq!((silent.requests(), two.requests()), (1, 0));
        assert_eq!(status(&proxy.talk(POST).await), 200);
        assert_eq!(status(&proxy.get().await), 200);
        assert_eq!((silent.requests(), two.requests()), (2, 2));
    });
}

#[test]
fn an_answer_that_has_begun_is_not_asked_for_again() {
    with(|| async {
        let one = Backend::new([close("HTTP/1.1 200")]).await;
        let two = Backend::new([close(OK)]).await;
        let proxy = Proxy::new(several(&[&one, &two], 2, 0), timeouts()).await;
        assert_eq!(status(&proxy.get().await), 502);
        assert_eq!((one.requests(), two.requests()), (1, 0));
    });
}

#[test]
fn without_a_server_there_is_502() {
    with(|| async {
        let proxy = Proxy::new(several(&[], 3, 0), timeouts()).await;
        assert_eq!(status(&proxy.get().await), 502);
        assert!(proxy.log().contains("no server has a weight"), "{}", proxy.log());
    });
}
