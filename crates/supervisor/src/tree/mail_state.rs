//! The state of the mail process and of the messages that it sends.

use std::collections::HashMap;
use std::time::Instant;

use howdah_wire::messages::{MailRoute, MailUsage};

use super::id::Id;
use crate::backoff::Backoff;
use crate::mail::{Connection, MailProcess};

/// The mail process, if it runs, and the messages of applications.
#[derive(Default)]
pub(super) struct MailState {
    pub(super) process: Option<MailProcess>,
    /// Processes that have nothing to do and are about to end.
    pub(super) ending: Vec<u32>,
    pub(super) backoff: Backoff,
    /// Earliest time of the next start.
    pub(super) start_after: Option<Instant>,
    /// What the processes before have counted.
    pub(super) usage: Vec<MailUsage>,
    pub(super) last_number: u32,
    /// Messages that the process has, each with its application and the time by which it is done.
    pub(super) in_progress: HashMap<u32, (Id, Instant)>,
    /// Messages that wait for the file with the password.
    pub(super) waiting: HashMap<u32, Waiting>,
}

impl MailState {
    /// Returns the process ids of mail processes.
    pub(super) fn pids(&self) -> impl Iterator<Item = u32> {
        let running = self.process.as_ref().map(|process| process.pid);
        running.into_iter().chain(self.ending.iter().copied())
    }
}

/// A message that waits for the file with the password.
pub(super) struct Waiting {
    pub(super) id: Id,
    pub(super) connection: Connection,
    pub(super) route: MailRoute,
}
