//! The output of starts of applications that have failed a short time ago: the same lines are not
//! logged again by each further attempt.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::output::StartLines;

/// Time for which lines are remembered: an application that cannot start is tried again within five
/// seconds. Later starts are requested, and are logged as a whole.
const MEMORY: Duration = Duration::from_secs(60);

/// The lines of failed starts by the name of the application.
#[derive(Debug, Default)]
pub(super) struct FailedStarts(BTreeMap<String, (Instant, StartLines)>);

impl FailedStarts {
    /// Takes the lines of an application's last start, if it has failed a short time ago.
    pub(super) fn take(&mut self, name: &str, now: Instant) -> StartLines {
        let found = self.0.remove(name).filter(|(at, _)| is_recent(*at, now));
        found.map(|(_, lines)| lines).unwrap_or_default()
    }

    /// Records the lines of a start that has failed.
    pub(super) fn add(&mut self, name: &str, lines: StartLines, now: Instant) {
        self.0.retain(|_, (at, _)| is_recent(*at, now));
        self.0.insert(name.to_owned(), (now, lines));
    }
}

fn is_recent(at: Instant, now: Instant) -> bool {
    now.saturating_duration_since(at) < MEMORY
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_remembered_for_a_minute() {
        let (mut starts, now) = (FailedStarts::default(), Instant::now());
        starts.add("shop", StartLines::from([1, 2]), now);
        assert_eq!(starts.take("blog", now), StartLines::new());
        assert_eq!(starts.take("shop", now + MEMORY / 2), StartLines::from([1, 2]));
        assert_eq!(starts.take("shop", now), StartLines::new(), "they are taken once");
        starts.add("shop", StartLines::from([1]), now);
        assert_eq!(starts.take("shop", now + MEMORY), StartLines::new());
        starts.add("shop", StartLines::from([1]), now);
        starts.add("blog", StartLines::new(), now + MEMORY);
        assert_eq!(starts.0.len(), 1);
    }
}
