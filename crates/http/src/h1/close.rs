//! Closing a connection.
//!
//! If the kernel closes a socket with unread bytes, it sends a reset, which can reach the client
//! before the client has read the response. So if the client may still be sending, the connection
//! shuts down its own direction first, and then reads and discards for a while.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Instant;

use super::connection::Connection;
use super::transport::{Io, Transport};
use crate::drain::{Phase, Signal};
use crate::exchange::Handler;

/// Maximum time of discarding input.
const LINGER_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum time between two reads of discarded input, and of a shutdown.
const LINGER_IDLE_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum number of bytes to discard.
const MAX_LINGER_BYTES: u64 = 64 * 1024 * 1024;

impl<I: Io, H: Handler> Connection<I, H> {
    /// Closes the connection. Plain TCP needs no shutdown: the kernel does it.
    pub(super) async fn close(&self) {
        if self.transport.borrow().io.is_tcp() {
            return;
        }
        let limits = self.handler.limits();
        let deadline = Instant::now() + limits.send_timeout.min(LINGER_IDLE_TIMEOUT);
        poll_fn(|cx| {
            let transport = &mut *self.transport.borrow_mut();
            if Pin::new(&mut transport.io).poll_shutdown(cx).is_ready()
                || self.drain.poll_waiting(Phase::Idle, cx) == Signal::Evict
            {
                return Poll::Ready(());
            }
            transport.timer.poll(cx, deadline)
        })
        .await;
    }

    /// Shuts down the sending direction, then discards input until the client closes the
    /// connection.
    pub(super) async fn linger(&self) {
        let end = Instant::now() + LINGER_TIMEOUT;
        let mut deadline = Instant::now() + LINGER_IDLE_TIMEOUT;
        let mut left = MAX_LINGER_BYTES;
        let mut is_shut = false;
        poll_fn(|cx| {
            let transport = &mut *self.transport.borrow_mut();
            if !is_shut {
                match Pin::new(&mut transport.io).poll_shutdown(cx) {
                    Poll::Ready(Ok(())) => is_shut = true,
                    Poll::Ready(Err(_)) => return Poll::Ready(()),
                    Poll::Pending => {}
                }
            }
            while let Poll::Ready(discarded) = poll_discard(transport, cx) {
                match discarded.and_then(|count| left.checked_sub(count)) {
                    Some(rest) => {
                        left = rest;
                        deadline = end.min(Instant::now() + LINGER_IDLE_TIMEOUT);
                    }
                    None if discarded.is_some() || is_shut => return Poll::Ready(()),
                    None => break,
                }
            }
            if self.drain.poll_waiting(Phase::Idle, cx) == Signal::Evict {
                return Poll::Ready(());
            }
            transport.timer.poll(cx, deadline)
        })
        .await;
    }
}

/// Reads once and discards the input. Returns the number of bytes, `None` after the end.
fn poll_discard<I: Io>(transport: &mut Transport<I>, cx: &mut Context<'_>) -> Poll<Option<u64>> {
    transport.input.clear();
    transport.poll_read(cx).map(|read| read.ok().filter(|count| *count > 0).map(|n| n as u64))
}
