//! PHP state of one router thread. The other files of this folder implement its methods.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;

use howdah_http::usage::{Tally, Used};
use howdah_sys::log::Log;
use tokio::sync::mpsc::UnboundedSender;

use super::answer_spin::AnswerSpin;
use super::attached::AttachedInstance;
use super::control::ControlRequest;
use super::log_backlog::LogBacklog;
use super::requests::{Entry, RequestTable};
use super::tick::Tick;
use super::time_limit::CheckedRequests;
use super::turns::Turns;
use crate::pending::Failure;
use crate::queue::Queue;
use crate::request::RequestKey;
use crate::times::Times;

/// PHP state of one router thread.
#[derive(Debug)]
pub struct PhpThread {
    pub(super) number: u32,
    pub(super) log: Arc<Log>,
    control: UnboundedSender<ControlRequest>,
    pub(super) requests: RefCell<RequestTable>,
    pub(super) attached: RefCell<HashMap<u32, Rc<AttachedInstance>>>,
    /// Payload of the current frame; empty between uses, keeps its capacity.
    pub(super) buffer: RefCell<Vec<u8>>,
    /// Dirty slots whose frames were not all taken in their last turn.
    pub(super) dirty: RefCell<Vec<(Rc<AttachedInstance>, u32)>>,
    pub(super) drainer: RefCell<Option<Waker>>,
    pub(super) checked: CheckedRequests,
    pub(super) log_backlog: LogBacklog,
    pub(super) spin: AnswerSpin,
    pub(super) tick: Tick,
    pub(super) turns: Turns,
    /// Run times of scripts, by application.
    pub used: Tally,
}

impl PhpThread {
    /// Creates the state of router thread `number`. Messages to the control thread go to `control`.
    pub fn new(number: u32, log: Arc<Log>, control: UnboundedSender<ControlRequest>) -> Rc<Self> {
        Rc::new(PhpThread {
            number,
            log,
            control,
            requests: RefCell::default(),
            attached: RefCell::default(),
            buffer: RefCell::default(),
            dirty: RefCell::default(),
            drainer: RefCell::default(),
            checked: CheckedRequests::default(),
            log_backlog: LogBacklog::default(),
            spin: AnswerSpin::default(),
            tick: Tick::default(),
            turns: Turns::default(),
            used: Tally::default(),
        })
    }

    /// Returns the number of this thread.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns the log.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Sends a message to the control thread.
    pub fn send_to_control(&self, message: ControlRequest) {
        let _ = self.control.send(message);
    }

    /// Lets the control thread check the workers of an application, unless a thread has asked
    /// already.
    pub fn ask_for_check(&self, queue: &Queue) {
        if queue.claim_check() {
            self.send_to_control(ControlRequest::CheckWorkers);
        }
    }

    /// Fails a queued request because its application cannot run.
    pub fn fail(&self, key: RequestKey, failure: Failure) {
        self.with_entry(key, |entry| {
            entry.is_settled = true;
            entry.pending.fail(failure);
        });
        self.remove_if_finished(key);
    }

    /// Calls `f` with the entry of a request of this thread and returns the result; `None` if there
    /// is no entry.
    pub(super) fn with_entry<T>(
        &self,
        key: RequestKey,
        f: impl FnOnce(&mut Entry) -> T,
    ) -> Option<T> {
        if key.thread() != self.number {
            return None;
        }
        self.requests.borrow_mut().get_mut(key).map(f)
    }

    /// Removes a request whose worker is free and whose handle was dropped.
    pub(super) fn remove_if_finished(&self, key: RequestKey) {
        if self.with_entry(key, |entry| entry.is_settled && !entry.has_handle) == Some(true) {
            let entry = self.requests.borrow_mut().remove(key);
            self.checked.remove();
            self.spin.end_request();
            drop(entry);
        }
    }

    /// Counts the run time of a script that has ended.
    pub(super) fn count_run_time(&self, site: &Arc<str>, times: Times) {
        self.used.add(site, Used { php_us: times.ran, ..Used::default() });
    }

    pub(super) fn wake_drainer(&self) {
        if let Some(waker) = self.drainer.borrow().as_ref() {
            waker.wake_by_ref();
        }
    }
}
