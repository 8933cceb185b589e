//! HTTP/1.0 and HTTP/1.1 (RFC 9112): one connection from its first byte to its last.
//!
//! 1. Wait for a head (`read`, [`head`]). A connection that waits holds its socket, a timer and
//!    little else; the rest lives in a box that exists only while there is a request.
//! 2. Read it: request line and fields ([`head`]), target ([`target`](crate::target)), host ([`authority`](crate::authority)),
//!    framing of the body ([`framing`](crate::framing)). What is not exactly HTTP is refused ([`Refusal`]) and
//!    the connection ended, since what follows cannot be trusted to be a request.
//! 3. Let the [`Handler`] answer; meanwhile it may read the body, send interim responses and
//!    learn that the client has left (`link`).
//! 4. Send the response (`respond`, `send`, `file`). Responses to pipelined requests that have
//!    all come already leave in one write.
//! 5. Go on with the next request, or end the connection so that the client can still read the
//!    answer (`linger`). After a 101 the connection is a tunnel to its end (`tunnel`).
//!
//! This module decides nothing about what a request means and writes no log.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::Instant;

pub mod head;

mod connection;
pub mod file;
mod linger;
mod link;
mod refusal;
mod requests;
mod respond;
pub mod send;
mod tunnel;
mod write;

#[cfg(test)]
mod tests;

pub use connection::Io;
pub use refusal::Refusal;

use crate::drain::{Draining, Phase, Signal};
use crate::exchange::Handler;
use crate::message::{ConnectionInfo, Response};
use crate::timer::after;
use connection::Core;
use head::Scanned;
use tunnel::Opened;

/// A connection and those it works for.
struct Connection<I, H> {
    core: RefCell<Core<I>>,
    info: Arc<ConnectionInfo>,
    handler: H,
    drain: Draining,
    /// When the first byte of a head came that did not come at once.
    begun: Cell<Option<Instant>>,
    /// What the connection is from now on, if it has left HTTP.
    opened: Cell<Option<Box<Opened>>>,
}

/// What a connection does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// Wait for a request.
    Wait,
    /// Answer what came: a head, or what will never be one.
    Answer,
    /// Leave HTTP.
    Tunnel,
    /// The head did not arrive in time.
    TooLate,
    /// The client has left within a head.
    Incomplete,
    /// End.
    Close,
    /// End, but let the client read the answer first: it may still be sending.
    Linger,
}

/// How long a connection of a unix socket may take for its first request when all connections are to
/// end: it was accepted, and its request may be on the way.
const FIRST_REQUEST: Duration = Duration::from_secs(1);

/// Serves a connection to its end.
pub fn serve<I: Io, H: Handler>(
    io: I,
    info: Arc<ConnectionInfo>,
    handler: H,
    drain: Draining,
) -> impl Future<Output = ()> {
    let connection = Connection::new(io, info, handler, drain);
    // An async fn would hold its arguments beside what is made of them, for as long as a client
    // keeps its connection.
    async move {
        let mut next = Next::Wait;
        loop {
            next = match next {
                Next::Wait => connection.wait().await,
                // Boxed, so that a connection that waits is small.
                Next::Answer => Box::pin(connection.answer()).await,
                Next::Tunnel => Box::pin(connection.tunnel()).await,
                Next::TooLate => Box::pin(connection.refuse(Refusal::HeadTimeout)).await,
                Next::Linger => {
                    Box::pin(connection.linger()).await;
                    return;
                }
                Next::Incomplete => connection.incomplete(),
                Next::Close => break,
            };
        }
        Box::pin(connection.close()).await;
    }
}

/// Answers what came and is no request at all, and ends the connection.
pub async fn refuse<I: Io, H: Handler>(
    io: I,
    info: Arc<ConnectionInfo>,
    handler: &H,
    drain: Draining,
    received: &[u8],
    refusal: Refusal,
    response: Response,
) {
    let connection = Connection::new(io, info, handler, drain);
    match connection.refuse_with(refusal, response, received).await {
        Next::Linger => connection.linger().await,
        _ => connection.close().await,
    }
}

impl<I: Io, H: Handler> Connection<I, H> {
    fn new(io: I, info: Arc<ConnectionInfo>, handler: H, drain: Draining) -> Self {
        Connection {
            core: RefCell::new(Core::new(io)),
            info,
            handler,
            drain,
            begun: Cell::new(None),
            opened: Cell::new(None),
        }
    }

    /// Waits until there is something to answer.
    async fn wait(&self) -> Next {
        let limits = self.handler.limits();
        let first = self.core.borrow().served == 0;
        let mut idle_since = None;
        let (mut look, mut looked) = (pin!(yield_now()), false);
        poll_fn(move |cx| {
            let core = &mut *self.core.borrow_mut();
            loop {
                if core.scan(&limits) != Scanned::Partial {
                    return Poll::Ready(Next::Answer);
                }
                match core.poll_read(cx) {
                    Poll::Ready(Ok(0) | Err(_)) if core.has_begun() => {
                        return Poll::Ready(Next::Incomplete);
                    }
                    Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(Next::Close),
                    Poll::Ready(Ok(_)) => {}
                    Poll::Pending => break,
                }
            }
            let empty = core.input.is_empty();
            let (since, patience) = if !empty {
                let begun = self.begun.get().unwrap_or_else(Instant::now);
                self.begun.set(Some(begun));
                (begun, limits.header_timeout)
            } else {
                core.work.give_back();
                let since = *idle_since.get_or_insert_with(Instant::now);
                let header_timeout = if first { limits.header_timeout } else { Duration::MAX };
                (since, limits.idle_timeout.min(header_timeout))
            };
            let mut deadline = after(since, patience);
            let phase = if first { Phase::Incomplete } else { Phase::Idle };
            let signal = self.drain.poll_waiting(phase, cx);
            if signal == Signal::Evict {
                return Poll::Ready(Next::Close);
            }
            if signal == Signal::Drain && empty {
                // A request may have come that the runtime has not looked for yet.
                if !looked {
                    ready!(look.as_mut().poll(cx));
                    looked = true;
                }
                if !first {
                    return Poll::Ready(Next::Close);
                }
                // A TCP client had the time that the kernel waits for its first bytes, and over TLS
                // that of a handshake.
                let grace = match self.info.tls || self.info.peer.is_some() {
                    true => Duration::ZERO,
                    false => FIRST_REQUEST,
                };
                deadline = deadline.min(since + grace);
            }
            match core.timer.poll(cx, deadline) {
                // The client is told, as by Unit, so that it knows that a request on its way was
                // not taken (RFC 9110, 15.5.9).
                Poll::Ready(()) => Poll::Ready(Next::TooLate),
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }

    /// Closes the connection. Plain TCP needs no farewell: the kernel sends it.
    async fn close(&self) {
        if self.core.borrow().io.is_tcp() {
            return;
        }
        let limits = self.handler.limits();
        let deadline = Instant::now() + limits.send_timeout.min(linger::IDLE);
        poll_fn(|cx| {
            let core = &mut *self.core.borrow_mut();
            if Pin::new(&mut core.io).poll_shutdown(cx).is_ready()
                || self.drain.poll_waiting(Phase::Idle, cx) == Signal::Evict
            {
                return Poll::Ready(());
            }
            core.timer.poll(cx, deadline)
        })
        .await;
    }
}
