//! Finding the end of a head.

use std::ops::Range;

use howdah_text::token::is_token_byte;
use memchr::{memchr, memchr_iter};

use super::lines::{Lines, RequestLine};
use crate::limits::Limits;
use crate::refusal::Refusal;

/// Search for the end of a head in bytes that arrive in parts.
#[derive(Debug, Default)]
pub struct Scan {
    /// Number of bytes searched.
    at: usize,
    /// Start of the head: after empty lines, if any.
    start: usize,
    /// Start of the current line.
    line: usize,
    /// Number of empty lines before the head.
    empty: u8,
    /// The request line was checked before the rest of the head arrived.
    is_checked: bool,
    /// The final result.
    found: Option<Scanned>,
}

/// Result of a [`Scan`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scanned {
    /// The head is incomplete.
    Partial,
    /// The input cannot become a valid head.
    Refused(Refusal),
    /// Range of the complete head.
    Complete(Range<usize>),
}

impl Scan {
    /// Maximum number of empty lines before a request (RFC 9112, 2.2, requires one).
    const MAX_EMPTY_LINES: u8 = 2;

    /// Searches the bytes that are new since the last call. `input` has all bytes from the start.
    pub fn advance(&mut self, input: &[u8], limits: &Limits) -> Scanned {
        if let Some(found) = &self.found {
            return found.clone();
        }
        let found = match self.search(input, limits) {
            Ok(Some(range)) => Scanned::Complete(range),
            Ok(None) => return Scanned::Partial,
            Err(refusal) => Scanned::Refused(refusal),
        };
        self.found = Some(found.clone());
        found
    }

    fn search(&mut self, input: &[u8], limits: &Limits) -> Result<Option<Range<usize>>, Refusal> {
        for feed in memchr_iter(b'\n', input.get(self.at..).unwrap_or_default()) {
            let feed = self.at + feed;
            let line = input.get(self.line..feed).unwrap_or_default();
            let empty = matches!(line, b"" | b"\r");
            if empty && self.line > self.start {
                let range = self.start..feed + 1;
                if range.len() > limits.max_head {
                    return Err(self.too_long(input, limits));
                }
                return Ok(Some(range));
            }
            self.line = feed + 1;
            if empty {
                self.empty += 1;
                self.start = self.line;
                if self.empty > Self::MAX_EMPTY_LINES {
                    return Err(Refusal::RequestLine);
                }
            }
        }
        self.at = input.len();
        self.check_partial(input, limits)?;
        Ok(None)
    }

    /// Returns the start of the head in the input: behind empty lines.
    pub fn start(&self) -> usize {
        self.start
    }

    /// Checks an incomplete head.
    fn check_partial(&mut self, input: &[u8], limits: &Limits) -> Result<(), Refusal> {
        let head = input.get(self.start..).unwrap_or_default();
        let has_line = self.line > self.start;
        if head.len() > limits.max_head || (!has_line && head.len() > limits.max_line) {
            return Err(self.too_long(input, limits));
        }
        if !has_line && head.first().is_some_and(|&byte| byte != b'\r' && !is_token_byte(byte)) {
            return Err(Refusal::RequestLine);
        }
        if has_line && !self.is_checked {
            let mut lines = Lines::new(head);
            let line = lines.next()?.and_then(|line| head.get(line)).unwrap_or_default();
            RequestLine::parse(line, limits)?;
            self.is_checked = true;
        }
        Ok(())
    }

    fn too_long(&self, input: &[u8], limits: &Limits) -> Refusal {
        let head = input.get(self.start..).unwrap_or_default();
        match memchr(b'\n', head) {
            Some(feed) if feed < limits.max_line => Refusal::HeadTooLong,
            _ => Refusal::RequestLineTooLong,
        }
    }
}
