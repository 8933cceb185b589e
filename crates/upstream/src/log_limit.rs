//! Limit on the log messages of one site or upstream.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use howdah_sys::log::{Level, Log};
use howdah_sys::log_rate::LogRate;

/// The source of the messages, for the log.
const SOURCE: &str = "an upstream server";

/// Limit on the rate of the log messages of a site or an upstream, of all threads together.
///
/// The servers of a site control how often they fail and which messages they write, and the threads
/// that write the log serve all sites.
#[derive(Debug, Default)]
pub struct LogLimit {
    rate: LogRate,
    /// Number of dropped messages that the log does not mention yet.
    left_out: AtomicU64,
}

impl LogLimit {
    /// Returns the time until there is room for another message; zero if there is room.
    pub fn wait(&self) -> Duration {
        self.rate.wait()
    }

    /// Writes a message regardless of the limit. The caller has waited for room.
    pub fn write(&self, log: &Log, level: Level, message: fmt::Arguments<'_>) {
        let pid = std::process::id();
        let left_out = self.left_out.swap(0, Relaxed);
        if left_out > 0 {
            let text = format_args!("{left_out} messages were dropped: the log rate was exceeded");
            log.write_limited(&self.rate, &SOURCE, pid, Level::Warn, text);
        }
        log.write_limited(&self.rate, &SOURCE, pid, level, message);
    }

    /// Writes a message, or counts it if there is no room. The next message is preceded by the
    /// number of dropped ones.
    pub fn write_or_count(&self, log: &Log, level: Level, message: fmt::Arguments<'_>) {
        if self.rate.has_room() {
            self.write(log, level, message)
        } else {
            self.left_out.fetch_add(1, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek};

    use super::*;

    #[test]
    fn messages_above_the_limit_are_counted_and_other_sites_go_on() {
        let mut file = tempfile::tempfile().unwrap();
        let log = Log::new(file.try_clone().unwrap().into());
        let (limit, other) = (LogLimit::default(), LogLimit::default());
        let log_error = |limit: &LogLimit, text: &str| {
            limit.write_or_count(&log, Level::Error, format_args!("{text}"));
        };
        let long = "x".repeat(100_000);
        let mut messages = 0;
        while limit.left_out.load(Relaxed) < 100 {
            log_error(&limit, &long);
            messages += 1;
        }
        assert!(messages > 110, "a burst is written: {messages}");
        log_error(&other, "of another site");
        while !limit.wait().is_zero() {
            std::thread::sleep(limit.wait());
        }
        log_error(&limit, "at last");
        let mut text = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        assert!(text.contains(" of another site\n"));
        let lines: Vec<&str> = text.lines().rev().take(2).collect();
        assert!(lines[0].ends_with(" at last"), "{lines:?}");
        let written = text.lines().filter(|line| line.ends_with("xxx")).count();
        let count =
            format!(" {} messages were dropped: the log rate was exceeded", messages - written);
        assert!(lines[1].ends_with(&count), "{lines:?}");
    }
}
