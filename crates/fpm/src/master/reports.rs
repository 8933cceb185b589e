//! What a supervisor reports to the master: lines in a pipe.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Maximum length of a line, in bytes.
const MAX_LINE: usize = 100;

/// Time after the last report for which a supervisor counts as alive: it reports every five seconds.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(20);

/// The line of a supervisor that serves.
const SERVING: &str = "serving";

/// What the pools do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Numbers {
    /// Requests that are answered now.
    pub active: u64,
    /// All requests.
    pub requests: u64,
    /// Processes that run scripts.
    pub workers: u64,
}

/// Returns the line of a supervisor with its numbers, or that it serves.
pub fn report(numbers: Option<Numbers>) -> String {
    match numbers {
        None => format!("{SERVING}\n"),
        Some(Numbers { active, requests, workers }) => format!("{active} {requests} {workers}\n"),
    }
}

/// Reads the lines of a supervisor.
#[derive(Debug, Default)]
pub(super) struct Reports {
    /// The pipe; `None` at its end.
    pub(super) pipe: Option<OwnedFd>,
    /// The last numbers.
    pub(super) numbers: Option<Numbers>,
    heard_at: Option<Instant>,
    /// A line that has not ended.
    left: Vec<u8>,
}

impl Reports {
    pub(super) fn new(pipe: OwnedFd) -> Self {
        Reports { pipe: Some(pipe), ..Reports::default() }
    }

    /// Reads what is there. Returns true if the supervisor serves from now on.
    pub(super) fn read(&mut self) -> bool {
        let Some(pipe) = &self.pipe else { return false };
        let mut buffer = [0; 4096];
        match rustix::io::retry_on_intr(|| rustix::io::read(pipe, &mut buffer)) {
            Ok(length @ 1..) => self.take(&buffer[..length]),
            Err(rustix::io::Errno::AGAIN) => false,
            _ => {
                self.pipe = None;
                false
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) -> bool {
        let mut serves = false;
        for byte in bytes {
            if *byte != b'\n' {
                if self.left.len() < MAX_LINE {
                    self.left.push(*byte);
                }
                continue;
            }
            let line = std::mem::take(&mut self.left);
            self.heard_at = Some(Instant::now());
            if line == SERVING.as_bytes() {
                serves = true;
            } else if let Some(numbers) = numbers(&line) {
                self.numbers = Some(numbers);
            }
        }
        serves
    }

    /// Returns true if the supervisor was heard of not long ago.
    pub(super) fn is_recent(&self, now: Instant) -> bool {
        self.heard_at.is_some_and(|at| now.saturating_duration_since(at) < SILENCE_TIMEOUT)
    }
}

fn numbers(line: &[u8]) -> Option<Numbers> {
    let mut all = std::str::from_utf8(line).ok()?.split(' ').map(str::parse);
    let mut next = || all.next()?.ok();
    let numbers = Numbers { active: next()?, requests: next()?, workers: next()? };
    next().is_none().then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_in_any_pieces_and_wrong_ones_are_ignored() {
        let mut reports = Reports::default();
        let numbers = Numbers { active: 1, requests: 20, workers: 3 };
        let text = format!("{}{}", report(None), report(Some(numbers)));
        let serves = text.bytes().filter(|byte| reports.take(&[*byte])).count();
        assert_eq!((serves, reports.numbers), (1, Some(numbers)));
        assert!(reports.is_recent(Instant::now()));
        for wrong in ["", "1 2", "1 2 3 4", "a b c", "-1 2 3", &"9".repeat(9000)] {
            assert!(!reports.take(format!("{wrong}\n").as_bytes()), "{wrong}");
            assert_eq!(reports.numbers, Some(numbers), "{wrong}");
        }
    }

    #[test]
    fn a_supervisor_that_never_reports_is_not_alive() {
        assert!(!Reports::default().is_recent(Instant::now()));
    }
}
