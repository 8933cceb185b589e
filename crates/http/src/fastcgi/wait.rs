//! Waiting for the parameters of a request.

use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll, ready};

use howdah_wire::bytes::Malformed;
use howdah_wire::fastcgi::RequestHead;
use tokio::task::yield_now;
use tokio::time::Instant;

use super::connection::{Channel, Connection, Event};
use crate::drain::{FIRST_REQUEST_GRACE, Phase, Signal};
use crate::exchange::Handler;
use crate::h1::Io;
use crate::limits::Limits;
use crate::memory::{Charge, FREE_BYTES, REQUESTS};
use crate::timer::after;

impl<I: Io, H: Handler> Connection<I, H> {
    /// Waits for the parameters of the next request; `None` if the connection is to be closed.
    ///
    /// A kept connection may stay idle without end, as with PHP-FPM: a web server takes one that
    /// was closed for a failure, and may not send the request again. The first request, and one
    /// that has begun, have to arrive within the time for heads.
    pub(super) async fn next_head(&self) -> Option<RequestHead> {
        let limits = self.handler.limits();
        let is_first = self.channel.borrow().transport.served == 0;
        let since = Instant::now();
        let (mut look, mut has_looked) = (pin!(yield_now()), false);
        poll_fn(move |cx| {
            let channel = &mut *self.channel.borrow_mut();
            if let Poll::Ready(head) = poll_head(channel, &limits, cx) {
                return Poll::Ready(head);
            }
            let has_begun = channel.requests.has_begun();
            let started_at = has_begun.then(|| self.started_at.get().unwrap_or_else(Instant::now));
            self.started_at.set(started_at);
            if has_begun && !self.may_wait(channel) {
                return Poll::Ready(None);
            }
            if !has_begun && !channel.is_closing && channel.transport.input.is_empty() {
                channel.transport.work.release();
            }
            let begun_at = started_at.or(is_first.then_some(since));
            let phase = if begun_at.is_some() { Phase::Incomplete } else { Phase::Idle };
            let signal = self.drain.poll_waiting(phase, cx);
            if signal == Signal::Evict {
                return Poll::Ready(None);
            }
            if signal == Signal::Drain && !has_begun {
                // A web server that does not know of the end yet may be sending a request.
                let handed = self.drain.handed_over().map(|handed| handed.idle_until);
                let first = is_first.then(|| since + FIRST_REQUEST_GRACE);
                if let Some(until) = handed.max(first).filter(|until| Instant::now() < *until) {
                    ready!(channel.transport.timer.poll(cx, until));
                }
                if !has_looked {
                    ready!(look.as_mut().poll(cx));
                    has_looked = true;
                    // What the runtime has just reported.
                    if let Poll::Ready(head) = poll_head(channel, &limits, cx) {
                        return Poll::Ready(head);
                    }
                }
                return Poll::Ready(None);
            }
            let Some(begun_at) = begun_at else { return Poll::Pending };
            let deadline = after(begun_at, limits.header_timeout);
            channel.transport.timer.poll(cx, deadline).map(|()| None)
        })
        .await
    }

    /// Counts the memory of parameters that have not arrived as a whole. Returns false if there is
    /// none left.
    fn may_wait(&self, channel: &mut Channel<I>) -> bool {
        let len = channel.requests.kept_bytes();
        if len <= FREE_BYTES {
            return true;
        }
        let new = || Charge::new(&REQUESTS, self.handler.owner(&self.info));
        channel.charge.get_or_insert_with(new).hold(len)
    }
}

/// Reads until the parameters of a request are complete. Ready with `None` at the end of the
/// connection.
fn poll_head<I: Io>(
    channel: &mut Channel<I>,
    limits: &Limits,
    cx: &mut Context<'_>,
) -> Poll<Option<RequestHead>> {
    loop {
        match channel.next() {
            Ok(Some(Event::Head(head))) => return Poll::Ready(Some(head)),
            Ok(Some(Event::Body(_) | Event::BodyEnd | Event::Abort)) => continue,
            Ok(None) => {}
            Err(Malformed) => return Poll::Ready(None),
        }
        if !channel.transport.work.out.is_empty() && ready!(channel.poll_flush(cx, limits)).is_err()
        {
            return Poll::Ready(None);
        }
        if channel.is_closing {
            return Poll::Ready(None);
        }
        match ready!(channel.poll_read(cx)) {
            Ok(0) | Err(_) => return Poll::Ready(None),
            Ok(_) => {}
        }
    }
}
