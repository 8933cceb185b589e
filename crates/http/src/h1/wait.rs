//! Waiting for a request head.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::Instant;

use super::connection::{Connection, Next};
use super::head::Scanned;
use super::transport::{Io, Transport};
use crate::drain::{FIRST_REQUEST_GRACE, Phase, Signal};
use crate::exchange::Handler;
use crate::limits::Limits;
use crate::memory::{Charge, FREE_BYTES, REQUESTS};
use crate::timer::after;

impl<I: Io, H: Handler> Connection<I, H> {
    /// Waits for input that can be answered, the end of the connection, or a timeout.
    pub(super) async fn wait(&self) -> Next {
        let limits = self.handler.limits();
        let is_first = self.transport.borrow().served == 0;
        let mut idle_since = None;
        let (mut look, mut has_looked) = (pin!(yield_now()), false);
        poll_fn(move |cx| {
            let transport = &mut *self.transport.borrow_mut();
            if let Poll::Ready(next) = poll_input(transport, &limits, cx) {
                return Poll::Ready(next);
            }
            let is_empty = transport.input.is_empty();
            let mut next = Next::HeadTimeout;
            let (since, timeout) = if is_empty {
                transport.work.release();
                let since = *idle_since.get_or_insert_with(Instant::now);
                let header_timeout = if is_first { limits.header_timeout } else { Duration::MAX };
                if limits.idle_timeout < header_timeout {
                    next = Next::IdleTimeout;
                }
                (since, limits.idle_timeout.min(header_timeout))
            } else {
                let started_at = self.started_at.get().unwrap_or_else(Instant::now);
                self.started_at.set(Some(started_at));
                if !self.may_wait(transport) {
                    return Poll::Ready(Next::Close);
                }
                (started_at, limits.header_timeout)
            };
            let mut deadline = after(since, timeout);
            let phase = if is_first { Phase::Incomplete } else { Phase::Idle };
            let signal = self.drain.poll_waiting(phase, cx);
            if signal == Signal::Evict {
                return Poll::Ready(Next::Close);
            }
            if signal == Signal::Drain && is_empty {
                // A client that does not know of the end yet may be sending its next request.
                let handed = self.drain.handed_over();
                if let Some(handed) = handed.filter(|handed| Instant::now() < handed.idle_until) {
                    ready!(transport.timer.poll(cx, deadline.min(handed.idle_until)));
                }
                ready!(poll_last_look(&mut has_looked, look.as_mut(), cx));
                if !is_first {
                    return Poll::Ready(Next::Close);
                }
                deadline = deadline.min(since + self.first_request_grace());
            }
            // The client gets 408, as in Unit, so that it knows that a request which it is sending
            // was not processed (RFC 9110, 15.5.9).
            transport.timer.poll(cx, deadline).map(|()| next)
        })
        .await
    }

    /// Counts the memory of a head that has not arrived as a whole. Returns false if there is none
    /// left.
    fn may_wait(&self, transport: &mut Transport<I>) -> bool {
        let len = transport.input.as_bytes().len();
        if len <= FREE_BYTES {
            return true;
        }
        let new = || Charge::new(&REQUESTS, self.handler.owner(&self.info));
        transport.work.head.get_or_insert_with(new).hold(len)
    }

    /// Returns the grace of a first request. None over TCP and TLS: a TCP client had the time for
    /// which the kernel waits for its first bytes, a TLS client the time of the handshake.
    fn first_request_grace(&self) -> Duration {
        if self.info.tls || self.info.peer.is_some() { Duration::ZERO } else { FIRST_REQUEST_GRACE }
    }
}

/// Reads until the head is complete or cannot become one, or the client disconnects.
fn poll_input<I: Io>(
    transport: &mut Transport<I>,
    limits: &Limits,
    cx: &mut Context<'_>,
) -> Poll<Next> {
    loop {
        if transport.scan(limits) != Scanned::Partial {
            return Poll::Ready(Next::Answer);
        }
        match ready!(transport.poll_read(cx)) {
            Ok(0) | Err(_) if transport.has_begun() => return Poll::Ready(Next::Incomplete),
            Ok(0) | Err(_) => return Poll::Ready(Next::Close),
            Ok(_) => {}
        }
    }
}

/// Lets the runtime poll the sockets once: a request may have arrived that it has not reported yet.
fn poll_last_look(
    has_looked: &mut bool,
    look: Pin<&mut impl Future<Output = ()>>,
    cx: &mut Context<'_>,
) -> Poll<()> {
    if !*has_looked {
        ready!(look.poll(cx));
        *has_looked = true;
    }
    Poll::Ready(())
}
