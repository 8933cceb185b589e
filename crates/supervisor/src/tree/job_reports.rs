//! Questions of the router about jobs, and orders to them. The router may name only jobs of the
//! configuration, and change no command.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use howdah_jobs::state::{Activity, NotRun};
use howdah_questions::{JobLine, JobOrdered, JobStatus, Jobs};
use howdah_sys::clock;
use howdah_sys::log::{Level, OfApplication};
use howdah_wire::messages::{FromSupervisor, JobOrder};

use super::jobs::{Entry, both};
use super::state::Tree;
use crate::memory::memory_file;

/// Maximum number of lines of a job that are kept.
const MAX_LINES: usize = 200;

/// Maximum number of bytes of these lines.
const MAX_BYTES: usize = 32 * 1024;

/// The last lines of a job.
#[derive(Debug, Default)]
pub(super) struct LastLines {
    lines: VecDeque<JobLine>,
    bytes: usize,
}

impl LastLines {
    /// Keeps a line, and only the last lines before it.
    pub(super) fn push(&mut self, mut text: String) {
        text.truncate(text.floor_char_boundary(MAX_BYTES));
        self.bytes += text.len();
        self.lines.push_back(JobLine { at: clock::wall_seconds(), text });
        while self.lines.len() > MAX_LINES || self.bytes > MAX_BYTES {
            let Some(line) = self.lines.pop_front() else { break };
            self.bytes -= line.text.len();
        }
    }
}

impl Tree {
    /// Sends the router the jobs of applications, or of all.
    pub(super) fn read_jobs(&mut self, number: u32, applications: Option<&[String]>) {
        let now = both(Instant::now());
        let mut jobs = Jobs::default();
        for entry in self.jobs.entries() {
            let name = &entry.application;
            if applications.is_some_and(|applications| !applications.contains(name)) {
                continue;
            }
            let state = &entry.state;
            let counts = state.counts();
            let status = JobStatus {
                state: match state.activity() {
                    Activity::Running => "running",
                    Activity::Paused => "paused",
                    Activity::Waiting => "waiting",
                    Activity::Over => "over",
                }
                .into(),
                processes: entry.pids().collect(),
                runs: counts.started,
                failed: counts.failed,
                left_out: counts.left_out,
                last_start: counts.last_start.map(seconds),
                last_duration: counts
                    .last_duration
                    .map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
                last_end: entry.last_end.clone(),
                next_run: state.next_run(now).map(seconds),
            };
            let of_application = jobs.entry(name.clone()).or_default();
            // One that ends is followed by one of the same name.
            of_application.insert(state.job().name.clone(), status);
        }
        self.answer_about_jobs(number, Some(serde_json::to_vec(&jobs)));
    }

    /// Sends the router the last lines of a job.
    pub(super) fn read_job_log(&mut self, number: u32, application: &str, job: &str) {
        let lines = self.jobs.entry(application, job).map(|entry| &entry.last_lines.lines);
        let answer = lines.map(serde_json::to_vec);
        self.answer_about_jobs(number, answer);
    }

    /// Carries out an order to a job.
    pub(super) fn order_job(&mut self, number: u32, application: &str, job: &str, order: JobOrder) {
        let Some(entry) = self.jobs.entry(application, job) else {
            return self.answer_about_jobs(number, None);
        };
        let now = Instant::now();
        let done = match order {
            JobOrder::Run => entry.state.run(now).map(|()| "is run"),
            JobOrder::Pause => {
                entry.state.pause();
                Ok("is paused")
            }
            JobOrder::Resume => {
                entry.state.resume(now);
                Ok("is resumed")
            }
        };
        self.jobs.pauses.keep(application, job, order);
        self.save_pauses();
        let problem = match done {
            Ok(done) => {
                let line = format_args!("\"{application}\" job \"{job}\": it {done}, as asked");
                self.log.about(&OfApplication(application)).write(Level::Notice, line);
                None
            }
            Err(NotRun::Runs) => Some("it runs already"),
            Err(NotRun::Paused) => Some("it is paused: resume it"),
            Err(NotRun::Ends) => Some("it is being ended"),
        };
        let ordered = JobOrdered { problem: problem.map(str::to_owned) };
        self.answer_about_jobs(number, Some(serde_json::to_vec(&ordered)));
    }

    fn answer_about_jobs(&mut self, number: u32, answer: Option<serde_json::Result<Vec<u8>>>) {
        let in_memory = |text: serde_json::Result<Vec<u8>>| {
            let text = text.map_err(|error| error.to_string())?;
            memory_file("jobs", &text).map_err(|error| error.to_string())
        };
        let (file, error) = match answer.map(in_memory).transpose() {
            Ok(file) => (file, String::new()),
            Err(error) => (None, error),
        };
        let files: Vec<_> = file.iter().map(AsFd::as_fd).collect();
        self.send_to_router(&FromSupervisor::Jobs { number, error }, &files);
    }
}

impl Entry {
    /// Keeps a text about the end of a process.
    pub(super) fn keep_end(&mut self, text: &str) {
        self.last_lines.push(text.to_owned());
        self.last_end = Some(text.to_owned());
    }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_lines_of_a_job_are_kept() {
        let mut last = LastLines::default();
        (0..1000).for_each(|number| last.push(number.to_string()));
        assert_eq!((last.lines.len(), last.lines[0].text.as_str()), (MAX_LINES, "800"));
        last.push("\u{e4}".repeat(MAX_BYTES));
        assert_eq!((last.lines.len(), last.bytes), (1, MAX_BYTES));
        last.push("a".to_owned());
        assert_eq!((last.lines.len(), last.bytes), (1, 1));
    }
}
