//! Limits of a connection, and its end.

use super::super::varint;
use super::*;
use crate::streams::{FREE_STREAMS, MAX_ABANDONED, SHUTDOWN_IDLE_TIMEOUT};

/// Returns the ids of the GOAWAYs that the server has sent.
fn goaways(client: &Client) -> Vec<u64> {
    let mut input = Bytes::from(client.wire.received(3));
    let _ = input.split_to(1.min(input.len()));
    let (mut frames, mut ids, mut last) = (Frames::default(), Vec::new(), 0);
    while let Some(piece) = frames.next(&mut input) {
        match piece {
            Piece::Head(frame) => last = frame.kind,
            Piece::Payload(bytes) if last == kind::GOAWAY => {
                ids.extend(varint::read(&bytes).map(|(id, _)| id));
            }
            Piece::Payload(_) => {}
        }
    }
    ids
}

#[test]
fn a_connection_that_ends_answers_what_was_accepted_and_rejects_the_rest() {
    run(async {
        let client = Client::connect();
        client.wire.set_rtt(Duration::from_secs(1)); // there is time for a request
        let first = client.request(&[get("/wait")]);
        until(|| client.teller.0.waiting.get() == 1).await;
        client.drain.start();
        until(|| !goaways(&client).is_empty()).await;
        assert_eq!(goaways(&client)[0], (1 << 62) - 4);
        // It was on its way.
        let second = client.request(&[get("/")]);
        assert_eq!(client.answer(second).await.status(), Some("200"));
        until(|| goaways(&client).len() == 2).await;
        assert_eq!(goaways(&client)[1], second + 4);
        let third = client.request(&[get("/")]);
        let rejected = Code::RequestRejected.number();
        assert_eq!(client.answer(third).await.end, Some(End::Reset(rejected)));
        assert_eq!(client.wire.stop_code(third), Some(rejected));
        assert_eq!(client.wire.closed(), None);
        client.wire.stop(first);
        assert_eq!(client.code().await, Some(Code::NoError.number()));
        until(|| client.served.get()).await;
        assert!(client.teller.0.misbehaviour.borrow().is_none());
    });
}

#[test]
fn an_idle_connection_is_closed_without_an_error() {
    run(async {
        let short = Duration::from_millis(30);
        let limits = Limits { idle_timeout: short, header_timeout: short, ..Limits::default() };
        for sends in [false, true] {
            let client = Client::connect_with(limits.clone());
            if sends {
                assert_eq!(client.get("/").await.status(), Some("200"));
            }
            assert_eq!(client.code().await, Some(Code::NoError.number()));
            assert_eq!(goaways(&client).len(), 2);
        }
    });
}

#[test]
fn a_connection_that_ends_waits_until_the_client_has_taken_the_last_response() {
    run(async {
        let client = Client::connect();
        client.wire.set_silent(true);
        assert_eq!(client.get("/").await.status(), Some("200"));
        client.drain.start();
        until(|| goaways(&client).len() == 2).await;
        // Longer than it waits for a request.
        tokio::time::sleep(SHUTDOWN_IDLE_TIMEOUT + Duration::from_millis(200)).await;
        assert_eq!(client.wire.closed(), None);
        client.wire.set_silent(false);
        assert_eq!(client.code().await, Some(Code::NoError.number()));
    });
}

#[test]
fn a_head_that_does_not_end_times_out() {
    run(async {
        let header_timeout = Duration::from_millis(30);
        let client = Client::connect_with(Limits { header_timeout, ..Limits::default() });
        let id = client.wire.open();
        client.wire.send(id, &get("/")[..5]);
        assert_eq!(client.answer(id).await.status(), Some("408"));
        until(|| client.wire.stop_code(id).is_some()).await;
        assert_eq!(client.wire.stop_code(id), Some(Code::NoError.number()));
    });
}

#[test]
fn a_client_that_cancels_far_more_than_it_lets_complete_is_cut_off() {
    run(async {
        // Requests that are cancelled, streams that are reset, and streams that end without a head.
        for attack in 0..3 {
            let client = Client::connect();
            for _ in 0..10 * MAX_ABANDONED {
                let id = client.wire.open();
                match attack {
                    0 => {
                        client.wire.send(id, get("/wait"));
                        client.wire.finish(id);
                        until(|| client.teller.0.waiting.get() > 0 || client.served.get()).await;
                        client.wire.stop(id);
                    }
                    1 => client.wire.reset(id),
                    _ => client.wire.finish(id),
                }
                until(|| client.teller.0.waiting.get() == 0).await;
                yield_now().await;
                if client.wire.closed().is_some() {
                    break;
                }
            }
            assert_eq!(client.code().await, Some(Code::ExcessiveLoad.number()), "{attack}");
            until(|| client.served.get()).await;
            let logged = client.teller.0.misbehaviour.borrow().clone().unwrap();
            assert!(logged.contains("cancels more requests"), "{logged}");
        }
    });
}

#[test]
fn a_client_that_sends_frames_without_a_use_is_cut_off() {
    run(async {
        let excessive = Some(Code::ExcessiveLoad.number());
        let client = Client::connect();
        let encoder = client.wire.open_uni();
        client.wire.send(encoder, [2]);
        for _ in 0..10_000 {
            client.wire.send(encoder, [0x20]);
            if client.wire.closed().is_some() {
                break;
            }
            yield_now().await;
        }
        assert_eq!(client.code().await, excessive);
        until(|| client.served.get()).await;
        let logged = client.teller.0.misbehaviour.borrow().clone().unwrap();
        assert!(logged.contains("mostly QPACK frames"), "{logged}");
        // Within a request.
        let client = Client::connect();
        let id = client.wire.open();
        client.wire.send(id, head("POST", "/up", &[]));
        client.wire.send(id, data(b"").repeat(5000));
        assert_eq!(client.code().await, excessive);
        // Long frames of unknown types are none.
        let client = Client::connect();
        let unknown = frame(0x21, &[0; 100_000]);
        let id = client.request(&[unknown.clone(), get("/"), unknown]);
        assert_eq!(client.answer(id).await.status(), Some("200"));
    });
}

#[test]
fn an_evicted_connection_is_closed() {
    run(async {
        let client = Client::connect();
        assert_eq!(client.get("/").await.status(), Some("200"));
        until(|| !client.drain.waiting().is_empty()).await;
        // One with a head that has not arrived may be evicted, too.
        let id = client.wire.open();
        client.wire.send(id, &get("/")[..5]);
        until(|| client.drain.waiting().iter().any(|waiting| !waiting.is_idle)).await;
        client.drain.evict(client.drain.waiting()[0].key);
        assert_eq!(client.code().await, Some(Code::NoError.number()));
        until(|| client.served.get()).await;
    });
}

#[test]
fn more_requests_than_permitted_wait_for_others() {
    run(async {
        let client = Client::connect();
        let ids: Vec<_> = (0..120).map(|_| client.request(&[get("/wait")])).collect();
        until(|| client.teller.0.waiting.get() == 100).await;
        for _ in 0..50 {
            yield_now().await;
        }
        assert_eq!(client.teller.0.waiting.get(), 100);
        ids.iter().take(30).for_each(|id| client.wire.stop(*id));
        until(|| client.teller.0.waiting.get() == 90).await;
    });
}

#[test]
fn heads_that_do_not_arrive_count_as_memory_of_their_client() {
    /// 64 MiB of 32 KiB each; the first requests of a connection count apart.
    const OF_CLIENT: usize = 2048;
    run(async {
        let (mut clients, mut ids) = (Vec::new(), Vec::new());
        for _ in 0..OF_CLIENT / 90 {
            let client = Client::from(([198, 51, 100, 77], 1).into(), Limits::default());
            for _ in 0..100 {
                let id = client.wire.open();
                client.wire.send(id, &get("/")[..5]);
                ids.push((clients.len(), id));
            }
            clients.push(client);
        }
        let rejected = End::Reset(Code::RequestRejected.number());
        let is_rejected =
            |(client, id): &(usize, u64)| clients[*client].wire.ended(*id) == Some(rejected);
        until(|| ids.iter().any(is_rejected)).await;
        for _ in 0..100 {
            yield_now().await;
        }
        let refused = ids.iter().filter(|id| is_rejected(id)).count();
        let first = FREE_STREAMS * clients.len();
        assert_eq!(ids.len() - refused, OF_CLIENT + first);
        clients.iter().for_each(|client| client.wire.leave());
        until(|| clients.iter().all(|client| client.served.get())).await;
    });
}
