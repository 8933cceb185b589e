//! Runs of timers that several servers have: the store of the cluster says which one runs a timer at
//! a time.
//!
//! The router asks the store, as it parses what the network sends. A router that was taken over can
//! have a timer run, or not: it may run and pause jobs in any case.

use std::time::{Duration, Instant};

use howdah_sys::log::{Level, OfApplication};
use howdah_wire::messages::{FromSupervisor, RUN_INTERVAL};

use super::jobs::Jobs;
use super::state::Tree;

/// Time for which a run is known to the store, in addition to the longest delay by chance: more than
/// the clocks of servers differ, and more than the time for which servers ask.
const KEEP: Duration = Duration::from_secs(600);

/// Maximum length of what the store knows a run by.
const MAX_TOKEN_BYTES: usize = 128;

/// A run that no other server may join.
#[derive(Debug)]
pub(super) struct SharedRun {
    token: String,
    /// Time at which the store is told again that it goes on.
    hold_at: Instant,
}

impl Jobs {
    /// Returns the time at which the store is told next that runs go on.
    pub(super) fn shared_runs_due(&self) -> Option<Instant> {
        self.entries().iter().filter_map(|entry| Some(entry.shared_run.as_ref()?.hold_at)).min()
    }
}

impl Tree {
    /// Has the router ask whether this server runs a timer at a time.
    pub(super) fn claim_run(&self, index: usize, time: u64) {
        let Some(entry) = self.jobs.entries().get(index) else { return };
        let Some(timer) = &entry.state.job().timer else { return };
        let message = FromSupervisor::ClaimRun {
            application: entry.application.clone(),
            job: entry.state.job().name.clone(),
            time,
            keep: (KEEP + timer.jitter).as_secs(),
            is_exclusive: !timer.overlap,
        };
        self.send_to_router(&message, &[]);
    }

    /// Takes the answer; the run has this token if this server runs the timer.
    pub(super) fn run_claimed(
        &mut self,
        application: &str,
        job: &str,
        time: u64,
        token: Option<String>,
    ) {
        let token = token.filter(|token| token.len() <= MAX_TOKEN_BYTES);
        // The job may have left the configuration since the question.
        let Some(entry) = self.jobs.entry(application, job) else { return };
        let is_used = entry.state.claimed(time, token.is_some());
        let is_exclusive = entry.state.job().timer.as_ref().is_some_and(|timer| !timer.overlap);
        let Some(token) = token.filter(|_| is_exclusive) else { return };
        let run = SharedRun { token, hold_at: Instant::now() + RUN_INTERVAL };
        if is_used {
            entry.shared_run = Some(run);
        } else if entry.shared_run.is_none() {
            self.end_shared_run(application, job, Some(run));
        }
    }

    /// Has the store told that runs go on, where that is due.
    pub(super) fn hold_shared_runs(&mut self, now: Instant) {
        let mut messages = Vec::new();
        for entry in self.jobs.entries_mut() {
            let due = entry.shared_run.as_mut().filter(|run| run.hold_at <= now);
            let Some(run) = due else { continue };
            run.hold_at = now + RUN_INTERVAL;
            let (application, token) = (entry.application.clone(), run.token.clone());
            let job = entry.state.job().name.clone();
            messages.push(if entry.pids().next().is_some() {
                FromSupervisor::HoldRun { application, job, token }
            } else {
                // It was paused before its start.
                entry.shared_run = None;
                FromSupervisor::EndRun { application, job, token }
            });
        }
        messages.iter().for_each(|message| self.send_to_router(message, &[]));
    }

    /// Has the store told that a run has ended, if other servers had to wait for that.
    pub(super) fn end_shared_run(&self, application: &str, job: &str, run: Option<SharedRun>) {
        let Some(SharedRun { token, .. }) = run else { return };
        let (application, job) = (application.to_owned(), job.to_owned());
        self.send_to_router(&FromSupervisor::EndRun { application, job, token }, &[]);
    }

    /// Logs that a run was left out because the store has not answered.
    pub(super) fn report_unclaimed(&self, index: usize) {
        let Some(entry) = self.jobs.entries().get(index) else { return };
        let (application, job) = (&entry.application, &entry.state.job().name);
        self.log.about(&OfApplication(application)).write(
            Level::Error,
            format_args!(
                "\"{application}\" job \"{job}\": a run is left out: the server of \
                 settings/cluster does not answer which server runs it; \"shared\": false would \
                 run it on each"
            ),
        );
    }
}
