//! Slots whose next frame is a log record, of applications that exceed their log rate.

use std::cell::RefCell;
use std::rc::Rc;

use tokio::sync::Notify;

use super::attached::AttachedInstance;

/// Slots that wait for their application's log rate.
#[derive(Debug, Default)]
pub(super) struct LogBacklog {
    pub slots: RefCell<Vec<(Rc<AttachedInstance>, u32)>>,
    pub added: Notify,
}

impl LogBacklog {
    /// Adds a slot, unless it is there already.
    pub fn push(&self, attached: &Rc<AttachedInstance>, slot: u32) {
        let mut slots = self.slots.borrow_mut();
        let is_same = |(other, number): &(Rc<AttachedInstance>, u32)| {
            *number == slot && Rc::ptr_eq(other, attached)
        };
        if !slots.iter().any(is_same) {
            slots.push((Rc::clone(attached), slot));
            self.added.notify_one();
        }
    }
}
