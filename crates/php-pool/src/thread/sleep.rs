//! Waits of the thread for events, and the task that takes responses.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};

use super::php_thread::PhpThread;

/// Number of intervals of the timer without responses after which it ends.
const QUIET_INTERVALS: u32 = 4;

impl PhpThread {
    /// Prepares for a wait for events: from now on workers write the thread's eventfd. If there are
    /// frames already, the drainer runs instead.
    pub fn before_wait(&self) {
        self.spin.wait_for(|| self.is_dirty());
        let attached = self.attached.borrow();
        let mut is_dirty = false;
        let is_brief = self.tick.is_running();
        for attached in attached.values() {
            is_dirty |= attached.instance.region.thread_sleeps(self.number, is_brief);
        }
        drop(attached);
        if is_dirty {
            self.after_wait();
            self.wake_drainer();
        }
    }

    /// Ends a wait for events.
    pub fn after_wait(&self) {
        self.turns.restart();
        for attached in self.attached.borrow().values() {
            attached.instance.region.thread_wakes(self.number);
        }
    }

    /// Counts a turn of a task, which is about to begin. Every few turns, takes the responses that
    /// there are: tasks that always have something to do keep the runtime from waiting for events,
    /// and workers write the eventfd of a waiting thread only.
    pub fn begin_turn(&self) {
        if self.turns.count() && self.is_dirty() {
            self.drain();
        }
    }

    /// Returns true if a worker has written a part of a response for this thread.
    pub(super) fn is_dirty(&self) -> bool {
        self.attached
            .borrow()
            .values()
            .any(|attached| attached.instance.region.is_dirty(self.number))
    }

    /// Takes responses for as long as the thread runs.
    pub async fn run_drainer(self: Rc<Self>) {
        poll_fn(|cx| {
            self.drainer.replace(Some(cx.waker().clone()));
            self.poll_events(cx);
            self.drain();
            Poll::<()>::Pending
        })
        .await;
    }

    /// Takes responses in each interval of the timer, for as long as the thread runs.
    pub async fn run_ticks(self: Rc<Self>) {
        loop {
            self.tick.wait_for_start().await;
            let mut quiet = 0;
            while quiet < QUIET_INTERVALS {
                quiet = if self.tick.next().await == 0 { quiet + 1 } else { 0 };
                self.drain();
            }
            // Workers notice it with the thread's next sleep, which also finds the responses that
            // they have left until then.
            self.tick.stop();
        }
    }

    /// Registers interest in every eventfd. They are edge triggered, so no read is needed.
    fn poll_events(&self, cx: &mut Context<'_>) {
        for attached in self.attached.borrow().values() {
            while let Poll::Ready(Ok(mut ready)) = attached.event.poll_read_ready(cx) {
                ready.clear_ready();
            }
        }
    }
}
