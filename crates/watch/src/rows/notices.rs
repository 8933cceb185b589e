//! What is unusual about a site, in a few words. No I/O, no clock.

use std::time::Duration;

use howdah_questions::Status;
use serde::Serialize;

use super::{Counts, Row};
use crate::format::{bytes, seconds};

/// Number of processors from which a site is said to use them.
const MANY_PROCESSORS: f64 = 0.8;

/// Number of processors that a site must get at least to be said to want more.
const FEW_PROCESSORS: f64 = 0.05;

/// Growth of the memory that is mentioned, in bytes.
const MUCH_GROWTH: u64 = 16 << 20;

/// Number of programs that is mentioned.
const MANY_PROGRAMS: u64 = 8;

/// Bytes a second in the log that are mentioned.
const MUCH_LOG: f64 = 65_536.0;

/// Seconds of a request that are mentioned.
const SLOW: f64 = 2.0;

/// Something unusual.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Notice {
    /// The words.
    pub text: String,
    /// Higher for what is more specific or worse: from 1 for requests that wait to 9 for crashes.
    #[serde(skip)]
    pub rank: u8,
}

/// Counts of a site at two times.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    /// Seconds between both, never 0.
    pub(crate) seconds: f64,
    pub(crate) before: Counts,
    pub(crate) now: Counts,
}

impl Window {
    pub(crate) fn new(time: Duration, before: Counts, now: Counts) -> Window {
        Window { seconds: time.as_secs_f64().max(0.001), before, now }
    }

    /// Returns the growth of memory in bytes that new processes do not explain.
    fn growth(&self) -> Option<u64> {
        let Window { before, now, .. } = self;
        let more = now.processes.saturating_sub(before.processes);
        let of_new = now.private.checked_div(now.processes)?.saturating_mul(more);
        let growth = now.private.saturating_sub(before.private).saturating_sub(of_new);
        (before.processes > 0 && growth >= MUCH_GROWTH && growth >= before.private / 4)
            .then_some(growth)
    }
}

/// Returns what is unusual, the highest rank first. `wanted` is the number of processors that its
/// processes want; `rates` has the last seconds, `minute` the last minute.
pub(crate) fn notices(
    name: &str,
    row: &Row,
    status: &Status,
    wanted: Option<f64>,
    rates: Option<&Window>,
    minute: Option<&Window>,
) -> Vec<Notice> {
    let mut all = Vec::new();
    let mut add = |rank, text: String| all.push(Notice { text, rank });
    let php = status.php.get(name);
    for (reason, count) in php.iter().flat_map(|php| &php.activity.failed_last_minute) {
        add(9, ends(reason, *count));
    }
    let is_part = |kind: &str| matches!(kind, "application" | "site" | "upstream");
    let out = status.out.iter().find(|part| part.name == name && is_part(&part.kind));
    let problem = status.applications.get(name).and_then(|found| found.problem.as_ref());
    if let Some(reason) = out.map(|part| &part.reason).or(problem) {
        add(8, format!("cannot run: {reason}"));
    }
    if let Some((window, growth)) = minute.and_then(|window| Some((window, window.growth()?))) {
        add(7, format!("memory +{} in {}", bytes(growth), seconds(window.seconds)));
    }
    if let Some(programs) = php.map(|php| php.processes.programs).filter(|n| *n >= MANY_PROGRAMS) {
        add(6, format!("{programs} programs of scripts"));
    }
    let dropped = minute
        .map_or(0, |window| window.now.dropped_lines.saturating_sub(window.before.dropped_lines));
    let log = rates.map_or(0.0, |window| {
        window.now.log_bytes.saturating_sub(window.before.log_bytes) as f64 / window.seconds
    });
    match (dropped, log) {
        (0, rate) if rate >= MUCH_LOG => add(5, format!("log {}/s", bytes(rate as u64))),
        (0, _) => {}
        (lines, rate) => add(5, format!("log {}/s, {lines} dropped", bytes(rate as u64))),
    }
    match (row.processors, wanted) {
        (Some(used), _) if used >= MANY_PROCESSORS => {
            add(4, format!("uses {used:.1} processors"));
        }
        (Some(used), Some(wanted)) if used >= FEW_PROCESSORS && wanted >= MANY_PROCESSORS => {
            add(4, format!("gets {used:.1} of {wanted:.1} processors"));
        }
        _ => {}
    }
    let longest = php.map_or(0.0, |php| php.activity.longest_us as f64 / 1e6);
    match row.seconds.filter(|time| *time >= SLOW) {
        Some(time) if longest >= time => {
            add(3, format!("slow: script runs {}", seconds(longest)));
        }
        Some(time) => add(3, format!("slow: {} a request", seconds(time))),
        None => {}
    }
    match row.errors {
        0 => {}
        1 => add(2, "1 error in a minute".to_owned()),
        errors => add(2, format!("{errors} errors in a minute")),
    }
    match row.waiting {
        0 => {}
        1 => add(1, "1 request waits".to_owned()),
        waiting => add(1, format!("{waiting} requests wait")),
    }
    all
}

/// Describes ends of processes: `signal_11` and other words of the status.
fn ends(reason: &str, count: u64) -> String {
    let times = if count == 1 { String::new() } else { format!("{count} ") };
    let s = if count == 1 { "" } else { "es" };
    match reason.split_once('_') {
        Some(("signal", number)) => format!("{times}crash{s}: signal {number}"),
        _ if reason == "out_of_memory" => format!("{times}killed: out of memory"),
        _ if reason == "time_limit" => format!("{times}killed: time limit"),
        _ => format!("{times}crash{s}: {}", reason.replace('_', " ")),
    }
}
