//! A request in the hands of whoever waits for its answer.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use howdah_sys::clock;
use howdah_sys::log::Level;
use tokio::time::{Instant, Sleep};

use super::{Ask, PhpThread};
use crate::php::application::{Key, Queue, Withdrawn};
use crate::php::pending::{Failure, Next};

/// A request that somebody waits for. Dropping it gives the request up: a worker that has it is
/// told that the client has gone.
#[derive(Debug)]
pub struct Handle {
    thread: Rc<PhpThread>,
    key: Key,
    /// The queue that it was submitted to.
    pub queue: Option<Arc<Queue>>,
    deadline: Option<Deadline>,
}

/// When a script has run too long: looked at no earlier than it could have.
#[derive(Debug)]
struct Deadline {
    timeout: Duration,
    wake: Pin<Box<Sleep>>,
}

impl Deadline {
    /// Whether the time is over, for a script that a worker took at `started`, as the worker
    /// says; one that still waits has its whole time before it.
    fn poll(&mut self, cx: &mut Context<'_>, started: impl Fn() -> Option<u64>) -> Poll<()> {
        loop {
            ready!(self.wake.as_mut().poll(cx));
            let now = clock::monotonic_us();
            let ran = started().map_or(0, |started| now.saturating_sub(started));
            let left = self.timeout.saturating_sub(Duration::from_micros(ran));
            if left.is_zero() {
                return Poll::Ready(());
            }
            self.wake.as_mut().reset(Instant::now() + left);
        }
    }
}

impl Handle {
    /// For a registered request that is about to be queued.
    pub(super) fn new(thread: Rc<PhpThread>, key: Key) -> Self {
        Handle { thread, key, queue: None, deadline: None }
    }

    /// The key to submit under.
    pub fn key(&self) -> Key {
        self.key
    }

    /// The request was refused by the queue.
    pub fn never_queued(&self) {
        self.thread.with_entry(self.key, |entry| entry.settled = true);
    }

    /// The script is ended if it has run that long. The time in the queue does not count.
    pub fn set_timeout(&mut self, timeout: Duration) {
        let wake = Box::pin(tokio::time::sleep(timeout));
        self.deadline = Some(Deadline { timeout, wake });
    }

    /// The next part before the body. Safe to cancel.
    pub async fn next(&mut self) -> Next {
        poll_fn(|cx| {
            let polled = self.thread.with_entry(self.key, |entry| entry.pending.poll_head(cx));
            match polled.unwrap_or_else(|| Poll::Ready(Next::Failed(lost()))) {
                Poll::Pending if self.poll_overdue(cx) => {
                    Poll::Ready(Next::Failed(Failure::TimedOut))
                }
                polled => polled,
            }
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
            if let Some(attached) = attached {
                self.thread.drain_slot(&attached, slot);
            }
        }
        match polled {
            Poll::Pending if self.poll_overdue(cx) => Poll::Ready(Some(Err(Failure::TimedOut))),
            polled => polled,
        }
    }

    /// Whether the script has run too long; its worker is killed then.
    fn poll_overdue(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(deadline) = &mut self.deadline else { return false };
        let started = || self.queue.as_ref().and_then(|queue| queue.started(self.key));
        if deadline.poll(cx, started).is_pending() {
            return false;
        }
        self.deadline = None;
        let context = self.thread.with_entry(self.key, |entry| entry.context.clone());
        if let Some(context) = context {
            let log = &self.thread.log;
            log.write(Level::Error, format_args!("{context}: took longer than its limit"));
        }
        match self.queue.as_ref().map(|queue| queue.withdraw(self.key)) {
            Some(Withdrawn::Running(instance, worker)) => {
                self.thread.ask(Ask::Kill { instance: instance.number, worker });
            }
            Some(Withdrawn::Unstarted) => self.never_queued(),
            _ => {}
        }
        true
    }
}

fn lost() -> Failure {
    Failure::Broken("the request is not known any more".to_owned())
}

impl Drop for Handle {
    fn drop(&mut self) {
        let settled = self.thread.with_entry(self.key, |entry| {
            entry.held = false;
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
        self.thread.forget_if_over(self.key);
    }
}
