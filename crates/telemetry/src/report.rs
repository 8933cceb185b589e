//! Lines of the log about a server that takes no spans, or no metrics.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use howdah_sys::log::{Level, Log};

use crate::target::Signal;

/// Minimum time between two lines about failures, and between two about refused spans or metrics.
const LINE_INTERVAL: Duration = Duration::from_secs(60);

/// The log, and what it says already about a signal.
#[derive(Debug)]
pub(crate) struct Report {
    log: Rc<Log>,
    signal: Signal,
    /// Time of the last line about a failure.
    failure_logged_at: Cell<Option<Instant>>,
    /// The log says that the server takes none.
    is_failing: Cell<bool>,
    /// Number of lost spans that the log knows.
    logged: Cell<u64>,
    /// The last message with which the server has refused a part, and its time.
    refused: RefCell<Option<(String, Instant)>>,
}

impl Report {
    /// Creates the report to a log.
    pub(crate) fn new(log: Rc<Log>, signal: Signal) -> Report {
        let (failure_logged_at, is_failing, logged, refused) = Default::default();
        Report { log, signal, failure_logged_at, is_failing, logged, refused }
    }

    /// Reports that the server has not taken a message, and whether another attempt follows.
    /// `lost` is the number of all lost spans; metrics are not counted, as later ones have all
    /// totals.
    pub(crate) fn failed(
        &self,
        server: &str,
        problem: &str,
        is_tried_again: bool,
        lost: u64,
        now: Instant,
    ) {
        // A server that takes every second message must not fill the log either.
        if is_recent(self.failure_logged_at.get(), now) {
            return;
        }
        self.failure_logged_at.set(Some(now));
        self.is_failing.set(true);
        let outcome = match (self.signal, self.newly_lost(lost)) {
            (Signal::Spans, 0) => "spans wait for it".to_owned(),
            (Signal::Spans, lost) => format!("{lost} spans are lost"),
            (Signal::Metrics, _) if is_tried_again => "the newest wait for it".to_owned(),
            (Signal::Metrics, _) => "these are not sent again".to_owned(),
        };
        let signal = self.signal.name();
        let line = format_args!(
            "telemetry: {server} takes no {signal}: {problem}; {outcome} (\"settings/telemetry\")"
        );
        self.log.write(Level::Warn, line);
    }

    /// Reports that the server has taken a message.
    pub(crate) fn succeeded(&self, server: &str, lost: u64) {
        if !self.is_failing.replace(false) {
            return;
        }
        let (lost, signal) = (self.newly_lost(lost), self.signal.name());
        let lost = match self.signal {
            Signal::Spans => format!("; {lost} more were lost"),
            Signal::Metrics => String::new(),
        };
        let line = format_args!("telemetry: {server} takes {signal} again{lost}");
        self.log.write(Level::Notice, line);
    }

    /// Reports that the server has refused some spans or data points of a message that it has taken;
    /// a reason that is repeated is reported once. Without refused ones, it is a warning of the
    /// server.
    pub(crate) fn partly_refused(&self, server: &str, refused: u64, reason: &str, now: Instant) {
        let mut last = self.refused.borrow_mut();
        let is_known =
            last.as_ref().is_some_and(|(known, at)| known == reason || is_recent(Some(*at), now));
        if !is_known {
            *last = Some((reason.to_owned(), now));
            let signal = self.signal.name();
            let line = format_args!("telemetry: {server} has refused {refused} {signal}: {reason}");
            self.log.write(Level::Warn, line);
        }
    }

    /// Reports spans that are lost with the end of the process.
    pub(crate) fn ended(&self, lost: u64) {
        match self.newly_lost(lost) {
            0 => {}
            lost => {
                let line = format_args!(
                    "telemetry: {lost} spans are lost: the server has not taken them before the \
                     end of the process (\"settings/telemetry\")"
                );
                self.log.write(Level::Warn, line);
            }
        }
    }

    /// Returns the number of lost spans that the log does not know yet.
    fn newly_lost(&self, lost: u64) -> u64 {
        lost.saturating_sub(self.logged.replace(lost))
    }
}

/// Returns true if the time of a line is less than [`LINE_INTERVAL`] ago.
fn is_recent(logged_at: Option<Instant>, now: Instant) -> bool {
    logged_at.is_some_and(|at| now.saturating_duration_since(at) < LINE_INTERVAL)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Seek};

    use super::*;

    #[test]
    fn a_server_that_takes_every_second_message_does_not_fill_the_log() {
        let mut file = tempfile::tempfile().unwrap();
        let log = Rc::new(Log::new(File::into(file.try_clone().unwrap())));
        let (report, metrics) =
            (Report::new(Rc::clone(&log), Signal::Spans), Report::new(log, Signal::Metrics));
        let start = Instant::now();
        for message in 0..100 {
            let now = start + Duration::from_millis(message);
            report.failed("http://a", "status 500", false, message, now);
            report.succeeded("http://a", message);
            report.partly_refused("http://a", 1, &format!("span {message}"), now);
        }
        report.failed("http://a", "status 500", false, 100, start + LINE_INTERVAL);
        report.succeeded("http://a", 100);
        report.ended(101);
        report.ended(101);
        metrics.failed("http://a", "status 503", true, 0, start);
        metrics.succeeded("http://a", 0);
        metrics.failed("http://a", "status 400", false, 0, start + LINE_INTERVAL);
        let mut text = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        let count = |part| text.matches(part).count();
        assert_eq!(count("takes no spans: status 500"), 2, "{text}");
        assert_eq!(count("takes spans again; 0 more were lost"), 2, "{text}");
        assert_eq!(count("has refused 1 spans: span"), 1, "{text}");
        assert_eq!(count("takes no metrics: status 503; the newest wait for it"), 1, "{text}");
        assert_eq!(count("takes no metrics: status 400; these are not sent again"), 1, "{text}");
        assert_eq!(count("takes metrics again\n"), 1, "{text}");
        assert_eq!(count("100 spans are lost (\"settings"), 1, "{text}");
        assert_eq!(count("1 spans are lost: the server has not taken them"), 1, "{text}");
    }
}
