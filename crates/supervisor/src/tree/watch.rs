//! Ends processes of the server that cannot continue by themselves: those that a signal has
//! stopped, and a control process that does not answer. New processes take their places.
//!
//! The router is asked by `service_manager`, whose watchdog needs its answers. A prototype notices
//! by itself that it was stopped, as its application has to know.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use howdah_sys::activity::Activity;
use howdah_sys::log::Level;
use howdah_sys::{clock, process_tree, signals};
use howdah_wire::messages::ToControl;

use super::state::Tree;
use crate::liveness::Liveness;
use crate::prototype::STOPPED;

/// Interval at which the control process is asked whether it works.
const PING_INTERVAL: Duration = Duration::from_secs(5);

/// Time after which a stopped process is killed. A shell stops and continues all processes of the
/// server together.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);

/// The processes that are watched.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// Stopped processes, each with the time at which that was noticed.
    pub(super) stopped: HashMap<u32, Instant>,
    pub(super) control: Liveness,
    /// Time of the next ping of the control process; `None` if none runs.
    pub(super) next_ping: Option<Instant>,
    pub(super) last_ping: u32,
    /// The process that was replaced last.
    pub(super) replaced: Option<Replaced>,
}

/// A process that was replaced.
#[derive(Debug)]
pub(super) struct Replaced {
    pub(super) pid: u32,
    /// Seconds since 1970.
    pub(super) at: u64,
    /// Its kind and number, and why.
    pub(super) reason: String,
}

impl Watch {
    /// Returns the time of the next step.
    pub(super) fn due(&self) -> Option<Instant> {
        let stopped = self.stopped.values().map(|since| *since + STOP_TIMEOUT);
        stopped.chain(self.next_ping).chain(self.control.due()).min()
    }
}

impl Tree {
    /// Records that a signal has stopped or continued a child.
    pub(super) fn child_stopped(&mut self, pid: u32, is_stopped: bool, now: Instant) {
        self.prototype_stopped(pid, is_stopped);
        if is_stopped && self.kind_of(pid).is_some() {
            self.watch.stopped.entry(pid).or_insert(now);
        } else {
            self.watch.stopped.remove(&pid);
        }
        if is_stopped {
            self.file_helpers.stopped(pid);
        }
    }

    /// Returns the log's name for a child that must not stay stopped; `None` for others.
    fn kind_of(&self, pid: u32) -> Option<&'static str> {
        let is_router = self.router.as_ref().is_some_and(|router| router.pid == pid)
            || self.replacement.find(pid).is_some();
        let is_zygote = || self.zygotes.running().any(|zygote| zygote.pid == pid);
        Some(match () {
            () if is_router => "router process",
            () if self.control.has_pid(pid) => "control process",
            () if self.mail.pids().any(|mail| mail == pid) => "mail process",
            () if self.telemetry.pids().any(|own| own == pid) => "telemetry process",
            () if self.dashboard.pids().any(|own| own == pid) => "dashboard process",
            () if is_zygote() => "zygote",
            () if self.file_helpers.pids().any(|helper| helper == pid) => "file helper process",
            () if self.upgrade.successor().is_some_and(|successor| successor.pid == pid) => {
                "new server process"
            }
            () => return None,
        })
    }

    /// Kills processes that have been stopped for too long, and asks the control process whether it
    /// works.
    pub(super) fn watch_processes(&mut self, now: Instant) {
        let is_due = |since: &Instant| now.saturating_duration_since(*since) >= STOP_TIMEOUT;
        let stopped = &mut self.watch.stopped;
        let due: Vec<_> =
            stopped.extract_if(|_, since| is_due(since)).map(|(pid, _)| pid).collect();
        for pid in due {
            // The process may run again by now, or a debugger may have it.
            let is_stopped = process_tree::state_of(pid).is_none_or(|state| state == b'T');
            if let Some(kind) = self.kind_of(pid).filter(|_| is_stopped) {
                self.end_stopped(pid, kind);
            }
        }
        self.kill_closed_control(now);
        self.ask_control(now);
    }

    fn end_stopped(&mut self, pid: u32, kind: &str) {
        if let Some(slot) = self.zygotes.slot_with(pid) {
            let start = slot.start.clone();
            self.note_replaced(pid, format!("zygote {pid}: {STOPPED}"));
            return self.give_up_zygote(&start, STOPPED);
        }
        self.kill_process(pid, kind, STOPPED);
    }

    /// Kills a process, in whose place another is started.
    pub(super) fn kill_process(&mut self, pid: u32, kind: &str, reason: &str) {
        self.log.write(Level::Alert, format_args!("{kind} {pid} is killed: {reason}"));
        self.note_replaced(pid, format!("{kind} {pid}: {reason}"));
        self.control.is_killed |= self.control.has_pid(pid);
        let _ = signals::send(pid, signals::SIGKILL);
    }

    fn ask_control(&mut self, now: Instant) {
        let Some(pid) = self.control_pid() else {
            (self.watch.next_ping, self.watch.control) = (None, Liveness::default());
            return;
        };
        if let Some(time) = self.watch.control.look(now, || Activity::of(pid)) {
            self.watch.control = Liveness::default();
            let reason = format!("it has not answered for {} s", time.as_secs());
            return self.kill_process(pid, "control process", &reason);
        }
        if *self.watch.next_ping.get_or_insert(now) <= now {
            self.watch.next_ping = Some(now + PING_INTERVAL);
            self.watch.last_ping = self.watch.last_ping.wrapping_add(1);
            let number = self.watch.last_ping;
            self.watch.control.asked(number, now);
            self.send_to_control(&ToControl::Ping { number }, &[]);
        }
    }

    /// Handles the answer of the control process.
    pub(super) fn control_answered(&mut self, number: u32) {
        self.watch.control.heard(number);
    }

    /// Records a process that is replaced, for the status. One that was killed ends afterwards: the
    /// first reason counts.
    pub(super) fn note_replaced(&mut self, pid: u32, reason: String) {
        if self.watch.replaced.as_ref().is_some_and(|replaced| replaced.pid == pid) {
            return;
        }
        self.watch.replaced = Some(Replaced { pid, at: clock::wall_seconds(), reason });
        self.tell_replaced();
    }

    /// Tells the control process which process was replaced last.
    pub(super) fn tell_replaced(&self) {
        if let Some(Replaced { at, reason, .. }) = &self.watch.replaced {
            let message = ToControl::Replaced { at: *at, reason: reason.clone() };
            self.send_to_control(&message, &[]);
        }
    }
}
