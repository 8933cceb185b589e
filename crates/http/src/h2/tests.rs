//! Requests count as memory until their handlers have ended.

use std::cell::Cell;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use h2::{Reason, client};
use http::Request;
use tokio::io::duplex;
use tokio::sync::Semaphore;
use tokio::task::{LocalSet, spawn_local, yield_now};

use crate::body::Body;
use crate::drain::Drain;
use crate::error_status::RequestError;
use crate::exchange::{Exchange, Handler, RequestRecord};
use crate::h2::serve;
use crate::limits::Limits;
use crate::memory::{FIRST_STREAMS, STREAMS};
use crate::message::{ConnectionInfo, Response};
use crate::streams::FREE_STREAMS;

/// Number of requests that a client may have: 64 MiB of 32 KiB each.
const OF_CLIENT: usize = 2048;

/// A handler whose requests end when they are told to, although their client has gone.
struct Patient {
    running: Cell<usize>,
    ended: Semaphore,
}

impl Handler for &Patient {
    fn limits(&self) -> Rc<Limits> {
        Rc::default()
    }

    fn next_id(&self) -> u64 {
        1
    }

    async fn handle(&self, exchange: &mut Exchange<'_>) -> Response {
        if !exchange.admits() {
            return Response::unsent(503);
        }
        self.running.set(self.running.get() + 1);
        let _ = self.ended.acquire().await;
        self.running.set(self.running.get() - 1);
        Response::new(200, Body::Empty)
    }

    fn error(&self, error: RequestError) -> Response {
        Response::new(error.status(), Body::Empty)
    }

    fn log_request(&self, _: &RequestRecord<'_>) {}
}

/// Connects, sends requests and closes the connection once each is being handled or was refused.
/// Returns how many were refused.
async fn visit(handler: &'static Patient, client: IpAddr, requests: usize) -> usize {
    let before = handler.running.get();
    let (here, there) = duplex(64 << 10);
    let info = ConnectionInfo { peer: Some((client, 1).into()), ..ConnectionInfo::default() };
    let served = serve(Box::new(there), Arc::new(info), move || handler, Drain::new().register());
    let served = spawn_local(served);
    let (send, connection) = client::handshake(here).await.unwrap();
    let connection = spawn_local(connection);
    let mut send = send.ready().await.unwrap();
    let mut answers = Vec::new();
    for _ in 0..requests {
        let request = Request::get("http://a/").body(()).unwrap();
        answers.push(spawn_local(send.send_request(request, true).unwrap().0));
    }
    let refused = || answers.iter().filter(|answer| answer.is_finished()).count();
    while handler.running.get() - before + refused() < requests {
        yield_now().await;
    }
    let refused = refused();
    for answer in answers.into_iter().filter(|answer| answer.is_finished()) {
        let error = answer.await.unwrap().expect_err("no request is answered");
        assert_eq!(error.reason(), Some(Reason::REFUSED_STREAM));
    }
    connection.abort();
    drop(send);
    served.await.unwrap();
    refused
}

#[test]
fn requests_count_until_they_end_although_their_connections_have_ended() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let handler: &'static Patient =
        Box::leak(Box::new(Patient { running: Cell::default(), ended: Semaphore::new(0) }));
    let [client, other] = [[198, 51, 100, 1], [198, 51, 100, 2]].map(IpAddr::from);
    LocalSet::new().block_on(&runtime, async {
        let mut refused = 0;
        for _ in 0..OF_CLIENT / FREE_STREAMS + 10 {
            refused += visit(handler, client, FREE_STREAMS).await;
        }
        assert_eq!((handler.running.get(), refused), (OF_CLIENT, 10 * FREE_STREAMS));
        assert_eq!(visit(handler, other, FREE_STREAMS).await, 0, "another client has its own");
        handler.ended.close();
        while handler.running.get() > 0 {
            yield_now().await;
        }
        for memory in [&STREAMS, &FIRST_STREAMS] {
            assert_eq!([client, other].map(|client| memory.used_by(client)), [0, 0]);
        }
    });
}
