//! Ending a connection whose client may still be sending.
//!
//! Closing a socket with unread bytes makes the kernel send a reset, and a reset can reach the
//! client before it has read the answer. So: end our direction, read and drop for a while.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;

use super::Connection;
use super::connection::Io;
use crate::drain::{Phase, Signal};
use crate::exchange::Handler;

/// How long to read and drop in all.
const TIME: Duration = Duration::from_secs(10);

/// How long to wait for the next byte to drop.
pub(super) const IDLE: Duration = Duration::from_secs(5);

/// How many bytes to read and drop.
const BYTES: u64 = 64 * 1024 * 1024;

impl<I: Io, H: Handler> Connection<I, H> {
    /// See the module.
    pub(super) async fn linger(&self) {
        let end = Instant::now() + TIME;
        let mut deadline = Instant::now() + IDLE;
        let mut left = BYTES;
        let mut shut = false;
        poll_fn(|cx| {
            let core = &mut *self.core.borrow_mut();
            if !shut {
                match Pin::new(&mut core.io).poll_shutdown(cx) {
                    Poll::Ready(Ok(())) => shut = true,
                    Poll::Ready(Err(_)) => return Poll::Ready(()),
                    Poll::Pending => {}
                }
            }
            loop {
                core.input.clear();
                match core.poll_read(cx) {
                    Poll::Ready(Ok(0) | Err(_)) if shut => return Poll::Ready(()),
                    Poll::Ready(Ok(0) | Err(_)) => break,
                    Poll::Ready(Ok(count)) => match left.checked_sub(count as u64) {
                        Some(rest) => {
                            left = rest;
                            deadline = end.min(Instant::now() + IDLE);
                        }
                        None => return Poll::Ready(()),
                    },
                    Poll::Pending => break,
                }
            }
            if self.drain.poll_waiting(Phase::Idle, cx) == Signal::Evict {
                return Poll::Ready(());
            }
            core.timer.poll(cx, deadline)
        })
        .await;
    }
}
