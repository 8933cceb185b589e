//! How much one site or upstream may bring into the log.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use howdah_sys::log::{Level, Log};
use howdah_sys::log_rate::LogRate;

/// What a site or an upstream has brought into the log lately, on all threads together.
///
/// Who runs the servers of a site decides how often they fail and what they write. The log is
/// written by the threads that serve all sites.
#[derive(Debug, Default)]
pub struct LogLimit {
    rate: LogRate,
    /// Records that were left out and that the log does not mention yet.
    left_out: AtomicU64,
}

impl LogLimit {
    /// How long to wait until more may be written; zero if there is no need.
    pub fn wait(&self) -> Duration {
        self.rate.wait()
    }

    /// Writes a record, however much was written before. Who calls this waits first.
    pub fn write(&self, log: &Log, level: Level, message: fmt::Arguments<'_>) {
        let pid = std::process::id();
        let left_out = self.left_out.swap(0, Relaxed);
        if left_out > 0 {
            let text = format_args!("{left_out} records were left out, as too many came at once");
            log.write_limited(&self.rate, pid, Level::Warn, text);
        }
        log.write_limited(&self.rate, pid, level, message);
    }

    /// Writes a record, or counts it if there is no room for it now. The next record that is
    /// written comes after their number.
    pub fn write_or_count(&self, log: &Log, level: Level, message: fmt::Arguments<'_>) {
        match self.rate.has_room() {
            true => self.write(log, level, message),
            false => self.left_out(),
        }
    }

    fn left_out(&self) {
        self.left_out.fetch_add(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek};

    use super::*;

    #[test]
    fn complaints_without_end_are_counted_and_no_others_suffer() {
        let mut file = tempfile::tempfile().unwrap();
        let log = Log::new(file.try_clone().unwrap().into());
        let (limit, other) = (LogLimit::default(), LogLimit::default());
        let complain = |limit: &LogLimit, text: &str| {
            limit.write_or_count(&log, Level::Error, format_args!("{text}"));
        };
        let long = "x".repeat(100_000);
        let mut complaints = 0;
        while limit.left_out.load(Relaxed) < 100 {
            complain(&limit, &long);
            complaints += 1;
        }
        assert!(complaints > 110, "a burst is written: {complaints}");
        complain(&other, "of another site");
        while !limit.wait().is_zero() {
            std::thread::sleep(limit.wait());
        }
        complain(&limit, "at last");
        let mut text = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        assert!(text.contains(" of another site\n"));
        let lines: Vec<&str> = text.lines().rev().take(2).collect();
        assert!(lines[0].ends_with(" at last"), "{lines:?}");
        let written = text.lines().filter(|line| line.ends_with("xxx")).count();
        let count =
            format!(" {} records were left out, as too many came at once", complaints - written);
        assert!(lines[1].ends_with(&count), "{lines:?}");
    }
}
