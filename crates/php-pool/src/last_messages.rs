//! The last messages of PHP in a request, for the record of its crash.

use std::collections::VecDeque;
use std::fmt;

use super::request::RequestKey;

/// Maximum number of messages.
const MAX_MESSAGES: usize = 3;

/// Maximum length of a message, in bytes.
const MAX_BYTES: usize = 200;

/// The last messages of a worker's request.
#[derive(Debug, Default)]
pub(super) struct LastMessages {
    request: Option<RequestKey>,
    messages: VecDeque<String>,
}

impl LastMessages {
    /// Remembers the first line of a message, and forgets those of other requests.
    pub(super) fn note(&mut self, request: RequestKey, message: &str) {
        if self.request.replace(request) != Some(request) {
            self.messages.clear();
        }
        if self.messages.len() == MAX_MESSAGES {
            self.messages.pop_front();
        }
        let line = message.lines().next().unwrap_or_default();
        self.messages.push_back(line[..line.floor_char_boundary(MAX_BYTES)].to_owned());
    }
}

impl fmt::Display for LastMessages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.messages.is_empty() {
            f.write_str("\nlast messages:")?;
        }
        self.messages.iter().try_for_each(|message| write!(f, "\n{message}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_messages_of_one_request_are_kept_shortened() {
        let mut last = LastMessages::default();
        assert_eq!(last.to_string(), "");
        let (first, second) = (RequestKey::new(0, 0, 0), RequestKey::new(0, 1, 0));
        last.note(first, "of another request");
        for number in 0..5 {
            last.note(second, &format!("{number}{}\nmore", "é".repeat(500)));
        }
        let text = last.to_string();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[..2], ["", "last messages:"]);
        let starts: String = lines[2..].iter().map(|line| &line[..1]).collect();
        assert_eq!(starts, "234");
        assert!(lines[2..].iter().all(|line| line.len() <= MAX_BYTES), "{text}");
    }
}
