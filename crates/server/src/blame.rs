//! How many lines the log gets about what clients do wrong: enough to see who they are, and not as many
//! as somebody likes who connects again and again.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Lines of one thread in a [`TIME`].
const MOST: u32 = 20;

const TIME: Duration = Duration::from_secs(1);

/// What a thread has logged lately.
#[derive(Debug, Default)]
pub struct Blames {
    since: Cell<Option<Instant>>,
    lines: Cell<u32>,
    left_out: Cell<u64>,
}

impl Blames {
    /// Whether there may be a line now; if so, how many have been left out since the last one.
    pub fn next(&self, now: Instant) -> Option<u64> {
        if self.since.get().is_none_or(|since| now.saturating_duration_since(since) >= TIME) {
            self.since.set(Some(now));
            self.lines.set(0);
        }
        if self.lines.get() >= MOST {
            self.left_out.set(self.left_out.get().saturating_add(1));
            return None;
        }
        self.lines.set(self.lines.get() + 1);
        Some(self.left_out.take())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_about_clients_are_limited_and_those_left_out_are_counted() {
        let (blames, begun) = (Blames::default(), Instant::now());
        let lines = (0..1000).filter(|_| blames.next(begun) == Some(0)).count();
        assert_eq!(lines, MOST as usize);
        assert_eq!(blames.next(begun + TIME / 2), None);
        assert_eq!(blames.next(begun + TIME), Some(1001 - u64::from(MOST)));
        assert_eq!(blames.next(begun + TIME), Some(0));
    }
}
