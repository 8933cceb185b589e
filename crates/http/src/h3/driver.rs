//! Driving a connection between requests: accepting streams, timeouts, graceful and abrupt
//! shutdown.

use std::fmt::Display;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::task::yield_now;

use super::connection::Connection;
use super::error::{Code, ConnectionError};
use super::goaway::ControlStream;
use super::transport::{Halves, ReceiveStream, SendStream, Transport};
use super::uni::UniStreams;
use crate::limits::Limits;
use crate::streams::{
    Lifetime, MAX_STREAMS, StreamEnd, StreamTasks, TOO_MANY_CANCELS, TOO_MANY_FRAMES,
};

/// Driver of a connection.
pub(super) struct Driver<T: Transport> {
    connection: Rc<Connection<T>>,
    control: ControlStream<T>,
    uni: UniStreams<T>,
    lifetime: Lifetime,
    /// Requests to be answered now.
    pub accepted: Vec<Halves<T>>,
    is_over: bool,
}

impl<T: Transport> Driver<T> {
    /// Creates the driver of a connection after its handshake.
    pub fn new(connection: &Rc<Connection<T>>, limits: &Rc<Limits>) -> Self {
        Driver {
            connection: Rc::clone(connection),
            control: ControlStream::new(&connection.transport, limits.max_head),
            uni: UniStreams::new(connection),
            lifetime: Lifetime::new(limits),
            accepted: Vec::new(),
            is_over: false,
        }
    }

    /// Waits for requests, and accepts all that have arrived. Returns false at the end of the
    /// connection.
    pub async fn next<F>(&mut self, tasks: &mut StreamTasks<F>) -> bool
    where
        F: Future<Output = StreamEnd> + 'static,
    {
        let mut has_waited = false;
        let has_requests = poll_fn(|cx| {
            let next = self.poll_next(tasks, cx);
            has_waited |= next.is_pending();
            next
        })
        .await;
        if has_requests && !has_waited {
            yield_now().await; // other connections have a turn
        }
        has_requests
    }

    /// Ends the wait for the first request, whose timeout is that of a head.
    pub fn set_begun(&mut self) {
        self.lifetime.set_begun();
    }

    /// Reports the error of the client that has ended the connection, if there was one.
    pub fn report_error(&self, report: impl Fn(&dyn Display)) {
        let Some(error) = self.connection.error() else { return };
        if error.reason == TOO_MANY_FRAMES {
            let kind = self.connection.shared.budget.costliest_type();
            report(&format_args!("{error}, mostly {kind} frames"));
        } else {
            report(&error);
        }
    }

    fn poll_next<F>(&mut self, tasks: &mut StreamTasks<F>, cx: &mut Context<'_>) -> Poll<bool>
    where
        F: Future<Output = StreamEnd> + 'static,
    {
        if self.is_over {
            return Poll::Ready(false);
        }
        while let Some(end) = tasks.poll_ended(cx) {
            self.lifetime.count(end);
        }
        let connection = Rc::clone(&self.connection);
        let shared = &connection.shared;
        if shared.phase.poll_draining(cx) && !self.lifetime.is_ending() {
            self.announce_end();
        }
        self.uni.poll(cx);
        if self.lifetime.is_abused() {
            connection.fail(ConnectionError::new(Code::ExcessiveLoad, TOO_MANY_CANCELS));
        } else if shared.budget.is_spent(tokio::time::Instant::now) {
            connection.fail(ConnectionError::new(Code::ExcessiveLoad, TOO_MANY_FRAMES));
        }
        self.is_over = self.poll_accept(tasks.len(), cx).is_ready();
        self.control.poll(connection.next_id.get(), cx);
        if !self.accepted.is_empty() {
            return Poll::Ready(true);
        }
        shared.phase.wait(tasks.len(), false);
        if self.is_over {
            return Poll::Ready(false);
        }
        if shared.phase.poll_evicted(cx) {
            connection.close();
            return Poll::Ready(false);
        }
        // The last response must have arrived, since closing loses what has not.
        if tasks.is_empty() && connection.transport.poll_acknowledged(cx).is_pending() {
            ready!(self.lifetime.poll_unacknowledged(cx));
        } else if tasks.is_empty() && self.control.is_limited() {
            connection.close();
            return Poll::Ready(false);
        }
        ready!(self.poll_timeout(tasks.is_empty(), cx));
        connection.close();
        Poll::Ready(false)
    }

    /// Accepts the requests that have arrived. Ready at the end of the connection.
    fn poll_accept(&mut self, answering: usize, cx: &mut Context<'_>) -> Poll<()> {
        // The client may open no more, so no wake-up is lost: one task has to end first.
        while answering + self.accepted.len() < MAX_STREAMS as usize {
            let Ok((mut sender, mut receiver)) = ready!(self.connection.transport.poll_accept(cx))
            else {
                return Poll::Ready(());
            };
            let id = sender.id();
            if self.control.rejects(id) {
                sender.reset(Code::RequestRejected.number());
                receiver.stop(Code::RequestRejected.number());
                continue;
            }
            let next_id = &self.connection.next_id;
            next_id.set(next_id.get().max(id + 4));
            self.accepted.push((sender, receiver));
        }
        Poll::Pending
    }

    /// Ready when the connection has no request for too long after its end was announced.
    fn poll_timeout(&mut self, is_idle: bool, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            ready!(self.lifetime.poll_timeout(None, is_idle, cx));
            if self.lifetime.is_ending() {
                return Poll::Ready(());
            }
            self.announce_end();
            self.control.poll(self.connection.next_id.get(), cx);
        }
    }

    fn announce_end(&mut self) {
        self.control.announce_end();
        self.lifetime.set_ending();
    }
}
