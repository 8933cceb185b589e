//! HTTP/3 (RFC 9114): a connection of QUIC from its handshake to its last stream.
//!
//! QUIC itself is a [`transport`]; this module reads and writes what its streams carry.
//!
//! 1. [`frames`], [`qpack`], [`settings`], [`control`] and [`message`] read the bytes of a client,
//!    without I/O, and find each violation of the standard with its code ([`error`]). No length that
//!    a client announces makes the server allocate memory: payloads are passed on as they arrive,
//!    and field sections are decoded up to the permitted size.
//! 2. The unidirectional streams of a client are read by the task of the connection (`uni`), which
//!    accepts requests and decides when the connection ends (`driver`, `goaway`).
//! 3. Requests are answered as those of HTTP/2 ([`streams`](crate::streams)), from an `incoming` to
//!    an `outgoing` direction (`stream`, `request`). A stream counts until its handler has ended:
//!    only then may the client open another one.
//! 4. A client that cancels far more requests than it lets end, or sends frames that only cost work
//!    (`cost`), gets H3_EXCESSIVE_LOAD, and the connection is closed.
//!
//! There is no server push, no dynamic table, and no tunnel: CONNECT is refused.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use tokio::time::Instant;

mod connection;
pub mod control;
mod cost;
mod driver;
pub mod error;
#[cfg(any(test, feature = "fixture"))]
pub mod fixture;
pub mod frames;
mod goaway;
mod incoming;
pub mod message;
mod outgoing;
pub mod qpack;
mod request;
pub mod settings;
mod stream;
pub mod transport;
mod uni;
pub mod varint;

#[cfg(test)]
mod tests;

use self::connection::Connection;
use self::driver::Driver;
use self::transport::Transport;
use crate::drain::DrainRegistration;
use crate::exchange::Handler;
use crate::message::ConnectionInfo;
use crate::streams::{Budget, ConnectionPhase, Shared, StreamTasks, Turns};

/// Serves a connection to its end. `handler` makes a handler for each stream.
pub fn serve<T: Transport, H: Handler + 'static>(
    transport: T,
    info: Arc<ConnectionInfo>,
    handler: impl Fn() -> H,
    drain: DrainRegistration,
) -> impl Future<Output = ()> {
    Box::pin(run(transport, info, handler, drain))
}

async fn run<T: Transport, H: Handler + 'static>(
    transport: T,
    info: Arc<ConnectionInfo>,
    handler: impl Fn() -> H,
    drain: DrainRegistration,
) {
    let limits = handler().limits();
    let shared = Rc::new(Shared {
        turns: Turns::new(Rc::default()),
        budget: Rc::new(Budget::new(Instant::now(), cost::NAMES)),
        phase: ConnectionPhase::new(drain),
        first_requests: Cell::default(),
        owner: handler().owner(&info),
    });
    let connection = Connection::new(transport, shared, info);
    let mut driver = Driver::new(&connection, &limits);
    let mut tasks = StreamTasks::default();
    while driver.next(&mut tasks).await {
        poll_fn(|cx| {
            for (sender, receiver) in driver.accepted.drain(..) {
                let answer = stream::answer(handler(), Rc::clone(&connection), sender, receiver);
                let handler = handler();
                tasks.start(answer, move || handler.begin_turn(), cx);
            }
            Poll::Ready(())
        })
        .await;
        tasks.free_spare();
        driver.set_begun();
    }
    driver.report_error(|reason| handler().log_misbehaviour(&connection.info(), reason));
    connection.shared.phase.end();
    // Handlers run to their end, and learn that the client has disconnected.
    tasks.detach();
}
