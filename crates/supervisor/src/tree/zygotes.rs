//! Zygotes: starts one for each start of PHP that several applications can share, and the
//! applications that wait until it has loaded PHP.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use howdah_sys::log::Level;
use howdah_wire::messages::{ApplicationSpec, Exit, FromSupervisor, Problem};

use super::id::Id;
use super::state::Tree;
use crate::backoff::Backoff;
use crate::output::{Output, StartLines};
use crate::prototype::{own_start, shared_ini_file};
use crate::zygote::{Report, Zygote};

/// Minimum number of applications for which a zygote is worth its memory.
const MIN_APPLICATIONS: usize = 2;

/// The consequence of a zygote that was never ready, for the log.
const NEVER_READY: &str = "; it was never ready, so each application starts PHP on its own until \
                           one is, which takes about 10 MB more for each; it is tried again";

/// Maximum number of applications that the log names in one line.
const MAX_NAMED: usize = 100;

/// Pause after the first zygote that was never ready; it doubles with each in a row up to
/// [`MAX_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(60);

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
    /// The last failure, as logged.
    pub(super) told: Option<Failure>,
    /// The output of the last of them.
    pub(super) lines: StartLines,
}

/// The failure of a zygote that was never ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    /// There was no process.
    NotStarted,
    /// The start took too long.
    Late,
    /// The zygote has ended. Its pipe may tell that before the kernel gives the status.
    Ended,
}

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

/// The way in which the prototype of an application is started.
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

    /// Delays the next start after a zygote that was ready and no longer works.
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

    /// Kills all zygotes. Starts no longer wait for them.
    pub(super) fn end_all(&mut self) {
        self.slots.iter_mut().for_each(Slot::end);
        self.waiting.clear();
    }
}

impl Tree {
    /// Starts the zygotes that the current configuration needs, and ends the others.
    pub(super) fn prepare_zygotes(&mut self) {
        let mut counts: BTreeMap<SharedStart, usize> = BTreeMap::new();
        let specs = self.changes.current.grants.applications.values();
        for start in specs.filter_map(|spec| self.shared_start(spec)) {
            *counts.entry(start).or_default() += 1;
        }
        counts.retain(|_, count| *count >= MIN_APPLICATIONS);
        for slot in &mut self.zygotes.slots {
            slot.is_unfit = false;
            if !counts.contains_key(&slot.start) {
                slot.end();
            }
        }
        let is_used = |slot: &Slot| counts.contains_key(&slot.start) || !slot.ending.is_empty();
        self.zygotes.slots.retain(is_used);
        for start in counts.keys() {
            self.start_zygote(start, Instant::now());
        }
        if !counts.is_empty() {
            self.log_own_starts();
        }
    }

    /// Returns the start that an application can share with others; `None` if it needs its own.
    fn shared_start(&self, spec: &ApplicationSpec) -> Option<SharedStart> {
        let program = self.options.php_for(&spec.php_version)?;
        if own_start(spec).is_some() {
            return None;
        }
        let ini_file = match &spec.ini_file {
            // The path that was checked, and not one that could lead elsewhere by now.
            Some(_) => Some(shared_ini_file(spec)?.to_str()?.to_owned()),
            None => None,
        };
        Some(SharedStart {
            program: program.path.clone(),
            version: program.version.clone(),
            ini_file,
        })
    }

    fn is_wanted(&self, start: &SharedStart) -> bool {
        let specs = self.changes.current.grants.applications.values();
        let same = specs.filter(|spec| self.shared_start(spec).as_ref() == Some(start));
        same.take(MIN_APPLICATIONS).count() == MIN_APPLICATIONS
    }

    /// Logs which applications cannot use a zygote, if the applications have changed.
    fn log_own_starts(&mut self) {
        let specs = self.changes.current.grants.applications.values();
        let own =
            |spec: &ApplicationSpec| Some(format!("\"{}\" ({})", spec.name, own_start(spec)?));
        let mut names: Vec<_> = specs.filter_map(own).collect();
        names.sort();
        let more = names.len().saturating_sub(MAX_NAMED);
        names.truncate(MAX_NAMED);
        if more > 0 {
            names.push(format!("{more} others"));
        }
        let names = names.join(", ");
        if !names.is_empty() && names != self.zygotes.logged_own_starts {
            let line = format_args!("applications that do not share the start of PHP: {names}");
            self.log.write(Level::Info, line);
        }
        self.zygotes.logged_own_starts = names;
    }

    /// Starts a zygote unless it runs, or has failed a short time ago.
    fn start_zygote(&mut self, start: &SharedStart, now: Instant) {
        if self.zygotes.slot(start).is_none() {
            self.zygotes.slots.push(Slot::new(start.clone()));
        }
        let user = self.options.user.as_ref().and(self.options.private_user);
        let Some(slot) = self.zygotes.slot(start) else { return };
        if slot.zygote.is_some() || slot.next_start.is_some_and(|next| next > now) {
            return;
        }
        let SharedStart { program, version, ini_file } = start;
        let Some(program) = self.options.php.iter().find(|php| php.path == *program) else {
            return;
        };
        match Zygote::start(&program.file, version, user, ini_file.clone()) {
            Ok(mut zygote) => {
                if let Some(output) = &mut zygote.output {
                    output.begin_start(std::mem::take(&mut slot.lines));
                }
                slot.zygote = Some(zygote);
            }
            Err(error) => {
                if slot.failed(Failure::NotStarted, now) {
                    let message = format_args!("cannot start a zygote: {error}");
                    self.log.write(Level::Error, message);
                }
            }
        }
    }

    /// Returns how the prototype of an application is to be started now.
    pub(super) fn start_kind(&mut self, spec: &ApplicationSpec, now: Instant) -> StartKind {
        let start = self.shared_start(spec).filter(|start| self.is_wanted(start));
        let Some(start) = start else { return StartKind::Execute };
        if self.zygotes.slot(&start).is_some_and(|slot| slot.is_unfit) {
            return StartKind::Execute;
        }
        self.start_zygote(&start, now);
        let Some(slot) = self.zygotes.slot(&start) else { return StartKind::Execute };
        match &slot.zygote {
            Some(zygote) if zygote.is_ready => StartKind::Fork(start),
            // After one that was never ready, starts do not wait for the next.
            Some(_) if slot.never_ready == 0 => StartKind::Wait(start),
            _ => StartKind::Execute,
        }
    }

    /// Lets an application wait until a zygote has loaded PHP.
    pub(super) fn wait_for_zygote(
        &mut self,
        start: SharedStart,
        id: Id,
        spec: ApplicationSpec,
        descriptors: Vec<OwnedFd>,
    ) {
        self.zygotes.waiting.push(Waiting { id, start, spec, descriptors, workers: 0 });
    }

    /// Replaces a zygote that was started from files that have changed.
    pub(super) fn renew_zygote(&mut self, start: &SharedStart) {
        let line =
            "PHP's files have changed: PHP is loaded anew for further starts of applications";
        self.log.write(Level::Notice, format_args!("{line}"));
        if let Some(slot) = self.zygotes.slot(start) {
            slot.end();
        }
        self.start_zygote(start, Instant::now());
    }

    /// Ends a zygote that does not work. Those that wait for it start without.
    pub(super) fn give_up_zygote(&mut self, start: &SharedStart, reason: &str) {
        let now = Instant::now();
        if let Some(slot) = self.zygotes.slot(start) {
            let zygote = slot.zygote.as_ref();
            let is_late = zygote.and_then(Zygote::due).is_some_and(|due| due <= now);
            let ready = zygote.filter(|zygote| zygote.is_ready).map(|zygote| zygote.started);
            let (is_new, consequence) = match ready {
                Some(started) => {
                    slot.delay(started, now);
                    (true, "")
                }
                None if is_late => (slot.failed(Failure::Late, now), NEVER_READY),
                None => (slot.failed(Failure::Ended, now), NEVER_READY),
            };
            slot.end();
            if is_new {
                let message = format_args!("the zygote is replaced: {reason}{consequence}");
                self.log.write(Level::Alert, message);
            }
        }
        self.start_waiting(start);
    }

    /// Reads the reports of a zygote.
    pub(super) fn on_zygote(&mut self, pid: u32) {
        let Some(slot) = self.zygotes.slot_with(pid) else { return };
        let (start, zygote) = (slot.start.clone(), slot.zygote.as_mut());
        match zygote.map_or(Report::Empty, Zygote::next_report) {
            Report::Empty => {}
            Report::Ready => {
                slot.is_ready();
                self.start_waiting(&start);
            }
            Report::Unfit(reason) => self.zygote_is_unfit(&start, &reason),
            Report::Closed => self.give_up_zygote(&start, "it has ended"),
        }
    }

    fn zygote_is_unfit(&mut self, start: &SharedStart, reason: &str) {
        let line = format_args!(
            "each application starts PHP on its own, which takes about 10 MB more for each: \
             {reason}"
        );
        self.log.write(Level::Notice, line);
        if let Some(slot) = self.zygotes.slot(start) {
            slot.is_unfit = true;
            slot.end();
        }
        self.start_waiting(start);
    }

    /// Logs the output of a zygote.
    pub(super) fn on_zygote_output(&mut self, pid: u32) {
        for slot in &mut self.zygotes.slots {
            let all = slot.zygote.iter_mut().chain(&mut slot.ending);
            for zygote in all.filter(|zygote| zygote.pid == pid) {
                if let Some(output) = &mut zygote.output
                    && !output.drain("PHP", &self.log)
                {
                    slot.lines = output.end_start().unwrap_or_default();
                    zygote.output = None;
                }
            }
        }
    }

    /// Starts the applications that wait for a zygote.
    fn start_waiting(&mut self, start: &SharedStart) {
        let all = std::mem::take(&mut self.zygotes.waiting);
        let (due, rest): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|waiting| waiting.start == *start);
        self.zygotes.waiting = rest;
        for Waiting { id, spec, descriptors, workers, .. } in due {
            // A new router does not know these starts.
            self.as_router(id.router, |tree| {
                tree.start_application(id.number, spec, descriptors);
                (0..workers).for_each(|_| tree.spawn_worker(id.number));
            });
        }
    }

    /// Ends zygotes that take too long to load PHP.
    pub(super) fn end_late_zygotes(&mut self, now: Instant) {
        let is_late = |zygote: &Zygote| zygote.due().is_some_and(|due| due <= now);
        let slots = self.zygotes.slots.iter();
        let late = slots.filter(|slot| slot.zygote.as_ref().is_some_and(is_late));
        let late: Vec<_> = late.map(|slot| slot.start.clone()).collect();
        for start in late {
            self.give_up_zygote(&start, "it takes too long to load PHP");
        }
    }

    /// Handles the end of a process. Returns false if it was no zygote.
    pub(super) fn zygote_ended(&mut self, pid: u32, exit: Exit) -> bool {
        self.on_zygote_output(pid);
        if let Some(slot) = self.zygotes.slot_with(pid) {
            let (start, zygote) = (slot.start.clone(), slot.zygote.as_mut());
            // Its last report may be unread.
            match zygote.map(Zygote::next_report) {
                Some(Report::Unfit(reason)) => self.zygote_is_unfit(&start, &reason),
                _ => self.give_up_zygote(&start, &format!("it {exit}")),
            }
        }
        let mut was_zygote = false;
        for slot in &mut self.zygotes.slots {
            let ended = slot.ending.extract_if(.., |zygote| zygote.pid == pid);
            for mut zygote in ended.collect::<Vec<_>>() {
                was_zygote = true;
                if let Some(lines) = zygote.output.as_mut().and_then(Output::end_start) {
                    slot.lines = lines;
                }
            }
        }
        was_zygote
    }

    /// Stops an application that waits for a zygote. Returns false if there is none.
    pub(super) fn stop_waiting(&mut self, number: u32) -> bool {
        let id = self.id(number);
        let before = self.zygotes.waiting.len();
        self.zygotes.waiting.retain(|waiting| waiting.id != id);
        let was_waiting = self.zygotes.waiting.len() < before;
        if was_waiting {
            let problem = Problem::of("it was stopped before PHP was loaded");
            self.send_to_router(&FromSupervisor::Ended { application: number, problem }, &[]);
        }
        was_waiting
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
