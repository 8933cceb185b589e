//! Limit on the log lines about workers of an application that have failed: a script that crashes
//! its worker with each request must not hide the crashes of others.

use std::time::{Duration, Instant};

/// Maximum number of lines in an [`INTERVAL`].
const MAX_LINES: u32 = 20;

const INTERVAL: Duration = Duration::from_secs(10);

/// Counts the lines of an application.
#[derive(Debug, Default)]
pub(super) struct EndLines {
    interval_start: Option<Instant>,
    lines: u32,
    left_out: u64,
}

impl EndLines {
    /// Counts a line. Returns `None` if it must be left out, otherwise how many lines have been left
    /// out since the last one.
    pub(super) fn next(&mut self, now: Instant) -> Option<u64> {
        let is_over = |start: Instant| now.saturating_duration_since(start) >= INTERVAL;
        if self.interval_start.is_none_or(is_over) {
            (self.interval_start, self.lines) = (Some(now), 0);
        }
        if self.lines >= MAX_LINES {
            self.left_out = self.left_out.saturating_add(1);
            return None;
        }
        self.lines += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_of_crashes_has_a_limited_number_of_lines_and_the_others_are_counted() {
        let (mut lines, start) = (EndLines::default(), Instant::now());
        let written = (0..1000).filter(|_| lines.next(start).is_some()).count();
        assert_eq!(written, MAX_LINES as usize);
        assert_eq!(lines.next(start + INTERVAL / 2), None);
        assert_eq!(lines.next(start + INTERVAL), Some(1000 - 20 + 1));
        assert_eq!(lines.next(start + INTERVAL), Some(0));
    }
}
