//! Lines of a log that could not be written: the last error, and their number.

use std::io;

use crate::full_disk;

/// Lines that were lost since the last line that was written.
#[derive(Debug, Default)]
pub(super) struct Unwritten {
    /// The last error, and the remedy.
    problem: Option<(String, &'static str)>,
    lost: u64,
    /// A part of a line was written at last.
    is_torn: bool,
}

impl Unwritten {
    /// Counts a line as lost. `is_torn`: a part of it was written.
    pub(super) fn lose(&mut self, error: &io::Error, is_torn: bool) {
        self.still_fails(error, is_torn);
        self.lose_another();
    }

    /// Counts a line as lost for the same reason as the one before.
    pub(super) fn lose_another(&mut self) {
        self.lost = self.lost.saturating_add(1);
    }

    /// Takes the error of another attempt.
    pub(super) fn still_fails(&mut self, error: &io::Error, is_torn: bool) {
        self.problem = Some((error.to_string(), full_disk::advice(error)));
        self.is_torn |= is_torn;
    }

    /// Returns true if the last line that is in the file is not whole.
    pub(super) fn is_torn(&self) -> bool {
        self.is_torn
    }

    /// Returns why lines are lost, and the remedy; `None` if none is lost.
    pub(super) fn problem(&self) -> Option<String> {
        let (error, advice) = self.problem.as_ref()?;
        Some(format!("it cannot be written: {error}; {advice}"))
    }

    /// Returns the message about lost lines that is due; `None` if none is lost.
    pub(super) fn report(&self) -> Option<String> {
        let (error, _) = self.problem.as_ref()?;
        let lost = self.lost;
        let lines = if lost == 1 { "line of this log is" } else { "lines of this log are" };
        Some(format!("{lost} {lines} lost, as it could not be written: {error}"))
    }
}
