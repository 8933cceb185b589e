//! What the service manager is told at an interval, in php-fpm's words.

use std::time::{Duration, Instant};

use super::reports::Numbers;
use crate::conf::{Conf, DEFAULT_SYSTEMD_INTERVAL};
use crate::log::{Level, Log};

/// A watchdog with a shorter time than twice this is ignored, as by php-fpm.
const MIN_INTERVAL: Duration = Duration::from_secs(1);

/// The interval, and what the last message said.
#[derive(Debug, Default)]
pub(super) struct Heartbeat {
    /// Zero for none.
    interval: Duration,
    /// Time after which the service manager ends a server of which it hears nothing; `None` without
    /// a watchdog.
    pub(super) watchdog: Option<Duration>,
    /// Time of the next message; `None` before the server serves, and without an interval.
    pub(super) due: Option<Instant>,
    requests: u64,
}

impl Heartbeat {
    /// Finds the interval: half the time of the watchdog, or `systemd_interval`.
    pub(super) fn new(conf: &Conf, watchdog: Option<Duration>, log: &Log) -> Self {
        let is_set = conf.global.is_set("systemd_interval");
        let seconds = conf.global.number("systemd_interval", DEFAULT_SYSTEMD_INTERVAL);
        let interval = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        let Some(half) = watchdog.map(|time| time / 2).filter(|half| *half > MIN_INTERVAL) else {
            return Heartbeat { interval, ..Heartbeat::default() };
        };
        if is_set && seconds > 0 {
            log.write(Level::Warning, "systemd_interval option ignored");
        }
        let seconds = short(half.as_secs_f64());
        log.write(Level::Notice, format!("systemd watchdog configured to {seconds}sec"));
        Heartbeat { interval: half, watchdog, ..Heartbeat::default() }
    }

    /// Begins when the server serves.
    pub(super) fn start(&mut self, now: Instant, log: &Log) {
        if self.interval.is_zero() {
            return log.write(Level::Notice, "systemd monitor disabled");
        }
        self.due = Some(now + self.interval);
        let interval = self.interval.as_millis();
        log.write(Level::Notice, format!("systemd monitor interval set to {interval}ms"));
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.due.is_some_and(|due| due <= now)
    }

    /// Returns the line about the pools, and sets the time of the next one.
    pub(super) fn beat(&mut self, now: Instant, numbers: Numbers, slow: u64) -> String {
        self.due = Some(now + self.interval);
        let Numbers { active, requests, workers } = numbers;
        // One that was started again counts from 0.
        let new = requests.checked_sub(self.requests).unwrap_or(requests);
        self.requests = requests;
        let (active, idle) = (active.min(workers), workers.saturating_sub(active));
        let traffic = new as f64 / self.interval.as_secs_f64();
        format!(
            "Processes active: {active}, idle: {idle}, Requests: {requests}, slow: {slow}, \
             Traffic: {traffic:.2}req/sec"
        )
    }
}

/// Returns seconds with at most three digits, as C's `%.3g` for numbers of this size.
fn short(seconds: f64) -> String {
    let digits = if seconds < 10.0 { 2 } else { usize::from(seconds < 100.0) };
    let text = format!("{seconds:.digits$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_php_fpms() {
        let now = Instant::now();
        let mut heartbeat = Heartbeat { interval: Duration::from_secs(10), ..Heartbeat::default() };
        let mut beat = |active, requests, workers| {
            heartbeat.beat(now, Numbers { active, requests, workers }, 0)
        };
        let idle = "Processes active: 0, idle: 2, Requests: 0, slow: 0, Traffic: 0.00req/sec";
        assert_eq!(beat(0, 0, 2), idle);
        let busy = "Processes active: 1, idle: 1, Requests: 25, slow: 0, Traffic: 2.50req/sec";
        assert_eq!(beat(1, 25, 2), busy);
        // More requests than processes wait; and the numbers of a new supervisor begin at 0.
        let more = "Processes active: 2, idle: 0, Requests: 5, slow: 0, Traffic: 0.50req/sec";
        assert_eq!(beat(9, 5, 2), more);
    }

    #[test]
    fn the_watchdog_is_fed_at_half_its_time() {
        let log = Log::default();
        let of = |watchdog: Option<u64>| {
            let watchdog = watchdog.map(Duration::from_secs);
            let found = Heartbeat::new(&Conf::default(), watchdog, &log);
            (found.interval.as_secs(), found.watchdog.is_some())
        };
        assert_eq!(of(None), (10, false));
        assert_eq!(of(Some(30)), (15, true));
        assert_eq!(of(Some(2)), (10, false), "too short, as for php-fpm");
    }

    #[test]
    fn seconds_have_three_digits() {
        for (seconds, text) in [(15.0, "15"), (2.5, "2.5"), (1.234, "1.23"), (120.0, "120")] {
            assert_eq!(short(seconds), text);
        }
    }
}
