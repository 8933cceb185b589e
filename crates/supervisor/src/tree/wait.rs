//! The poll call of the event loop: its event sources and its timeout.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::state::{Source, Tree};
use crate::handover::Predecessor;
use crate::mail::Submissions;

const IN: PollFlags = PollFlags::IN;

impl Tree {
    /// Waits for events, at most until the next deadline. Returns the sources that are ready.
    pub(super) fn wait(&self, signals: &OwnedFd, now: Instant) -> Vec<Source> {
        let predecessor = self.upgrade.predecessor.as_ref().and_then(Predecessor::socket);
        let mut sources = vec![(Source::Signals, PollFd::from_borrowed_fd(signals.as_fd(), IN))];
        let mut add = |source, fd, flags| {
            sources.push((source, PollFd::from_borrowed_fd(fd, flags)));
        };
        let mut outbox_due = None;
        if let Some(router) = &self.router {
            let outbox = router.outbox.borrow();
            add(Source::Router, router.socket.as_fd(), outbox.poll_flags());
            outbox_due = outbox.due();
        }
        for other in &self.replacement.others {
            let outbox = other.router.outbox.borrow();
            let source = Source::OtherRouter(other.router.pid);
            add(source, other.router.socket.as_fd(), outbox.poll_flags());
            outbox_due = [outbox_due, outbox.due()].into_iter().flatten().min();
        }
        for (source, fd) in self.control_sources() {
            add(source, fd, IN);
        }
        if let Some(process) = &self.mail.process {
            add(Source::Mail, process.socket.as_fd(), IN);
        }
        if let Some(successor) = self.upgrade.successor() {
            add(Source::Successor, successor.socket(), IN);
        }
        if let Some(predecessor) = &predecessor {
            add(Source::Predecessor, predecessor.as_fd(), IN);
        }
        for socket in self.sockets.unclaimed().filter(|_| self.has_served) {
            add(Source::Unclaimed, socket, IN);
        }
        // Reports that are in memory already do not make a descriptor readable.
        let (mut buffered, mut output_due) = (Vec::new(), None);
        for (id, application) in &self.applications {
            let output = application.output.as_ref().filter(|output| {
                let pause = Some(output.pause()).filter(|pause| !pause.is_zero());
                output_due =
                    [output_due, pause.map(|pause| now + pause)].into_iter().flatten().min();
                pause.is_none()
            });
            let output = output.into_iter().map(|output| (Source::Output(*id), output.fd()));
            let reports = application.reports().map(|fd| (Source::Prototype(*id), fd));
            let ends =
                application.worker_ends().map(|(worker, fd)| (Source::WorkerEnd(*id, worker), fd));
            let submission = application.submissions.as_ref().and_then(Submissions::waiting);
            let submission = submission.map(|fd| (Source::Submission(*id), fd));
            output
                .chain(reports)
                .chain(ends)
                .chain(submission)
                .for_each(|(source, fd)| add(source, fd, IN));
            buffered.extend(application.has_buffered().then_some(Source::Prototype(*id)));
        }
        for (pid, output) in self.jobs.outputs() {
            let pause = output.pause();
            if pause.is_zero() {
                add(Source::JobOutput(pid), output.fd(), IN);
            } else {
                let due = now + pause;
                output_due = Some(output_due.map_or(due, |known: Instant| known.min(due)));
            }
        }
        for zygote in self.zygotes.running() {
            add(Source::Zygote(zygote.pid), zygote.replies(), IN);
            if let Some(output) = &zygote.output {
                add(Source::ZygoteOutput(zygote.pid), output.fd(), IN);
            }
        }
        for (pid, socket) in self.file_helpers.sockets() {
            add(Source::FileHelper(pid), socket, IN);
        }
        let due = self
            .applications
            .values()
            .filter_map(|application| application.due(now))
            .chain(self.router_start.filter(|_| !self.changes.is_saving()))
            .chain(self.control_due(now))
            .chain(self.control.closing)
            .chain(self.control_file_due(now))
            .chain(self.mail_due())
            .chain(self.telemetry_due())
            .chain(self.dashboard_due())
            .chain(outbox_due)
            .chain(output_due)
            .chain(self.orphans.due())
            .chain(self.zygotes.due())
            .chain(self.programs.due())
            .chain(self.replacement.due(now))
            .chain(self.tables.due())
            .chain(self.usage.counts.due(now))
            .chain(self.application_checks.due().filter(|_| self.has_served))
            .chain(self.counting.due)
            .chain(self.users.due().filter(|_| self.has_served && self.has_users()))
            .chain(self.file_helpers.due())
            .chain(self.upgrade.due())
            .chain(self.service_manager.due())
            .chain(self.watch.due())
            .chain(self.options.upkeep.is_some().then_some(self.next_upkeep))
            .chain(self.jobs_due(now))
            .chain(self.leaving)
            .chain(self.shutdown_due(now))
            .min();
        let wait = due.map(|due| due.saturating_duration_since(now) + Duration::from_millis(1));
        let wait = if buffered.is_empty() { wait } else { Some(Duration::ZERO) };
        let timeout = wait.map(|wait| Timespec {
            tv_sec: wait.as_secs() as i64,
            tv_nsec: i64::from(wait.subsec_nanos()),
        });
        let (sources, mut polled): (Vec<_>, Vec<_>) = sources.into_iter().unzip();
        let _ = poll(&mut polled, timeout.as_ref());
        let ready = polled.iter().map(|fd| !fd.revents().is_empty());
        let ready = sources.into_iter().zip(ready).filter(|(_, ready)| *ready);
        ready.map(|(source, _)| source).chain(buffered).collect()
    }
}
