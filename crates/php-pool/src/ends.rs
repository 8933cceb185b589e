//! Counts how processes of an application end with an error, and how often all are replaced.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use howdah_wire::messages::Exit;

/// Reason of an end by the time limit of requests.
const TIME_LIMIT: &str = "time_limit";

/// Time for which recent ends are kept.
const RECENT: Duration = Duration::from_secs(60);

/// Time whose ends are added up: they are forgotten together.
const STEP: Duration = Duration::from_secs(5);

/// Counts by reason. The reasons are few: the server's own words, signals and "exit".
#[derive(Debug, Default)]
pub struct Ends {
    counts: Mutex<Counts>,
    restarts: Mutex<BTreeMap<&'static str, u64>>,
}

#[derive(Debug, Default)]
struct Counts {
    all: BTreeMap<String, u64>,
    /// Those of the last minute, by the time at which a step began.
    recent: VecDeque<(Instant, BTreeMap<String, u64>)>,
}

impl Ends {
    /// Counts the end of a process with an error. `is_late`: it was ended by the time limit of its
    /// request.
    pub fn count(&self, exit: Exit, is_late: bool, now: Instant) {
        let reason = match exit {
            _ if is_late => TIME_LIMIT.to_owned(),
            Exit::Status(_) => "error_status".to_owned(),
            Exit::Signal(signal) => format!("signal_{signal}"),
            Exit::OutOfMemory => "out_of_memory".to_owned(),
            Exit::OverLimit => "over_limit".to_owned(),
        };
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.all.entry(reason.clone()).or_default() += 1;
        counts.forget(now);
        let is_old = |since: &Instant| now.saturating_duration_since(*since) >= STEP;
        if counts.recent.back().is_none_or(|(since, _)| is_old(since)) {
            counts.recent.push_back((now, BTreeMap::new()));
        }
        if let Some((_, step)) = counts.recent.back_mut() {
            *step.entry(reason).or_default() += 1;
        }
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
        counts.all.iter().map(|(reason, count)| (reason.clone(), *count)).collect()
    }

    /// Returns the counts of ends in the last minute by reason.
    pub fn last_minute<T: FromIterator<(String, u64)>>(&self, now: Instant) -> T {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.forget(now);
        let mut sums = BTreeMap::<&str, u64>::new();
        for (reason, count) in counts.recent.iter().flat_map(|(_, step)| step) {
            *sums.entry(reason).or_default() += count;
        }
        sums.into_iter().map(|(reason, count)| (reason.to_owned(), count)).collect()
    }

    /// Returns the number of processes that the time limit has ended.
    pub fn timed_out(&self) -> u64 {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.all.get(TIME_LIMIT).copied().unwrap_or(0)
    }

    /// Returns the counts of restarts by reason.
    pub fn restarts<T: FromIterator<(String, u64)>>(&self) -> T {
        let restarts = self.restarts.lock().unwrap_or_else(PoisonError::into_inner);
        restarts.iter().map(|(reason, count)| ((*reason).to_owned(), *count)).collect()
    }
}

impl Counts {
    fn forget(&mut self, now: Instant) {
        let is_old = |since: &Instant| now.saturating_duration_since(*since) >= RECENT;
        while self.recent.front().is_some_and(|(since, _)| is_old(since)) {
            self.recent.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_counted_by_reason() {
        let (ends, now) = (Ends::default(), Instant::now());
        for (exit, is_late) in [
            (Exit::Signal(11), false),
            (Exit::Signal(9), true),
            (Exit::Signal(11), false),
            (Exit::OutOfMemory, false),
            (Exit::OverLimit, false),
            (Exit::Status(255), false),
        ] {
            ends.count(exit, is_late, now);
        }
        let counts: Vec<_> = ends.counts();
        let counts: Vec<_> = counts.iter().map(|(name, count)| (name.as_str(), *count)).collect();
        let expected = [
            ("error_status", 1),
            ("out_of_memory", 1),
            ("over_limit", 1),
            ("signal_11", 2),
            ("time_limit", 1),
        ];
        assert_eq!(counts, expected);
        assert_eq!(ends.timed_out(), 1);
        ends.count_restart(true);
        assert_eq!(ends.restarts::<Vec<_>>(), [("failed".to_owned(), 1)]);
    }

    #[test]
    fn recent_ends_are_those_of_a_minute() {
        let (ends, start) = (Ends::default(), Instant::now());
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let recent = |seconds| ends.last_minute::<Vec<_>>(at(seconds));
        (0..50).for_each(|second| ends.count(Exit::Signal(11), false, at(second)));
        ends.count(Exit::OutOfMemory, false, at(50));
        let of = |signals| vec![("out_of_memory".to_owned(), 1), ("signal_11".to_owned(), signals)];
        assert_eq!((recent(59), recent(60)), (of(50), of(45)));
        assert_eq!(recent(200), []);
        assert_eq!(ends.counts().len(), 2);
    }
}
