//! Compares the document that runs with the one at its source.

use howdah_sys::clock;

/// The state of the document.
#[derive(Debug, Default)]
pub(crate) struct DocumentState {
    /// Since when the document at its source is refused, in seconds since 1970, and why.
    refused: Option<(u64, String)>,
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

    /// Returns the end of the line that describes the server; empty if the document is not refused.
    pub(crate) fn describe(&self) -> String {
        let mut text = String::new();
        if let Some((since, _)) = &self.refused {
            text.push_str("; document on disk refused since ");
            clock::iso_date(*since, &mut text);
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
}
