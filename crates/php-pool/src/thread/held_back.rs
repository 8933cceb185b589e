//! Answers whose next frame is a record for the log, from applications that write too many of them.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::Notify;

use super::{Attached, PhpThread};

/// How often it is looked whether there is room again.
const PAUSE: Duration = Duration::from_millis(10);

/// Slots that are left alone for a while.
#[derive(Debug, Default)]
pub(super) struct HeldBack {
    slots: RefCell<Vec<(Rc<Attached>, u32)>>,
    begun: Notify,
}

impl HeldBack {
    /// Leaves a slot alone until its application may write to the log again.
    pub(super) fn put(&self, attached: &Rc<Attached>, slot: u32) {
        let mut slots = self.slots.borrow_mut();
        let is_same =
            |(other, number): &(Rc<Attached>, u32)| *number == slot && Rc::ptr_eq(other, attached);
        if !slots.iter().any(is_same) {
            slots.push((Rc::clone(attached), slot));
            self.begun.notify_one();
        }
    }
}

impl PhpThread {
    /// Goes on with answers that were held back, for as long as the thread runs.
    pub async fn run_held_back(self: Rc<Self>) {
        loop {
            self.held_back.begun.notified().await;
            tokio::time::sleep(PAUSE).await;
            let slots = self.held_back.slots.take();
            let (ready, rest): (Vec<_>, Vec<_>) =
                slots.into_iter().partition(|(attached, _)| attached.queue.log_rate.has_room());
            for (attached, slot) in &rest {
                self.held_back.put(attached, *slot);
            }
            if !ready.is_empty() {
                self.dirty.borrow_mut().extend(ready);
                self.wake_drainer();
            }
        }
    }
}
