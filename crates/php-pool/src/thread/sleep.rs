//! Waits of the thread for events, and the task that takes responses.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};

use super::php_thread::PhpThread;

impl PhpThread {
    /// Prepares for a wait for events: from now on workers write the thread's eventfd. If there are
    /// frames already, the drainer runs instead.
    pub fn before_wait(&self) {
        let attached = self.attached.borrow();
        self.spin.wait_for(|| {
            attached.values().any(|attached| attached.instance.region.is_dirty(self.number))
        });
        let mut is_dirty = false;
        for attached in attached.values() {
            is_dirty |= attached.instance.region.thread_sleeps(self.number);
        }
        drop(attached);
        if is_dirty {
            self.after_wait();
            self.wake_drainer();
        }
    }

    /// Ends a wait for events.
    pub fn after_wait(&self) {
        for attached in self.attached.borrow().values() {
            attached.instance.region.thread_wakes(self.number);
        }
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

    /// Registers interest in every eventfd. They are edge triggered, so no read is needed.
    fn poll_events(&self, cx: &mut Context<'_>) {
        for attached in self.attached.borrow().values() {
            while let Poll::Ready(Ok(mut ready)) = attached.event.poll_read_ready(cx) {
                ready.clear_ready();
            }
        }
    }
}
