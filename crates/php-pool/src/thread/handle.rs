//! Registers requests. The connection that waits for a response holds a handle.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;

use super::answers::FullLog;
use super::php_thread::PhpThread;
use super::requests::Entry;
use crate::pending::{Failure, Next, PendingResponse};
use crate::queue::{Queue, Withdrawal};
use crate::request::{RequestContext, RequestKey};

/// A registered request. Dropping the handle cancels the request; a worker that runs it is notified
/// that the client has disconnected.
#[derive(Debug)]
pub struct RequestHandle {
    thread: Rc<PhpThread>,
    key: RequestKey,
    /// Queue that the request was submitted to.
    pub queue: Option<Arc<Queue>>,
    is_abandoned: bool,
}

impl PhpThread {
    /// Registers a request before it is queued. `timeout` limits the run time of its script; the
    /// time in the queue does not count.
    pub fn register(
        self: &Rc<Self>,
        pending: PendingResponse,
        context: Arc<RequestContext>,
        timeout: Option<Duration>,
    ) -> RequestHandle {
        self.checked.add();
        self.spin.begin_request();
        let entry = Entry::new(pending, context, timeout);
        let key = self.requests.borrow_mut().insert(self.number, entry);
        RequestHandle { thread: Rc::clone(self), key, queue: None, is_abandoned: false }
    }
}

impl RequestHandle {
    /// Returns the key to submit the request under.
    pub fn key(&self) -> RequestKey {
        self.key
    }

    /// Notes that no worker will take the request: the queue has refused or returned it.
    pub fn mark_unqueued(&self) {
        self.thread.with_entry(self.key, |entry| entry.is_settled = true);
    }

    /// Waits for the next part before the body. Cancel safe.
    pub async fn next(&mut self) -> Next {
        poll_fn(|cx| {
            let polled = self.thread.with_entry(self.key, |entry| entry.pending.poll_head(cx));
            polled.unwrap_or_else(|| Poll::Ready(Next::Failed(unknown_request())))
        })
        .await
    }

    /// Takes the body if it is complete and in memory.
    pub fn whole_body(&self) -> Option<Bytes> {
        self.thread.with_entry(self.key, |entry| entry.pending.whole_body()).flatten()
    }

    /// Returns true if the response is complete, and an error has ended its script.
    pub fn is_cut(&self) -> bool {
        self.thread.with_entry(self.key, |entry| entry.pending.is_cut()).unwrap_or(false)
    }

    /// Returns the next bytes of the body.
    pub fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>> {
        let polled = self.thread.with_entry(self.key, |entry| {
            let polled = entry.pending.poll_body(cx);
            let resume = if entry.pending.has_room() { entry.stalled.take() } else { None };
            (polled, resume)
        });
        let Some((polled, resume)) = polled else {
            return Poll::Ready(Some(Err(unknown_request())));
        };
        if let Some((instance, slot)) = resume {
            let attached = self.thread.attached.borrow().get(&instance.number).cloned();
            if let Some(attached) = attached
                && self.thread.drain_slot(&attached, slot, FullLog::Wait)
            {
                self.thread.dirty.borrow_mut().push((attached, slot));
                self.thread.wake_drainer();
            }
        }
        polled
    }

    /// Cancels the request, and waits until no worker has it.
    pub fn poll_finished(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !std::mem::replace(&mut self.is_abandoned, true) {
            self.abandon();
        }
        let settled = self.thread.with_entry(self.key, |entry| {
            if entry.is_settled { Poll::Ready(()) } else { entry.pending.wait(cx) }
        });
        settled.unwrap_or(Poll::Ready(()))
    }

    /// Withdraws the request from the queue, or marks it as aborted for the worker that has it.
    fn abandon(&self) {
        let is_settled = self.thread.with_entry(self.key, |entry| {
            entry.pending.abandon();
            entry.is_settled
        });
        if is_settled == Some(false) {
            let withdrawal = match &self.queue {
                Some(queue) => queue.withdraw(self.key),
                None => Withdrawal::NotStarted,
            };
            if withdrawal == Withdrawal::NotStarted {
                self.mark_unqueued();
            }
        }
    }
}

fn unknown_request() -> Failure {
    Failure::Broken("the request is no longer known".to_owned())
}

impl Drop for RequestHandle {
    fn drop(&mut self) {
        self.thread.with_entry(self.key, |entry| entry.has_handle = false);
        self.abandon();
        self.thread.remove_if_finished(self.key);
    }
}
