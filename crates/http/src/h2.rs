//! HTTP/2 (RFC 9113): a connection from its preface to its last stream.
//!
//! The crate `h2` implements frames, header compression and flow control. This module bounds the
//! work that a client can cause:
//!
//! 1. Requests are answered as those of HTTP/3 (`streams`). Streams that the client has reset count
//!    until their handlers have ended, so the number of handlers never exceeds `MAX_STREAMS`
//!    (`settings`, `driver`).
//! 2. A response is sent as the flow-control windows have room (`outgoing`) and the client takes the
//!    output of the connection (`output`).
//! 3. A request for a WebSocket is passed to the handler like one of HTTP/1; after its response the
//!    stream is a tunnel (`websocket`, `tunnel`).
//! 4. `h2` ignores a fragment in `:path` and pseudo-header fields in a trailer. The transport
//!    inspects the frames before `h2` does (`io`, `frames`, `blocks`, `hpack`), so that requests
//!    with either are refused.
//! 5. A client that resets far more streams than it lets end, or sends frames that only cost work
//!    (`cost`), gets `ENHANCE_YOUR_CALM`, and the connection is closed.

use std::cell::Cell;
use std::fmt::Display;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use tokio::time::{Instant, timeout};

pub mod blocks;
mod cost;
mod driver;
pub mod frames;
pub mod hpack;
mod incoming;
mod io;
mod outgoing;
mod output;
mod settings;
mod stream;
mod tunnel;
mod websocket;

#[cfg(test)]
mod tests;

use self::blocks::Flaws;
use self::driver::{Driver, report_error};
use self::io::InspectedTransport;
pub use self::io::{Io, PREFACE};
use self::output::Output;
use self::stream::StreamContext;
use crate::drain::DrainRegistration;
use crate::exchange::Handler;
use crate::message::ConnectionInfo;
use crate::streams::{Budget, ConnectionPhase, Shared, StreamTasks, Turns};

/// Serves a connection to its end. `handler` makes a handler for each stream.
///
/// Boxed, so that the task of a connection that could have used HTTP/2 and does not is small.
pub fn serve<H: Handler + 'static>(
    io: Box<dyn Io>,
    info: Arc<ConnectionInfo>,
    handler: impl Fn() -> H,
    drain: DrainRegistration,
) -> impl Future<Output = ()> {
    Box::pin(run(io, info, handler, drain))
}

async fn run<H: Handler + 'static>(
    io: Box<dyn Io>,
    info: Arc<ConnectionInfo>,
    handler: impl Fn() -> H,
    drain: DrainRegistration,
) {
    let limits = handler().limits();
    let blocked = Rc::new(Cell::new(None));
    let budget = Rc::new(Budget::new(Instant::now(), cost::TYPE_NAMES));
    let flaws = Rc::new(Flaws::default());
    let io =
        InspectedTransport::new(io, Rc::clone(&blocked), Rc::clone(&budget), Rc::clone(&flaws));
    let reported = Arc::clone(&info);
    let cut_off = |reason: &dyn Display| handler().log_misbehaviour(&reported, reason);
    let handshake = settings::builder(&limits).handshake(io);
    let handshake = pin!(timeout(limits.header_timeout, handshake));
    let connection = match drain.unless_evicted(handshake).await {
        Some(Ok(Ok(connection))) => connection,
        Some(Ok(Err(error))) => return report_error(&error, &budget, &cut_off),
        Some(Err(_)) | None => return,
    };
    let shared = Rc::new(Shared {
        turns: Turns::new(Rc::clone(&blocked)),
        budget,
        phase: ConnectionPhase::new(drain),
        first_requests: Cell::default(),
        owner: handler().owner(&info),
    });
    let output = Rc::new(Output::default());
    let mut driver = Driver::new(connection, &shared, &output, &limits, blocked);
    let connection = Rc::new(StreamContext { info, shared, flaws, output });
    let mut tasks = StreamTasks::default();
    while driver.next(&mut tasks, &cut_off).await {
        poll_fn(|cx| {
            for (request, respond) in driver.accepted.drain(..) {
                let answer = stream::answer(handler(), Rc::clone(&connection), request, respond);
                let handler = handler();
                tasks.start(answer, move || handler.begin_turn(), cx);
            }
            Poll::Ready(())
        })
        .await;
        tasks.free_spare();
        driver.set_begun();
    }
    connection.shared.phase.end();
    // Handlers run to their end, and learn that the client has disconnected.
    tasks.detach();
}
