//! Reasons for responses that are not kept in a file. The module is pure: the time is an argument.

use std::io;
use std::time::{Duration, Instant};

/// Time for which a failed write is reported although later ones have succeeded: on a full disk,
/// responses still fit in the place of removed ones.
const MIN_TIME: Duration = Duration::from_secs(5);

/// Time for which a failed write is reported if no write has followed.
const MAX_TIME: Duration = Duration::from_secs(60);

/// The last problem.
#[derive(Debug, Default)]
pub(super) struct Trouble {
    /// Reason why the file cannot be opened.
    opening: Option<String>,
    /// The last write that has failed.
    write: Option<Failure>,
    is_given_up: bool,
}

#[derive(Debug)]
struct Failure {
    reason: String,
    at: Instant,
    /// Another write has succeeded since.
    is_over: bool,
}

impl Trouble {
    pub(super) fn cannot_be_opened(&mut self, error: &str) {
        self.opening = Some(format!("it cannot be opened: {error}"));
    }

    /// Records why the file that was opened cannot be used.
    pub(super) fn cannot_be_used(&mut self, error: &io::Error) {
        let advice = advice(error);
        self.opening =
            Some(format!("it cannot be used: {error}; {advice}, then restart the server"));
        self.is_given_up = true;
    }

    pub(super) fn not_written(&mut self, error: &io::Error, now: Instant) {
        let advice = advice(error);
        let reason = format!("it cannot be written: {error}; {advice}");
        self.write = Some(Failure { reason, at: now, is_over: false });
    }

    pub(super) fn written(&mut self) {
        if let Some(failure) = &mut self.write {
            failure.is_over = true;
        }
    }

    /// Records that the file is no longer used.
    pub(super) fn given_up(&mut self) {
        self.is_given_up = true;
    }

    /// Returns why responses are not kept in the file, and the remedy.
    pub(super) fn problem(&self, is_open: bool, now: Instant) -> Option<String> {
        if !is_open {
            return self.opening.clone();
        }
        if self.is_given_up {
            let problem = "removed responses could not be removed from the file; see to the disk, \
                           then restart the server";
            return self.opening.clone().or_else(|| Some(problem.to_owned()));
        }
        let failure = self.write.as_ref()?;
        let time = if failure.is_over { MIN_TIME } else { MAX_TIME };
        let is_told = now.saturating_duration_since(failure.at) < time;
        is_told.then(|| failure.reason.clone())
    }
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "make room there: df -h",
        _ => "see to the disk",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_until_responses_are_written_again() {
        let (mut trouble, now) = (Trouble::default(), Instant::now());
        assert_eq!(trouble.problem(true, now), None);
        let full = io::ErrorKind::StorageFull.into();
        trouble.not_written(&full, now);
        let problem = trouble.problem(true, now + MAX_TIME / 2).unwrap();
        assert!(problem.ends_with("; make room there: df -h"), "{problem}");
        assert_eq!(trouble.problem(true, now + MAX_TIME), None, "nobody asks for anything");
        trouble.written();
        assert!(trouble.problem(true, now + MIN_TIME / 2).is_some(), "it fit by chance");
        assert_eq!(trouble.problem(true, now + MIN_TIME), None);
        trouble.given_up();
        let problem = trouble.problem(true, now + 2 * MAX_TIME).unwrap();
        assert!(problem.ends_with("then restart the server"), "{problem}");
    }

    #[test]
    fn a_file_that_was_opened_at_last_has_no_problem() {
        let (mut trouble, now) = (Trouble::default(), Instant::now());
        trouble.cannot_be_opened("Permission denied");
        let problem = trouble.problem(false, now);
        assert_eq!(problem.as_deref(), Some("it cannot be opened: Permission denied"));
        assert_eq!(trouble.problem(true, now), None);
    }
}
