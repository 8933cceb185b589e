//! The zygotes, and the applications that wait for one.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use howdah_wire::messages::ApplicationSpec;

use super::id::Id;
use crate::backoff::Backoff;
use crate::output::StartLines;
use crate::zygote::Zygote;

/// The zygotes, and the applications that wait for one.
#[derive(Debug, Default)]
pub(super) struct Zygotes {
    pub(super) slots: Vec<Slot>,
    /// Applications that wait until their zygote has loaded PHP, the oldest first.
    pub(super) waiting: Vec<Waiting>,
    /// The applications that need their own start, as last logged.
    pub(super) logged_own_starts: String,
}

/// A start of PHP that applications can share.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SharedStart {
    /// Path of the program `howdah-php`.
    pub(super) program: PathBuf,
    /// Full version of PHP.
    pub(super) version: String,
    /// `php.ini` to read instead of libphp's default, which only the administrator can change.
    pub(super) ini_file: Option<String>,
}

/// The zygote of a start.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) start: SharedStart,
    pub(super) zygote: Option<Zygote>,
    /// Zygotes that have been killed, and have not ended.
    pub(super) ending: Vec<Zygote>,
    /// Forks of a zygote could not run applications. Tried again with the next configuration.
    pub(super) is_unfit: bool,
    pub(super) backoff: Backoff,
    /// Earliest time of the next start; `None` for now.
    pub(super) next_start: Option<Instant>,
    /// Number of zygotes in a row that were never ready.
    pub(super) never_ready: u32,
    /// How the last of them has failed, as logged.
    pub(super) told: Option<Failure>,
    /// The output of the last of them.
    pub(super) lines: StartLines,
}

/// How a zygote that was never ready has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    /// There was no process.
    NotStarted,
    /// It took too long.
    Late,
    /// It has ended. Its pipe may tell that before the kernel tells how.
    Ended,
}

/// Pause after the first zygote that was never ready; it doubles with each in a row up to
/// [`MAX_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// An application that waits for a zygote.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) id: Id,
    pub(super) start: SharedStart,
    pub(super) spec: ApplicationSpec,
    pub(super) descriptors: Vec<OwnedFd>,
    /// Workers that the router has requested meanwhile.
    pub(super) workers: u32,
}

/// How the prototype of an application is started.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StartKind {
    /// The program is executed.
    Execute,
    /// A zygote forks it.
    Fork(SharedStart),
    /// The zygote is loading PHP.
    Wait(SharedStart),
}

impl Slot {
    pub(super) fn new(start: SharedStart) -> Self {
        Slot {
            start,
            zygote: None,
            ending: Vec::new(),
            is_unfit: false,
            backoff: Backoff::default(),
            next_start: None,
            never_ready: 0,
            told: None,
            lines: StartLines::new(),
        }
    }

    /// Kills the zygote; SIGCHLD reports its end.
    pub(super) fn end(&mut self) {
        if let Some(zygote) = self.zygote.take() {
            zygote.kill();
            self.ending.push(zygote);
        }
    }

    /// Delays the next start after a zygote that was ready and does not work any more.
    pub(super) fn delay(&mut self, started: Instant, now: Instant) {
        self.next_start = Some(self.backoff.next_start(started, now));
    }

    /// Delays the next start after a zygote that was never ready, however long that took. Returns
    /// true if the one before has not failed in the same way.
    pub(super) fn failed(&mut self, how: Failure, now: Instant) -> bool {
        let pause = FIRST_PAUSE.saturating_mul(1 << self.never_ready.min(8)).min(MAX_PAUSE);
        self.never_ready = self.never_ready.saturating_add(1);
        self.next_start = Some(now + pause);
        self.told.replace(how) != Some(how)
    }

    /// Records that the zygote is ready.
    pub(super) fn is_ready(&mut self) {
        self.never_ready = 0;
        self.told = None;
        self.lines.clear();
        if let Some(output) = self.zygote.as_mut().and_then(|zygote| zygote.output.as_mut()) {
            output.end_start();
        }
    }
}

impl Zygotes {
    /// Returns the zygotes that run.
    pub(super) fn running(&self) -> impl Iterator<Item = &Zygote> {
        self.slots.iter().filter_map(|slot| slot.zygote.as_ref())
    }

    /// Returns the process ids, also of zygotes that were killed.
    pub(super) fn pids(&self) -> impl Iterator<Item = u32> {
        let all = self.slots.iter().flat_map(|slot| slot.zygote.iter().chain(&slot.ending));
        all.map(|zygote| zygote.pid)
    }

    pub(super) fn slot(&mut self, start: &SharedStart) -> Option<&mut Slot> {
        self.slots.iter_mut().find(|slot| slot.start == *start)
    }

    /// Returns the slot whose zygote runs as this process.
    pub(super) fn slot_with(&mut self, pid: u32) -> Option<&mut Slot> {
        self.slots.iter_mut().find(|slot| slot.zygote.as_ref().is_some_and(|z| z.pid == pid))
    }

    /// Returns the zygote of a start.
    pub(super) fn zygote(&mut self, start: &SharedStart) -> Option<&mut Zygote> {
        self.slot(start)?.zygote.as_mut()
    }

    /// Returns the time at which a zygote is killed that has not loaded PHP.
    pub(super) fn due(&self) -> Option<Instant> {
        self.running().filter_map(Zygote::due).min()
    }

    /// Returns the number of waiting instances of an application.
    pub(super) fn waiting_instances(&self, name: &str) -> usize {
        self.waiting.iter().filter(|waiting| waiting.spec.name == name).count()
    }

    /// Returns the application with this id if it waits.
    pub(super) fn waiting(&mut self, id: Id) -> Option<&mut Waiting> {
        self.waiting.iter_mut().find(|waiting| waiting.id == id)
    }

    /// Kills all zygotes. Nothing waits for them any more.
    pub(super) fn end_all(&mut self) {
        self.slots.iter_mut().for_each(Slot::end);
        self.waiting.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zygote_that_is_never_ready_is_told_once_and_tried_again_with_growing_pauses() {
        let (program, version) = (PathBuf::from("/howdah-php"), "8.2.36".to_owned());
        let mut slot = Slot::new(SharedStart { program, version, ini_file: None });
        let now = Instant::now();
        let mut failed = |how| {
            let is_new = slot.failed(how, now);
            (is_new, slot.next_start.unwrap().duration_since(now).as_secs())
        };
        let (late, ended) = (Failure::Late, Failure::Ended);
        assert_eq!((failed(late), failed(late), failed(late)), ((true, 1), (false, 2), (false, 4)));
        assert_eq!((failed(ended), failed(ended)), ((true, 8), (false, 16)));
        for _ in 0..40 {
            failed(late);
        }
        assert_eq!(failed(late), (false, 60));
        slot.is_ready();
        assert!(slot.failed(late, now), "it was ready in between");
        assert_eq!(slot.next_start, Some(now + FIRST_PAUSE));
    }
}
