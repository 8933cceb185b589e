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
        assert!(proxy.log().contains("it has no servers"), "{}", proxy.log());
    });
}

/// Returns an upstream with these settings for requests that are sent again.
fn again(backends: &[&Backend], tries: usize, change: impl FnOnce(&mut config::Retry)) -> Upstream {
    let mut upstream = several(backends, tries, 0);
    change(&mut upstream.config.retry);
    upstream
}

fn on(change: impl FnOnce(&mut config::RetryConditions)) -> impl FnOnce(&mut config::Retry) {
    |retry| {
        let mut on = config::RetryConditions::default();
        change(&mut on);
        retry.on = Some(on);
    }
}

const BUSY: &str = "HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy";

#[test]
fn a_listed_status_is_not_shown_while_another_server_has_an_answer() {
    with(|| async {
        let (one, two) = (Backend::new([close(BUSY)]).await, Backend::new([close(OK)]).await);
        let retry = on(|on| on.statuses = vec![(503, 503)]);
        let proxy = Proxy::new(again(&[&one, &two], 2, retry), timeouts()).await;
        for _ in 0..4 {
            assert_eq!(content(&proxy.get().await), "ok");
        }
        assert_eq!((one.requests(), two.requests()), (2, 4));
        assert!(proxy.log().contains("answered with 503, so another server"), "{}", proxy.log());
        // A body may have taken effect.
        let statuses = [status(&proxy.talk(POST).await), status(&proxy.talk(POST).await)];
        assert_eq!(statuses, [503, 200]);
    });
}

#[test]
fn the_last_answer_is_shown_whatever_its_status() {
    with(|| async {
        let (one, two) = (Backend::new([close(BUSY)]).await, Backend::new([close(BUSY)]).await);
        let retry = on(|on| on.statuses = vec![(500, 599)]);
        let proxy = Proxy::new(again(&[&one, &two], 5, retry), timeouts()).await;
        assert_eq!(content(&proxy.get().await), "busy");
        assert_eq!((one.requests(), two.requests()), (1, 1));
    });
}

#[test]
fn listed_methods_are_sent_again_with_their_body() {
    with(|| async {
        let (one, two) = (Backend::new([close("")]).await, Backend::new([close(OK)]).await);
        let methods = |retry: &mut config::Retry| retry.methods = Some(vec!["POST".to_owned()]);
        let proxy = Proxy::new(again(&[&one, &two], 2, methods), timeouts()).await;
        assert_eq!(status(&proxy.talk(POST).await), 200);
        assert!(two.seen.borrow()[0].ends_with("\r\n\r\nabc"), "{:?}", two.seen);
        assert_eq!(status(&proxy.talk(POST).await), 200);
        // A method that is not listed is not repeated, even if it is idempotent.
        assert_eq!(status(&proxy.get().await), 502);
    });
}

#[test]
fn an_invalid_answer_is_asked_for_again_if_that_is_said() {
    with(|| async {
        for invalid in ["HTTP/1.1 200", "SSH-2.0\r\n\r\n", "HTTP/1.1 200 OK\r\nA\r\n\r\n"] {
            let (one, two) =
                (Backend::new([close(invalid)]).await, Backend::new([close(OK)]).await);
            let retry = on(|on| on.invalid_response = true);
            let proxy = Proxy::new(again(&[&one, &two], 2, retry), timeouts()).await;
            assert_eq!(status(&proxy.get().await), 200, "{invalid}");
            let none = Proxy::new(again(&[&one, &two], 2, on(|_| {})), timeouts()).await;
            assert_eq!(status(&none.get().await), 502, "{invalid}");
        }
    });
}

#[test]
fn after_its_time_no_further_server_is_asked() {
    with(|| async {
        let slow = Answer { early: true, ..close(BUSY) };
        let servers = [Backend::new([slow]).await, Backend::new([close(OK)]).await];
        let short = |retry: &mut config::Retry| {
            on(|on| on.statuses = vec![(503, 503)])(retry);
            retry.timeout = Some(Duration::from_nanos(1));
        };
        let proxy = Proxy::new(again(&[&servers[0], &servers[1]], 2, short), timeouts()).await;
        assert_eq!(status(&proxy.get().await), 503);
        assert_eq!(servers[1].requests(), 0);
    });
}

#[test]
fn servers_that_refuse_everything_get_few_requests_more() {
    with(|| async {
        let backends = [
            Backend::new([close(BUSY)]).await,
            Backend::new([close(BUSY)]).await,
            Backend::new([close(BUSY)]).await,
        ];
        let retry = on(|on| on.statuses = vec![(500, 599)]);
        let all = [&backends[0], &backends[1], &backends[2]];
        let proxy = Proxy::new(again(&all, 3, retry), timeouts()).await;
        for _ in 0..300 {
            assert_eq!(status(&proxy.get().await), 503);
        }
        let sent: usize = backends.iter().map(Backend::requests).sum();
        // A hundred at first, and a fifth of all.
        assert!(sent <= 300 + 100 + 60, "{sent}");
    });
}
