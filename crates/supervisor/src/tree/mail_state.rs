//! The state of the mail process and of the messages that it sends.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
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
    /// Recipients of the last hour by application and minute, as the mail process has counted them.
    /// Kept here, as a script may be able to end that process.
    pub(super) usage: HashMap<String, Vec<(u64, u32)>>,
    pub(super) last_number: u32,
    /// Messages that the process has, each with its application and the time by which it is done.
    pub(super) in_progress: HashMap<u32, (Id, Instant)>,
    /// Messages that wait for files.
    pub(super) waiting: HashMap<u32, Waiting>,
    /// Messages that wait for room in the socket of the process.
    pub(super) unsent: Vec<(u32, Waiting)>,
    /// Time of the next attempt to send them.
    pub(super) retry_at: Option<Instant>,
}

impl MailState {
    /// Returns the process ids of mail processes.
    pub(super) fn pids(&self) -> impl Iterator<Item = u32> {
        let running = self.process.as_ref().map(|process| process.pid);
        running.into_iter().chain(self.ending.iter().copied())
    }

    /// Takes the recipients of an application.
    pub(super) fn counted(&mut self, usage: MailUsage) {
        if usage.minutes.is_empty() {
            self.usage.remove(&usage.application);
        } else {
            self.usage.insert(usage.application, usage.minutes);
        }
    }

    /// Returns the recipients of all applications.
    pub(super) fn all_usage(&self) -> Vec<MailUsage> {
        let of = |(application, minutes): (&String, &Vec<(u64, u32)>)| MailUsage {
            application: application.clone(),
            minutes: minutes.clone(),
        };
        self.usage.iter().map(of).collect()
    }

    /// Adds the recipients of an application that another server has counted.
    pub(super) fn add_usage(&mut self, usage: &MailUsage) {
        let minutes = self.usage.entry(usage.application.clone()).or_default();
        minutes.extend(&usage.minutes);
        minutes.sort_unstable_by_key(|(minute, _)| *minute);
    }
}

/// A file that a message needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MailFile {
    Password,
    Authorities,
}

impl MailFile {
    /// Returns its path, if the mail server has such a file.
    pub(super) fn path(self, route: &MailRoute) -> Option<&str> {
        match self {
            MailFile::Password => route.password_file.as_deref(),
            MailFile::Authorities => route.authorities.as_deref(),
        }
    }
}

/// A message that waits for files.
pub(super) struct Waiting {
    pub(super) id: Id,
    pub(super) connection: Connection,
    pub(super) route: MailRoute,
    /// Files that are still to be read; the last one is being read.
    pub(super) unread: Vec<MailFile>,
    /// The file with the password, or the one that takes messages.
    pub(super) file: Option<OwnedFd>,
    pub(super) authorities: Option<OwnedFd>,
}
