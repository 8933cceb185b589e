//! Limits how many lines about errors of clients a thread writes to the log, so that a client that
//! connects again and again cannot fill it.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Maximum number of lines of one thread in an [`INTERVAL`].
const MAX_LINES: u32 = 20;

const INTERVAL: Duration = Duration::from_secs(1);

/// Counts the lines of one thread about errors of clients.
#[derive(Debug, Default)]
pub struct ClientErrorLimiter {
    interval_start: Cell<Option<Instant>>,
    lines: Cell<u32>,
    left_out: Cell<u64>,
}

impl ClientErrorLimiter {
    /// Counts a line. Returns `None` if it must be left out, otherwise how many lines have been
    /// left out since the last one.
    pub fn next(&self, now: Instant) -> Option<u64> {
        let start = self.interval_start.get();
        if start.is_none_or(|start| now.saturating_duration_since(start) >= INTERVAL) {
            self.interval_start.set(Some(now));
            self.lines.set(0);
        }
        if self.lines.get() >= MAX_LINES {
            self.left_out.set(self.left_out.get().saturating_add(1));
            return None;
        }
        self.lines.set(self.lines.get() + 1);
        Some(self.left_out.take())
    }
}

/// Returns the end of a line that says how many lines before it were left out.
pub fn shown_left_out(count: u64) -> String {
    match count {
        0 => String::new(),
        many => format!("; {many} earlier lines about clients were not logged"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_about_clients_are_limited_and_those_left_out_are_counted() {
        let (limiter, started_at) = (ClientErrorLimiter::default(), Instant::now());
        let lines = (0..1000).filter(|_| limiter.next(started_at) == Some(0)).count();
        assert_eq!(lines, MAX_LINES as usize);
        assert_eq!(limiter.next(started_at + INTERVAL / 2), None);
        assert_eq!(limiter.next(started_at + INTERVAL), Some(1001 - u64::from(MAX_LINES)));
        assert_eq!(limiter.next(started_at + INTERVAL), Some(0));
    }
}
