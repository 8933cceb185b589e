//! Counts how processes of an application end with an error, and how often all are replaced.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use howdah_wire::messages::Exit;

/// Reason of an end by the time limit of requests.
const TIME_LIMIT: &str = "time_limit";

/// Counts by reason. The reasons are few: the server's own words, signals and "exit".
#[derive(Debug, Default)]
pub struct Ends {
    counts: Mutex<BTreeMap<String, u64>>,
    restarts: Mutex<BTreeMap<&'static str, u64>>,
}

impl Ends {
    /// Counts the end of a process with an error. `is_late`: it was ended by the time limit of its
    /// request.
    pub fn count(&self, exit: Exit, is_late: bool) {
        let reason = match exit {
            _ if is_late => TIME_LIMIT.to_owned(),
            Exit::Status(_) => "error_status".to_owned(),
            Exit::Signal(signal) => format!("signal_{signal}"),
            Exit::OutOfMemory => "out_of_memory".to_owned(),
        };
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry(reason).or_default() += 1;
    }

    /// Counts a replacement of all processes: because the one that forks them has failed, or
    /// because it was asked for.
    pub fn count_restart(&self, has_failed: bool) {
        let mut restarts = self.restarts.lock().unwrap_or_else(PoisonError::into_inner);
        *restarts.entry(if has_failed { "failed" } else { "asked" }).or_default() += 1;
    }

    /// Returns the counts of ends by reason.
    pub fn counts(&self) -> Vec<(String, u64)> {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.iter().map(|(reason, count)| (reason.clone(), *count)).collect()
    }

    /// Returns the number of processes that the time limit has ended.
    pub fn timed_out(&self) -> u64 {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.get(TIME_LIMIT).copied().unwrap_or(0)
    }

    /// Returns the counts of restarts by reason.
    pub fn restarts<T: FromIterator<(String, u64)>>(&self) -> T {
        let restarts = self.restarts.lock().unwrap_or_else(PoisonError::into_inner);
        restarts.iter().map(|(reason, count)| ((*reason).to_owned(), *count)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_counted_by_reason() {
        let ends = Ends::default();
        for (exit, is_late) in [
            (Exit::Signal(11), false),
            (Exit::Signal(9), true),
            (Exit::Signal(11), false),
            (Exit::OutOfMemory, false),
            (Exit::Status(255), false),
        ] {
            ends.count(exit, is_late);
        }
        let counts: Vec<_> = ends.counts();
        let counts: Vec<_> = counts.iter().map(|(name, count)| (name.as_str(), *count)).collect();
        let expected =
            [("error_status", 1), ("out_of_memory", 1), ("signal_11", 2), ("time_limit", 1)];
        assert_eq!(counts, expected);
        assert_eq!(ends.timed_out(), 1);
        ends.count_restart(true);
        assert_eq!(ends.restarts::<Vec<_>>(), [("failed".to_owned(), 1)]);
    }
}
