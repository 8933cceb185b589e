//! Driving a connection between requests: accepting streams, timeouts, graceful and abrupt
//! shutdown.

use std::cell::Cell;
use std::fmt::Display;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::server::{Connection, SendResponse};
use h2::{Reason, RecvStream};
use http::Request;
use http::header::{HeaderName, HeaderValue};
use tokio::task::yield_now;
use tokio::time::Instant;

use super::io::InspectedTransport;
use super::output::Output;
use crate::limits::Limits;
use crate::streams::{
    Budget, Lifetime, MAX_STREAMS, Shared, StreamEnd, StreamTasks, TOO_MANY_CANCELS,
    TOO_MANY_FRAMES,
};

/// Callback that reports a connection which is closed because the client misbehaves.
pub(super) type MisbehaviourCallback<'a> = &'a dyn Fn(&dyn Display);

/// A request and the handle for its response.
type Accepted = (Request<RecvStream>, SendResponse<Bytes>);

/// Driver of a connection.
pub(super) struct Driver {
    connection: Connection<InspectedTransport, Bytes>,
    shared: Rc<Shared>,
    output: Rc<Output>,
    lifetime: Lifetime,
    /// Requests to be answered now.
    pub accepted: Vec<Accepted>,
    /// No more requests follow.
    is_over: bool,
    /// Time since which the client does not take the output.
    blocked: Rc<Cell<Option<Instant>>>,
    /// The connection is closed because the client misbehaves.
    is_cut_off: bool,
}

impl Driver {
    /// Creates the driver of a connection after its handshake. `blocked` is set by its transport.
    pub fn new(
        connection: Connection<InspectedTransport, Bytes>,
        shared: &Rc<Shared>,
        output: &Rc<Output>,
        limits: &Rc<Limits>,
        blocked: Rc<Cell<Option<Instant>>>,
    ) -> Self {
        Driver {
            connection,
            shared: Rc::clone(shared),
            output: Rc::clone(output),
            lifetime: Lifetime::new(limits),
            accepted: Vec::new(),
            is_over: false,
            blocked,
            is_cut_off: false,
        }
    }

    /// Waits for requests, and accepts all that have arrived: their responses are then sent
    /// together. Returns false at the end of the connection.
    pub async fn next<F>(
        &mut self,
        tasks: &mut StreamTasks<F>,
        cut_off: MisbehaviourCallback<'_>,
    ) -> bool
    where
        F: Future<Output = StreamEnd> + 'static,
    {
        if self.is_over {
            return false;
        }
        let mut has_waited = false;
        let has_requests = poll_fn(|cx| {
            let next = self.poll_next(tasks, cut_off, cx);
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

    fn poll_next<F>(
        &mut self,
        tasks: &mut StreamTasks<F>,
        cut_off: MisbehaviourCallback<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<bool>
    where
        F: Future<Output = StreamEnd> + 'static,
    {
        while let Some(end) = tasks.poll_ended(cx) {
            self.lifetime.count(end);
        }
        if self.shared.phase.poll_draining(cx) && !self.lifetime.is_ending() {
            self.announce_end();
        }
        if self.lifetime.is_abused() || self.shared.budget.is_spent(Instant::now) {
            self.cut_off(cut_off);
        }
        self.is_over = self.poll_accept(tasks.len(), cut_off, cx).is_ready();
        if self.blocked.get().is_none() {
            self.output.set_sent();
        }
        if !self.accepted.is_empty() {
            self.shared.phase.begin();
            return Poll::Ready(true);
        }
        self.shared.phase.wait(tasks.len(), self.blocked.get().is_some());
        // Handlers that wait for bodies learn of the end when the connection is dropped.
        if self.is_over || self.shared.phase.poll_evicted(cx) {
            return Poll::Ready(false);
        }
        ready!(self.poll_timeout(tasks.is_empty(), cx));
        Poll::Ready(false)
    }

    /// Accepts the requests that have arrived. Ready at the end of the connection.
    fn poll_accept(
        &mut self,
        answering: usize,
        cut_off: MisbehaviourCallback<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        loop {
            // With too many requests, the connection is driven without accepting more.
            let next = if answering + self.accepted.len() < MAX_STREAMS as usize {
                self.connection.poll_accept(cx)
            } else {
                self.connection.poll_closed(cx).map(|end| end.err().map(Err))
            };
            match ready!(next) {
                Some(Ok(accepted)) => {
                    let bytes = |(name, value): (&HeaderName, &HeaderValue)| {
                        name.as_str().len() + value.len()
                    };
                    let fields = accepted.0.headers().iter().map(bytes).sum();
                    self.shared.budget.earn_request(fields);
                    self.accepted.push(accepted);
                }
                Some(Err(error)) => {
                    if !std::mem::replace(&mut self.is_cut_off, true) {
                        report_error(&error, &self.shared.budget, cut_off);
                    }
                    return Poll::Ready(());
                }
                None => return Poll::Ready(()),
            }
        }
    }

    /// Ready when the client does not take the output for too long, or has no request for too long
    /// after the end of the connection was announced.
    fn poll_timeout(&mut self, is_idle: bool, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let is_blocked = ready!(self.lifetime.poll_timeout(self.blocked.get(), is_idle, cx));
            if is_blocked || self.lifetime.is_ending() {
                return Poll::Ready(());
            }
            self.announce_end();
            cx.waker().wake_by_ref(); // so that GOAWAY is sent
        }
    }

    /// Announces the end of the connection (GOAWAY): it accepts no more streams, and ends with the
    /// last one.
    fn announce_end(&mut self) {
        self.connection.graceful_shutdown();
        self.lifetime.set_ending();
    }

    /// Ends the connection with all its streams, because the client misbehaves.
    fn cut_off(&mut self, cut_off: MisbehaviourCallback<'_>) {
        if std::mem::replace(&mut self.is_cut_off, true) {
            return;
        }
        self.connection.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
        if self.lifetime.is_abused() {
            cut_off(&TOO_MANY_CANCELS);
        } else {
            let kind = self.shared.budget.costliest_type();
            cut_off(&format_args!("{TOO_MANY_FRAMES}, mostly {kind} frames"));
        }
    }
}

/// Reports the error that ended a connection, if it is the client's.
pub(super) fn report_error(error: &h2::Error, budget: &Budget, cut_off: MisbehaviourCallback<'_>) {
    match error.reason() {
        Some(reason @ Reason::ENHANCE_YOUR_CALM) if error.is_library() => {
            cut_off(&format_args!("{reason}, mostly {} frames", budget.costliest_type()));
        }
        Some(reason) if error.is_library() => cut_off(&reason),
        _ => {}
    }
}
