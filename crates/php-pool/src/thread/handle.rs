//! A request in the hands of whoever waits for its answer.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;

use super::{LogLimit, PhpThread};
use crate::pending::{Failure, Next};
use crate::queue::{Key, Queue, Withdrawn};

/// A request that somebody waits for. Dropping it gives the request up: a worker that has it is
/// told that the client has gone.
#[derive(Debug)]
pub struct Handle {
    thread: Rc<PhpThread>,
    key: Key,
    /// The queue that it was submitted to.
    pub queue: Option<Arc<Queue>>,
    given_up: bool,
}

impl Handle {
    /// For a registered request that is about to be queued.
    pub(super) fn new(thread: Rc<PhpThread>, key: Key) -> Self {
        Handle { thread, key, queue: None, given_up: false }
    }

    /// The key to submit under.
    pub fn key(&self) -> Key {
        self.key
    }

    /// The request was refused by the queue.
    pub fn never_queued(&self) {
        self.thread.with_entry(self.key, |entry| entry.settled = true);
    }

    /// The next part before the body. Safe to cancel.
    pub async fn next(&mut self) -> Next {
        poll_fn(|cx| {
            let polled = self.thread.with_entry(self.key, |entry| entry.pending.poll_head(cx));
            polled.unwrap_or_else(|| Poll::Ready(Next::Failed(lost())))
        })
        .await
    }

    /// The whole body, if it is complete and in memory.
    pub fn whole_body(&self) -> Option<Bytes> {
        self.thread.with_entry(self.key, |entry| entry.pending.whole_body()).flatten()
    }

    /// The next bytes of the body.
    pub fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>> {
        let polled = self.thread.with_entry(self.key, |entry| {
            let polled = entry.pending.poll_body(cx);
            let resume = if entry.pending.has_room() { entry.stalled.take() } else { None };
            (polled, resume)
        });
        let Some((polled, resume)) = polled else { return Poll::Ready(Some(Err(lost()))) };
        if let Some((instance, slot)) = resume {
            let attached = self.thread.attached.borrow().get(&instance.number).cloned();
            if let Some(attached) = attached
                && self.thread.drain_slot(&attached, slot, LogLimit::Wait)
            {
                self.thread.dirty.borrow_mut().push((attached, slot));
                self.thread.wake_drainer();
            }
        }
        polled
    }

    /// Gives the request up, and waits until no worker has it.
    pub fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !std::mem::replace(&mut self.given_up, true) {
            self.give_up();
        }
        let settled = self.thread.with_entry(self.key, |entry| match entry.settled {
            true => Poll::Ready(()),
            false => entry.pending.wait(cx),
        });
        settled.unwrap_or(Poll::Ready(()))
    }

    /// A request that waits is taken back; a worker that has it is told.
    fn give_up(&self) {
        let settled = self.thread.with_entry(self.key, |entry| {
            entry.pending.abandon();
            entry.settled
        });
        if settled == Some(false) {
            let withdrawn = match &self.queue {
                Some(queue) => queue.withdraw(self.key),
                None => Withdrawn::Unstarted,
            };
            if withdrawn == Withdrawn::Unstarted {
                self.never_queued();
            }
        }
    }
}

fn lost() -> Failure {
    Failure::Broken("the request is not known any more".to_owned())
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.thread.with_entry(self.key, |entry| entry.held = false);
        self.give_up();
        self.thread.forget_if_over(self.key);
    }
}
