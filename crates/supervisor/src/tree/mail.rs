//! Mail: passes the connections of scripts to the mail process, which is started for the first.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use howdah_sys::log::Level;
use howdah_sys::packet::{self, Received};
use howdah_sys::signals;
use howdah_wire::messages::{Exit, FromMail, MAX_MESSAGE, MailRoute, MailUsage, ToMail};
use rustix::io::Errno;

use super::id::Id;
use super::state::Tree;
use crate::backoff::Backoff;
use crate::file_task::{Origin, Outcome, Task};
use crate::mail::{self, Connection, MailProcess};

/// Maximum number of messages of the mail process in one turn of the event loop.
const MAX_MESSAGES_PER_TURN: usize = 32;

/// Pause before the next attempt to send messages to a process that has no room for them.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// Time beyond its `timeout` within which the mail process must be done with a message.
const GRACE: Duration = Duration::from_secs(120);

/// The mail process, if it runs, and the messages of applications.
#[derive(Default)]
pub(super) struct MailState {
    pub(super) process: Option<MailProcess>,
    /// Processes that have no tasks and are about to end.
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
    /// Returns the path of the file, if the mail server has one.
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

impl Tree {
    /// Offers connections that are due, and kills a mail process that is stuck.
    pub(super) fn advance_mail(&mut self, now: Instant) {
        for application in self.applications.values_mut() {
            if let Some(submissions) = &mut application.submissions {
                submissions.step(now);
            }
        }
        if self.mail.retry_at.is_some_and(|due| due <= now) {
            self.mail.retry_at = None;
            for (number, waiting) in std::mem::take(&mut self.mail.unsent) {
                self.send_mail(number, waiting);
            }
        }
        if self.mail.in_progress.values().any(|(_, deadline)| *deadline <= now)
            && let Some(process) = &self.mail.process
        {
            let problem = "the mail process is killed: it has not finished a message in time";
            self.log.write(Level::Alert, problem);
            let _ = signals::send(process.pid, signals::SIGKILL);
            self.mail.in_progress.values_mut().for_each(|(_, deadline)| *deadline = now + GRACE);
        }
    }

    /// Returns the time of the next call of [`Tree::advance_mail`]; `None` if none is needed.
    pub(super) fn mail_due(&self) -> Option<Instant> {
        let submissions = self.applications.values().filter_map(|app| app.submissions.as_ref());
        let deadlines = self.mail.in_progress.values().map(|(_, deadline)| *deadline);
        submissions
            .filter_map(|submissions| submissions.due())
            .chain(deadlines)
            .chain(self.mail.retry_at)
            .min()
    }

    /// A script has begun to send a message.
    pub(super) fn on_submission(&mut self, id: Id) {
        let now = Instant::now();
        let Some(application) = self.applications.get_mut(&id) else { return };
        let Some(submissions) = &mut application.submissions else { return };
        let Some(connection) = submissions.take(now) else { return };
        // An application of an earlier configuration may have gone from this one.
        let Some(route) = self.changes.current.grants.mail.get(&application.name).cloned() else {
            submissions.ended();
            return;
        };
        self.mail.last_number = self.mail.last_number.wrapping_add(1);
        let number = self.mail.last_number;
        let mut waiting =
            Waiting { id, connection, route, unread: Vec::new(), file: None, authorities: None };
        match &self.options.mail_file {
            Some(file) => waiting.file = file.try_clone().ok(),
            None => {
                let is_named = |file: &MailFile| file.path(&waiting.route).is_some();
                let all = [MailFile::Authorities, MailFile::Password];
                waiting.unread = all.into_iter().filter(is_named).collect();
            }
        }
        self.read_or_send(number, waiting);
    }

    /// Reads the next file that a message needs, or sends the message.
    fn read_or_send(&mut self, number: u32, waiting: Waiting) {
        let next = waiting.unread.last().copied();
        let Some((file, path)) = next.and_then(|file| Some((file, file.path(&waiting.route)?)))
        else {
            return self.send_mail(number, waiting);
        };
        let task = match file {
            MailFile::Password => Task::ReadSecret(path.to_owned()),
            MailFile::Authorities => Task::ReadTls(path.to_owned()),
        };
        self.mail.waiting.insert(number, waiting);
        self.begin_file_task(task, Origin::Mail(number));
    }

    /// Takes a file that a message needs.
    pub(super) fn mail_file_read(&mut self, number: u32, outcome: Outcome) {
        let Some(mut waiting) = self.mail.waiting.remove(&number) else { return };
        let Some(file) = waiting.unread.pop() else { return };
        let opened = outcome.unwrap_or_else(|error| {
            let (key, path) = (&waiting.route.key, file.path(&waiting.route).unwrap_or_default());
            let member = match file {
                MailFile::Password => "password_file",
                MailFile::Authorities => "authorities",
            };
            self.log.write(
                Level::Error,
                format_args!("{key}/{member}: {path} cannot be read: {error}"),
            );
            None
        });
        match file {
            MailFile::Password => waiting.file = opened,
            MailFile::Authorities => waiting.authorities = opened,
        }
        self.read_or_send(number, waiting);
    }

    /// Passes a message to the mail process. If that does not run, the script's end is closed,
    /// which is an answer.
    fn send_mail(&mut self, number: u32, waiting: Waiting) {
        let now = Instant::now();
        self.start_mail_process(now);
        let Waiting { id, connection, route, file, authorities, .. } = &waiting;
        let Some(application) = self.applications.get_mut(id) else { return };
        let Some(submissions) = &mut application.submissions else { return };
        let Some(process) = &self.mail.process else { return submissions.ended() };
        let deadline = now + Duration::from_secs(u64::from(route.timeout)) + GRACE;
        let deliver = ToMail::Deliver {
            number,
            application: application.name.clone(),
            user: submissions.user.clone(),
            route: route.clone(),
            is_to_file: self.options.mail_file.is_some(),
            has_file: file.is_some(),
            has_authorities: authorities.is_some(),
            counted: self.mail.usage.get(&application.name).cloned().unwrap_or_default(),
        };
        let mut files = vec![connection.requests.as_fd(), connection.answers.as_fd()];
        files.extend(file.iter().chain(authorities).map(AsFd::as_fd));
        match packet::send(&process.socket, &deliver.encode(), &files) {
            Ok(()) => drop(self.mail.in_progress.insert(number, (*id, deadline))),
            // Many applications send at the same time. There are a few messages of each, so this
            // has a limit.
            Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM | Errno::TOOMANYREFS) => {
                self.mail.retry_at = Some(now + RETRY_INTERVAL);
                self.mail.unsent.push((number, waiting));
            }
            Err(error) => {
                submissions.ended();
                let problem =
                    format_args!("the mail process is killed: cannot send it a message: {error}");
                self.log.write(Level::Alert, problem);
                let _ = signals::send(process.pid, signals::SIGKILL);
            }
        }
    }

    fn start_mail_process(&mut self, now: Instant) {
        if self.mail.process.is_some() || self.mail.start_after.is_some_and(|after| after > now) {
            return;
        }
        let known = &self.changes.current.grants.mail;
        self.mail.usage.retain(|application, _| known.contains_key(application));
        match mail::start(&self.options, &self.log, now) {
            Ok(process) => self.mail.process = Some(process),
            Err(error) => {
                self.mail.start_after = Some(self.mail.backoff.next_start(now, now));
                self.log
                    .write(Level::Alert, format_args!("cannot start the mail process: {error}"));
            }
        }
    }

    /// Reads messages of the mail process.
    pub(super) fn on_mail_process(&mut self, buffer: &mut [u8]) {
        for _ in 0..MAX_MESSAGES_PER_TURN {
            let Some(process) = &self.mail.process else { return };
            let received = packet::receive(&process.socket, buffer);
            let length = match received {
                Ok(Received::Packet(length, _)) => length,
                Ok(Received::Empty) => return,
                Ok(Received::Closed) | Err(_) => {
                    // SIGCHLD reports its end; the signal only makes sure that it ends.
                    let _ = signals::send(process.pid, signals::SIGKILL);
                    self.reap();
                    return;
                }
            };
            match FromMail::decode(&buffer[..length]) {
                Ok(FromMail::Done { number, recipients }) => {
                    if let Some((id, _)) = self.mail.in_progress.remove(&number) {
                        if let Some(name) = self.applications.get(&id).map(|app| app.name.clone()) {
                            self.mail_sent(&name, recipients);
                        }
                        self.submission_ended(id);
                    }
                }
                Ok(FromMail::Counted { usage }) => self.mail.counted(usage),
                Ok(FromMail::Idle {}) => {
                    if self.mail.in_progress.is_empty()
                        && let Some(process) = self.mail.process.take()
                    {
                        self.mail.ending.push(process.pid);
                    }
                }
                Err(_) => self.log.write(Level::Alert, "the mail process sent a malformed message"),
            }
        }
    }

    fn submission_ended(&mut self, id: Id) {
        let application = self.applications.get_mut(&id);
        if let Some(submissions) = application.and_then(|app| app.submissions.as_mut()) {
            submissions.ended();
        }
    }

    /// Handles the end of a process. Returns false if it was not a mail process.
    pub(super) fn mail_process_ended(&mut self, pid: u32, exit: Exit) -> bool {
        if let Some(at) = self.mail.ending.iter().position(|ending| *ending == pid) {
            self.mail.ending.swap_remove(at);
            return true;
        }
        let Some(process) = self.mail.process.take_if(|process| process.pid == pid) else {
            return false;
        };
        self.log.write(Level::Alert, format_args!("mail process {pid} {exit}"));
        for usage in last_counts(&process) {
            self.mail.counted(usage);
        }
        self.mail.start_after = Some(self.mail.backoff.next_start(process.started, Instant::now()));
        for (_, (id, _)) in std::mem::take(&mut self.mail.in_progress) {
            self.submission_ended(id);
        }
        true
    }
}

impl Tree {
    /// Takes over the counts of the server that this one replaces.
    pub(super) fn inherit_mail_usage(&mut self, all: Vec<MailUsage>) {
        for usage in all {
            self.mail.add_usage(&usage);
            // Otherwise it comes with the first message.
            if let Some(process) = &self.mail.process {
                let _ = packet::send(&process.socket, &ToMail::Add { usage }.encode(), &[]);
            }
        }
    }
}

/// Returns the unread counts of a process that has ended.
fn last_counts(process: &MailProcess) -> Vec<MailUsage> {
    let (mut buffer, mut counts, mut is_reset) = (vec![0; MAX_MESSAGE], Vec::new(), false);
    loop {
        match packet::receive(&process.socket, &mut buffer) {
            Ok(Received::Packet(length, _)) => {
                if let Ok(FromMail::Counted { usage }) = FromMail::decode(&buffer[..length]) {
                    counts.push(usage);
                }
            }
            // If a process ends with unread messages, the kernel reports that once, before its last
            // messages.
            Ok(Received::Closed) if !is_reset => is_reset = true,
            _ => return counts,
        }
    }
}
