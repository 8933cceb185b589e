//! What sites have used: adds up the counts of routers and the mail process, stores them now and then
//! and at the end, and answers the router's questions.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use howdah_questions::{SiteUsage, Usage};
use howdah_sys::clock;
use howdah_sys::log::Level;
use howdah_text::date;
use howdah_wire::messages::{FromSupervisor, SiteUsed};

use super::state::Tree;
use crate::file_task::{Origin, Outcome, Task};
use crate::memory::{memory_file, read_memory_file};
use crate::site_counts::{HandedMonth, SiteCounts, Work};
use crate::usage_file::{self, is_month};

/// Maximum time for storing the last counts.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// Interval at which it is looked whether they are stored.
const END_INTERVAL: Duration = Duration::from_millis(2);

/// Maximum number of questions that wait for files.
const MAX_WAITING: usize = 32;

/// Maximum number of recipients of a message.
const MAX_RECIPIENTS: u32 = 10_000;

/// The counts, and the questions that wait for a file.
#[derive(Debug, Default)]
pub(super) struct UsageState {
    pub(super) counts: SiteCounts,
    waiting: Vec<Question>,
    /// Counts could not be read or stored, which was logged.
    has_failed: bool,
}

#[derive(Debug)]
struct Question {
    router: u32,
    number: u32,
    month: String,
}

/// Returns the month, in UTC.
fn month() -> String {
    let mut time = String::new();
    date::rfc3339(Duration::from_secs(clock::wall_seconds()), &mut time);
    let month = time.get(..7).filter(|month| is_month(month));
    month.unwrap_or("9999-12").to_owned()
}

impl Tree {
    /// Adds the counts of a router.
    pub(super) fn sites_used(&mut self, sites: Vec<SiteUsed>) {
        let month = month();
        for SiteUsed { site, requests, errors, received, sent, php_us } in sites {
            let used = SiteUsage { requests, errors, received, sent, php_us, mails: 0 };
            self.count_usage(&month, &site, used);
        }
        self.forward_usage();
    }

    /// Counts the recipients of a message of an application.
    pub(super) fn mail_sent(&mut self, application: &str, recipients: u32) {
        let mails = u64::from(recipients.min(MAX_RECIPIENTS));
        self.count_usage(&month(), application, SiteUsage { mails, ..SiteUsage::default() });
        self.forward_usage();
    }

    fn count_usage(&mut self, month: &str, site: &str, used: SiteUsage) {
        let is_known = self.allows(|grants| {
            grants.applications.contains_key(site)
                || grants.sites.contains(site)
                || grants.listeners.contains_key(site)
        });
        self.usage.counts.count(month, site, is_known, used, Instant::now());
    }

    /// Answers a question of the router, or lets it wait for the file of the month.
    pub(super) fn read_usage(&mut self, number: u32, asked: Option<String>) {
        let Some(router) = self.router.as_ref().map(|router| router.pid) else { return };
        let month = asked.unwrap_or_else(month);
        let question = Question { router, number, month };
        if !is_month(&question.month) {
            let error = "a month is named like 2026-11".to_owned();
            return self.send_to_router(&FromSupervisor::Usage { number, error }, &[]);
        }
        self.answer_usage(question);
        self.advance_usage(Instant::now());
    }

    fn answer_usage(&mut self, question: Question) {
        let Question { router, number, month } = &question;
        let (answer, error) = match self.usage.counts.of_month(month) {
            Ok(None) if self.usage.waiting.len() < MAX_WAITING => {
                return self.usage.waiting.push(question);
            }
            Ok(None) => (None, "too many questions wait; ask again".to_owned()),
            Ok(Some(usage)) => match serde_json::to_vec(usage) {
                Ok(text) => (Some(text), String::new()),
                Err(error) => (None, error.to_string()),
            },
            Err(error) => (None, error.to_owned()),
        };
        let (file, error) = match answer.map(|text| memory_file("usage", &text)).transpose() {
            Ok(file) => (file, error),
            Err(error) => (None, error.to_string()),
        };
        let message = FromSupervisor::Usage { number: *number, error };
        let files: Vec<_> = file.iter().map(AsFd::as_fd).collect();
        self.as_router(*router, |tree| tree.send_to_router(&message, &files));
    }

    /// Reads and stores the files that are due.
    pub(super) fn advance_usage(&mut self, now: Instant) {
        self.do_usage_work(false, now);
    }

    fn do_usage_work(&mut self, is_end: bool, now: Instant) {
        let state = self.options.state_directory().cloned();
        for work in self.usage.counts.work(&month(), state.is_some(), is_end, now) {
            let Some(directory) = state.clone() else { continue };
            let task = match work {
                Work::Load(month) => Task::LoadUsage { directory, month },
                Work::Save(usage) => Task::SaveUsage { directory, usage: Box::new(usage) },
            };
            self.begin_file_task(task, Origin::Supervisor);
        }
        // Without files, all is known at once.
        if state.is_none() {
            self.answer_waiting(None);
        }
    }

    /// Takes the file of a month.
    pub(super) fn usage_loaded(&mut self, month: &str, outcome: Outcome) {
        let read = |file| read_memory_file(vec![file], u64::MAX).map_err(|error| error.to_string());
        let parsed = outcome.and_then(|file| {
            let text = file.map(read).transpose()?;
            text.map(|text| usage_file::parse(&text)).transpose()
        });
        match parsed {
            Ok(stored) => {
                self.usage.has_failed = false;
                self.usage.counts.loaded(month, stored);
                self.answer_waiting(Some(month));
            }
            Err(error) => {
                self.usage.counts.load_failed(month);
                // The file is read again every minute.
                if !std::mem::replace(&mut self.usage.has_failed, true) {
                    self.log.write(Level::Alert, format_args!("counts of sites: {error}"));
                }
                self.refuse_waiting(month, &error);
            }
        }
    }

    /// Takes the outcome of storing a month.
    pub(super) fn usage_saved(&mut self, month: &str, outcome: &Outcome) {
        self.usage.counts.saved(month, outcome.is_ok(), Instant::now());
        let had_failed = std::mem::replace(&mut self.usage.has_failed, outcome.is_err());
        if let (Err(error), false) = (outcome, had_failed) {
            let line = format_args!(
                "the counts of sites cannot be stored: {error}; they are kept, and stored later"
            );
            self.log.write(Level::Alert, line);
        }
    }

    fn take_waiting(&mut self, month: Option<&str>) -> Vec<Question> {
        let all = std::mem::take(&mut self.usage.waiting);
        let is_asked = |asked: &Question| month.is_none_or(|month| month == asked.month);
        let (asked, others) = all.into_iter().partition(is_asked);
        self.usage.waiting = others;
        asked
    }

    fn answer_waiting(&mut self, month: Option<&str>) {
        for question in self.take_waiting(month) {
            self.answer_usage(question);
        }
    }

    fn refuse_waiting(&mut self, month: &str, error: &str) {
        for Question { router, number, .. } in self.take_waiting(Some(month)) {
            let message = FromSupervisor::Usage { number, error: error.to_owned() };
            self.as_router(router, |tree| tree.send_to_router(&message, &[]));
        }
    }

    /// Stores the last counts, and the pauses that are being stored, unless that takes too long.
    pub(super) fn finish_usage(&mut self) {
        self.forward_usage();
        if self.options.state_directory().is_none() {
            return;
        }
        let deadline = Instant::now() + END_TIMEOUT;
        let is_busy = |tree: &Tree| tree.usage.counts.has_unsaved() || tree.jobs.pauses.are_saved();
        while is_busy(self) && Instant::now() < deadline {
            self.do_usage_work(true, Instant::now());
            self.advance_file_tasks(Instant::now());
            std::thread::sleep(END_INTERVAL);
            let helpers: Vec<_> = self.file_helpers.sockets().map(|(pid, _)| pid).collect();
            helpers.into_iter().for_each(|pid| self.on_file_helper(pid));
        }
    }

    /// Returns the counts for a server that takes over.
    pub(super) fn hand_usage_over(&mut self) -> Vec<u8> {
        serde_json::to_vec(&self.usage.counts.hand_over()).unwrap_or_default()
    }

    /// Takes over the counts of the server that this one replaces.
    pub(super) fn inherit_usage(&mut self, handed: &[u8]) {
        let handed: Vec<HandedMonth> = serde_json::from_slice(handed).unwrap_or_default();
        self.usage.counts.take_over(handed, Instant::now());
    }

    /// Adds the counts of the server that this one has replaced, which finishes its requests.
    pub(super) fn predecessor_counted(&mut self, counted: &[u8]) {
        let counted: Vec<Usage> = serde_json::from_slice(counted).unwrap_or_default();
        self.usage.counts.add(counted, Instant::now());
    }

    /// Passes the counts of this server on to the one that has replaced it.
    pub(super) fn forward_usage(&mut self) {
        if !self.upgrade.is_replaced() {
            return;
        }
        let counted = self.usage.counts.take_counted();
        if counted.is_empty() {
            return;
        }
        let text = serde_json::to_vec(&counted).unwrap_or_default();
        let successor = self.upgrade.successor();
        if successor.is_none_or(|successor| successor.send_usage(&text).is_err()) {
            self.usage.counts.put_back(counted);
        }
    }
}
