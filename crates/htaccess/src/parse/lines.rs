//! Lines of a file: continuation lines joined, white space at both ends removed.

use crate::support::is_space;

/// Longest line in bytes, with its continuation lines and the line feed.
const MAX_LINE_BYTES: usize = 8192;

/// Reads lines one after the other.
#[derive(Debug)]
pub(super) struct Lines<'a> {
    rest: &'a [u8],
    number: u32,
}

/// A line is longer than 8192 bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

impl<'a> Lines<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Lines<'a> {
        Lines { rest: bytes, number: 0 }
    }

    /// Number of the last line that was read: for a continued line, of its last part.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Reads the next line; `None` at the end of the file.
    ///
    /// A NUL ends a line; the rest up to the line feed is lost. A backslash before the line feed
    /// continues it; Apache looks at the joined text, so that a backslash left from the line before
    /// counts for an empty one.
    pub(super) fn next(&mut self) -> Result<Option<Vec<u8>>, TooLong> {
        let mut line = Vec::new();
        let mut is_continued = false;
        loop {
            self.number = self.number.saturating_add(1);
            if self.rest.is_empty() {
                if is_continued {
                    break;
                }
                return Ok(None);
            }
            let end = memchr::memchr(b'\n', self.rest).map_or(self.rest.len(), |at| at + 1);
            let (part, rest) = self.rest.split_at(end);
            self.rest = rest;
            let part = memchr::memchr(0, part).map_or(part, |at| &part[..at]);
            if line.len().saturating_add(part.len()) > MAX_LINE_BYTES {
                return Err(TooLong);
            }
            line.extend_from_slice(part);
            let Some(text) = line.strip_suffix(b"\n") else { break };
            let text = text.strip_suffix(b"\r").unwrap_or(text);
            let Some(text) = text.strip_suffix(b"\\") else { break };
            line.truncate(text.len());
            is_continued = true;
        }
        trim(&mut line);
        Ok(Some(line))
    }
}

fn trim(line: &mut Vec<u8>) {
    let end = line.iter().rposition(|&byte| !is_space(byte)).map_or(0, |last| last + 1);
    line.truncate(end);
    let start = line.iter().position(|&byte| !is_space(byte)).unwrap_or(0);
    line.drain(..start);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[u8]) -> Vec<(u32, String)> {
        let mut lines = Lines::new(text);
        let mut all = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            all.push((lines.number(), String::from_utf8(line).unwrap()));
        }
        all
    }

    fn line(number: u32, text: &str) -> (u32, String) {
        (number, text.to_owned())
    }

    #[test]
    fn white_space_at_both_ends_is_removed() {
        assert_eq!(lines(b" \ta b\x0b\r\n\n c"), [line(1, "a b"), line(2, ""), line(3, "c")]);
    }

    #[test]
    fn a_backslash_at_the_end_continues_a_line() {
        assert_eq!(lines(b"a \\\n b\\\r\nc\nd"), [line(3, "a  bc"), line(4, "d")]);
    }

    #[test]
    fn a_comment_that_ends_in_a_backslash_swallows_the_next_line() {
        assert_eq!(lines(b"# note \\\nDeny from all\n"), [line(2, "# note Deny from all")]);
    }

    #[test]
    fn a_backslash_before_the_end_of_the_file_is_removed_if_a_line_feed_follows() {
        assert_eq!(lines(b"a\\\n"), [line(2, "a")]);
        assert_eq!(lines(b"a\\"), [line(1, "a\\")]);
    }

    #[test]
    fn two_backslashes_continue_a_line_and_the_next_empty_one() {
        assert_eq!(lines(b"a\\\\\n\nb\n"), [line(3, "ab")]);
    }

    #[test]
    fn a_nul_cuts_the_line() {
        assert_eq!(lines(b"a\0b\\\nc\n"), [line(1, "a"), line(2, "c")]);
    }

    #[test]
    fn long_lines_are_refused() {
        let mut text = vec![b'a'; MAX_LINE_BYTES - 1];
        text.push(b'\n');
        assert!(Lines::new(&text).next().is_ok());
        text.insert(0, b'a');
        assert_eq!(Lines::new(&text).next(), Err(TooLong));
        assert_eq!(Lines::new(&b"a\\\n".repeat(9000)).next(), Err(TooLong));
    }
}
