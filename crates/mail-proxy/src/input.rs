//! Bytes of a client or a server that have arrived, taken line by line. They may hold a password, so
//! memory that is given back is overwritten.

use zeroize::{Zeroize, Zeroizing};

/// Maximum length of a line in bytes, with its end (RFC 4954, 4: 12,288 for a response of SASL).
pub const MAX_LINE_BYTES: usize = 12_288;

/// Bytes that have arrived and were not taken.
#[derive(Debug, Default)]
pub struct Input {
    bytes: Zeroizing<Vec<u8>>,
}

/// A line without its end.
pub struct Line {
    /// The text.
    pub text: Zeroizing<Vec<u8>>,
    /// It ends with CR LF, and has no CR and no NUL otherwise. Others are no commands: servers that
    /// end lines differently would read other ones (RFC 5321, 2.3.8).
    pub is_clean: bool,
}

/// Error: the line is longer than [`MAX_LINE_BYTES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLong;

impl Input {
    /// Adds bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        let wanted = self.bytes.len() + bytes.len();
        if wanted > self.bytes.capacity() {
            let mut larger = Vec::with_capacity(wanted.max(2 * self.bytes.capacity()).max(512));
            larger.extend_from_slice(&self.bytes);
            // The former memory is overwritten when it is dropped.
            self.bytes = Zeroizing::new(larger);
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns true if there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Takes a line; `None` if its end has not arrived.
    pub fn line(&mut self) -> Result<Option<Line>, TooLong> {
        let Some(end) = self.bytes.iter().position(|byte| *byte == b'\n') else {
            return if self.bytes.len() >= MAX_LINE_BYTES { Err(TooLong) } else { Ok(None) };
        };
        if end >= MAX_LINE_BYTES {
            return Err(TooLong);
        }
        let mut text = self.take(end + 1);
        text.pop();
        let has_end = text.pop_if(|byte| *byte == b'\r').is_some();
        let is_clean = has_end && !text.iter().any(|byte| matches!(byte, b'\r' | 0));
        Ok(Some(Line { text, is_clean }))
    }

    /// Takes `count` bytes, or all if there are fewer.
    pub fn take(&mut self, count: usize) -> Zeroizing<Vec<u8>> {
        let count = count.min(self.bytes.len());
        let taken = Zeroizing::new(self.bytes[..count].to_vec());
        let left = self.bytes.len() - count;
        self.bytes.copy_within(count.., 0);
        self.bytes[left..].zeroize();
        self.bytes.truncate(left);
        taken
    }

    /// Takes all bytes, to be passed on. They are no secrets any more.
    pub fn rest(&mut self) -> Vec<u8> {
        self.take(usize::MAX).to_vec()
    }
}

/// Returns true if a line is a request of HTTP: a page has made a browser send it.
pub fn is_http(line: &[u8]) -> bool {
    const METHODS: [&[u8]; 8] =
        [b"GET", b"POST", b"PUT", b"HEAD", b"OPTIONS", b"DELETE", b"PATCH", b"CONNECT"];
    let mut words = line.splitn(2, |byte| *byte == b' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    METHODS.contains(&method)
        && (target.starts_with(b"/")
            || target.starts_with(b"http")
            || target.ends_with(b"HTTP/1.1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(pieces: &[&[u8]]) -> Vec<(String, bool)> {
        let (mut input, mut found) = (Input::default(), Vec::new());
        for piece in pieces {
            input.push(piece);
            while let Some(line) = input.line().unwrap() {
                found.push((String::from_utf8_lossy(&line.text).into_owned(), line.is_clean));
            }
        }
        assert!(input.is_empty());
        found
    }

    #[test]
    fn lines_are_the_same_however_they_come() {
        let all = b"a b\r\n\r\nc\n\rd\r\ne\0\r\n";
        let expected = [("a b", true), ("", true), ("c", false), ("\rd", false), ("e\0", false)];
        let expected = expected.map(|(text, is_clean)| (text.to_owned(), is_clean));
        assert_eq!(lines(&[all]), expected);
        let single: Vec<&[u8]> = all.chunks(1).collect();
        assert_eq!(lines(&single), expected);
    }

    #[test]
    fn a_line_without_an_end_is_refused() {
        let mut input = Input::default();
        input.push(&vec![b'x'; MAX_LINE_BYTES - 1]);
        assert!(input.line().unwrap().is_none());
        input.push(b"x");
        assert!(matches!(input.line(), Err(TooLong)));
    }

    #[test]
    fn requests_of_http_are_known() {
        for line in [&b"GET / HTTP/1.1"[..], b"POST http://a:25/ HTTP/1.1", b"OPTIONS * HTTP/1.1"] {
            assert!(is_http(line));
        }
        for line in [&b"GET NOOP"[..], b"a1 LOGIN / /", b"EHLO /", b"", b"GET"] {
            assert!(!is_http(line));
        }
    }
}
