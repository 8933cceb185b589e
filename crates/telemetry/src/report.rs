//! Lines of the log about a server that takes no spans.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use howdah_sys::log::{Level, Log};

/// Minimum time between two lines about a server that still fails.
const LINE_INTERVAL: Duration = Duration::from_secs(60);

/// The log, and what it says already.
#[derive(Debug)]
pub(crate) struct Report {
    log: Log,
    /// Time of the last line about a problem; `None` while there is none.
    failing_since: Cell<Option<Instant>>,
    /// Number of lost spans that the log knows.
    logged: Cell<u64>,
    /// The last message with which the server has refused some of the spans.
    refused: RefCell<Option<String>>,
}

impl Report {
    /// Creates the report to a log.
    pub(crate) fn new(log: Log) -> Report {
        let (failing_since, logged, refused) = Default::default();
        Report { log, failing_since, logged, refused }
    }

    /// Returns the log.
    pub(crate) fn log(&self) -> &Log {
        &self.log
    }

    /// Reports that the server has not taken a message. `lost` is the number of all lost spans.
    pub(crate) fn failed(&self, server: &str, problem: &str, lost: u64, now: Instant) {
        let is_due = self
            .failing_since
            .get()
            .is_none_or(|last| now.saturating_duration_since(last) >= LINE_INTERVAL);
        if !is_due {
            return;
        }
        self.failing_since.set(Some(now));
        let lost_since = lost.saturating_sub(self.logged.replace(lost));
        let lost = match lost_since {
            0 => "spans wait for it".to_owned(),
            one => format!("{one} spans are lost"),
        };
        let line = format_args!(
            "telemetry: {server} takes no spans: {problem}; {lost} (\"settings/telemetry\")"
        );
        self.log.write(Level::Warn, line);
    }

    /// Reports that the server has taken a message.
    pub(crate) fn succeeded(&self, server: &str, lost: u64) {
        if self.failing_since.take().is_none() {
            return;
        }
        let lost = lost.saturating_sub(self.logged.replace(lost));
        let line = format_args!("telemetry: {server} takes spans again; {lost} more were lost");
        self.log.write(Level::Notice, line);
    }

    /// Reports that the server has refused some spans of a message that it has taken; once for each
    /// reason. Without refused spans, it is a warning of the server.
    pub(crate) fn partly_refused(&self, server: &str, refused: i64, reason: &str) {
        let before = self.refused.replace(Some(reason.to_owned()));
        if before.as_deref() != Some(reason) {
            let line = format_args!("telemetry: {server} has refused {refused} spans: {reason}");
            self.log.write(Level::Warn, line);
        }
    }
}
