//! Whether the document that runs is the one at its source, and which of its files are left out.

use std::fmt::Write as _;

use howdah_sys::clock;

use crate::grants::LeftOutFile;

/// The state of the document.
#[derive(Debug, Default)]
pub(crate) struct DocumentState {
    /// Since when the document at its source is refused, in seconds since 1970, and why.
    refused: Option<(u64, String)>,
    left_out: Vec<LeftOutFile>,
}

impl DocumentState {
    /// Returns since when the document at its source is refused, and why.
    pub(crate) fn refused(&self) -> Option<&(u64, String)> {
        self.refused.as_ref()
    }

    /// The document at its source was read. `error`: why it is refused; empty if it is not.
    pub(crate) fn source_read(&mut self, error: String, now: u64) {
        self.refused = match (error.is_empty(), self.refused.take()) {
            (true, _) => None,
            (false, Some((since, _))) => Some((since, error)),
            (false, None) => Some((now, error)),
        };
    }

    /// A document was taken over that was read without these files. Returns lines for the log, with
    /// true for what is out of order.
    pub(crate) fn taken_over(&mut self, left_out: &[LeftOutFile]) -> Vec<(bool, String)> {
        let is_known = |out: &&LeftOutFile| !self.left_out.contains(out);
        let new = left_out.iter().filter(is_known).map(|out| {
            let LeftOutFile { file, reason, is_former } = out;
            let consequence = match is_former {
                true => "its former content stays in use",
                false => "what passes to a name that only this file defines is answered with 503",
            };
            let advice =
                "the server uses the file as soon as it is mended; check the document with howdah check";
            (
                true,
                format!(
                    "{file} is left out of the configuration: {reason}; {consequence}; {advice}"
                ),
            )
        });
        let mut lines: Vec<_> = new.collect();
        let is_gone = |out: &&LeftOutFile| !left_out.iter().any(|now| now.file == out.file);
        let mended = self.left_out.iter().filter(is_gone);
        lines.extend(mended.map(|out| (false, format!("{} is used again", out.file))));
        self.left_out = left_out.to_vec();
        lines
    }

    /// Returns the end of the line that describes the server; empty if the document is in order.
    pub(crate) fn describe(&self) -> String {
        let mut text = String::new();
        if let Some((since, _)) = &self.refused {
            text.push_str("; document on disk refused since ");
            clock::iso_date(*since, &mut text);
        }
        match self.left_out.as_slice() {
            [] => {}
            [one] => _ = write!(text, "; left out: {}", one.file),
            [one, others @ ..] => {
                _ = write!(text, "; left out: {} and {} more", one.file, others.len());
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_the_first_refusal_stays() {
        let mut state = DocumentState::default();
        state.source_read("a".to_owned(), 5);
        state.source_read("b".to_owned(), 9);
        assert_eq!(state.refused(), Some(&(5, "b".to_owned())));
        assert!(state.describe().starts_with("; document on disk refused since 1970-01-01T"));
        state.source_read(String::new(), 10);
        assert_eq!((state.refused(), state.describe().as_str()), (None, ""));
    }

    #[test]
    fn a_file_is_told_once_and_when_it_is_used_again() {
        let out = |file: &str, reason: &str| LeftOutFile {
            file: file.to_owned(),
            reason: reason.to_owned(),
            is_former: false,
        };
        let mut state = DocumentState::default();
        let lines = state.taken_over(&[out("a", "x"), out("b", "x")]);
        assert!(lines.len() == 2 && lines.iter().all(|(is_problem, _)| *is_problem), "{lines:?}");
        assert!(state.describe().contains("left out: a and 1 more"));
        assert_eq!(state.taken_over(&[out("a", "x"), out("b", "x")]), []);
        let lines = state.taken_over(&[out("b", "y")]);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert_eq!(lines[1], (false, "a is used again".to_owned()));
    }
}
