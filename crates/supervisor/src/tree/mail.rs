//! Mail: passes the connections of scripts to the mail process, which is started for the first.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use howdah_sys::log::Level;
use howdah_sys::packet::{self, Received};
use howdah_sys::signals;
use howdah_wire::messages::{Exit, FromMail, MailRoute, ToMail};

use super::id::Id;
use super::mail_state::Waiting;
use super::state::Tree;
use crate::file_task::{Origin, Outcome, Task};
use crate::mail::{self, Connection};

/// Maximum number of messages of the mail process in one turn of the event loop.
const MAX_MESSAGES_PER_TURN: usize = 32;

/// Time beyond its `timeout` within which the mail process must be done with a message.
const GRACE: Duration = Duration::from_secs(120);

impl Tree {
    /// Offers connections that are due, and kills a mail process that is stuck.
    pub(super) fn advance_mail(&mut self, now: Instant) {
        for application in self.applications.values_mut() {
            if let Some(submissions) = &mut application.submissions {
                submissions.step(now);
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
        submissions.filter_map(|submissions| submissions.due()).chain(deadlines).min()
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
        match route.password_file.clone().filter(|_| self.options.mail_file.is_none()) {
            Some(path) => {
                self.mail.waiting.insert(number, Waiting { id, connection, route });
                self.begin_file_task(Task::ReadSecret(path), Origin::Mail(number));
            }
            None => {
                let file = self.options.mail_file.as_ref().map(OwnedFd::try_clone);
                self.send_mail(number, id, &connection, route, file.and_then(Result::ok));
            }
        }
    }

    /// Takes the file with the password.
    pub(super) fn secret_read(&mut self, number: u32, outcome: Outcome) {
        let Some(Waiting { id, connection, route }) = self.mail.waiting.remove(&number) else {
            return;
        };
        let file = outcome.unwrap_or_else(|error| {
            let path = route.password_file.as_deref().unwrap_or_default();
            let key = &route.key;
            self.log.write(
                Level::Error,
                format_args!("{key}/password_file: {path} cannot be read: {error}"),
            );
            None
        });
        self.send_mail(number, id, &connection, route, file);
    }

    /// Passes a message to the mail process. If that does not run, the script's end is closed, which
    /// is an answer.
    fn send_mail(
        &mut self,
        number: u32,
        id: Id,
        connection: &Connection,
        route: MailRoute,
        file: Option<OwnedFd>,
    ) {
        let now = Instant::now();
        self.start_mail_process(now);
        let Some(application) = self.applications.get_mut(&id) else { return };
        let Some(submissions) = &mut application.submissions else { return };
        let Some(process) = &self.mail.process else { return submissions.ended() };
        let deadline = now + Duration::from_secs(u64::from(route.timeout)) + GRACE;
        let deliver = ToMail::Deliver {
            number,
            application: application.name.clone(),
            user: submissions.user.clone(),
            route,
            is_to_file: self.options.mail_file.is_some(),
        };
        let mut files = vec![connection.requests.as_fd(), connection.answers.as_fd()];
        files.extend(file.iter().map(AsFd::as_fd));
        match packet::send(&process.socket, &deliver.encode(), &files) {
            Ok(()) => drop(self.mail.in_progress.insert(number, (id, deadline))),
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
        match mail::start(&self.options, &self.log, self.mail.usage.clone(), now) {
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
                Ok(FromMail::Done { number }) => {
                    if let Some((id, _)) = self.mail.in_progress.remove(&number) {
                        self.submission_ended(id);
                    }
                }
                Ok(FromMail::Idle { usage }) => {
                    self.mail.usage = usage;
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
        self.mail.start_after = Some(self.mail.backoff.next_start(process.started, Instant::now()));
        for (_, (id, _)) in std::mem::take(&mut self.mail.in_progress) {
            self.submission_ended(id);
        }
        true
    }
}
