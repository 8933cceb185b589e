//! The head of a FastCGI response: the header lines of CGI (RFC 3875, 6).
//!
//! Lines end in LF, with or without CR; an empty line ends the head. `Status` gives the status;
//! without it the status is 302 if there is a `Location`, and otherwise 200. The lines are checked
//! like those of the router's own workers.

use bytes::{Bytes, BytesMut};
use howdah_cgi::head::ScriptHead;
use howdah_cgi::head::{CheckedHead, check};
use memchr::memchr_iter;

use crate::failure::Malformed;

/// Maximum number of bytes of a head.
const MAX_BYTES: usize = 64 * 1024;
/// Maximum number of lines of a head.
const MAX_LINES: usize = 500;

/// A head, and the part of the body that arrived with it.
#[derive(Debug)]
pub struct Found {
    /// The parsed head.
    pub head: CheckedHead,
    /// First bytes of the body; may be empty.
    pub rest: Bytes,
}

/// Collects output until the head is complete.
#[derive(Debug, Default)]
pub struct HeadScan {
    bytes: BytesMut,
    /// Number of bytes that were scanned.
    at: usize,
}

impl HeadScan {
    /// Adds output. Returns the head once it is complete.
    pub fn push(&mut self, mut bytes: Bytes) -> Result<Option<Found>, Malformed> {
        // Most heads arrive in one piece, and are not copied.
        if !self.bytes.is_empty() {
            self.bytes.extend_from_slice(&bytes);
            bytes = std::mem::take(&mut self.bytes).freeze();
        }
        let end = match &bytes[..] {
            [b'\n', ..] => Some(1),
            [b'\r', b'\n', ..] => Some(2),
            _ => memchr_iter(b'\n', bytes.get(self.at..).unwrap_or_default())
                .map(|feed| self.at + feed)
                .find_map(|feed| match bytes.get(feed + 1..).unwrap_or_default() {
                    [b'\n', ..] => Some(feed + 2),
                    [b'\r', b'\n', ..] => Some(feed + 3),
                    _ => None,
                }),
        };
        if end.unwrap_or(bytes.len()) > MAX_BYTES {
            return Err(Malformed("the head of the response is longer than 64 KiB"));
        }
        // The last two bytes may be part of the head's end.
        self.at = bytes.len().saturating_sub(2);
        let Some(end) = end else {
            self.bytes = bytes.into();
            return Ok(None);
        };
        let lines = bytes.split_to(end);
        Ok(Some(Found { head: parse(&lines)?, rest: bytes }))
    }
}

/// Parses the lines of a head, including the empty line at its end.
pub fn parse(lines: &Bytes) -> Result<CheckedHead, Malformed> {
    let mut head = ScriptHead { status: 200, reason: Bytes::new(), lines: Vec::with_capacity(8) };
    let (mut status, mut location) = (None, false);
    for line in lines.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            continue;
        }
        if head.lines.len() == MAX_LINES {
            return Err(Malformed("the response has too many header lines"));
        }
        let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
        let value = line.get(name.len() + 1..).unwrap_or_default().trim_ascii();
        if name.eq_ignore_ascii_case(b"status") {
            if status.replace(read_status(value)?).is_some() {
                return Err(Malformed("the response has two Status lines"));
            }
            head.reason = lines.slice_ref(value.get(4..).unwrap_or_default().trim_ascii());
            continue;
        }
        location |= name.eq_ignore_ascii_case(b"location");
        head.lines.push(lines.slice_ref(line));
    }
    head.status = status.unwrap_or(if location { 302 } else { 200 });
    check(&head).map_err(Malformed)
}

fn read_status(value: &[u8]) -> Result<u16, Malformed> {
    let (digits, rest) = value.split_at_checked(3).unwrap_or((value, b""));
    let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
    match (number, rest) {
        (Some(number), [] | [b' ', ..]) if digits.iter().all(u8::is_ascii_digit) => Ok(number),
        _ => Err(Malformed("the Status of the response is not a status code")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(parts: &[&'static str]) -> Result<Option<(u16, String, String)>, Malformed> {
        let mut scan = HeadScan::default();
        for part in parts {
            if let Some(found) = scan.push(Bytes::from_static(part.as_bytes()))? {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let fields = text(found.head.fields.as_bytes());
                return Ok(Some((found.head.status, fields, text(&found.rest))));
            }
        }
        Ok(None)
    }

    fn is(
        status: u16,
        fields: &str,
        rest: &str,
    ) -> Result<Option<(u16, String, String)>, Malformed> {
        Ok(Some((status, fields.to_owned(), rest.to_owned())))
    }

    #[test]
    fn lines_end_with_or_without_cr_wherever_they_are_cut() {
        let whole = "Status: 404 Not Found\r\nA: b\r\n\r\nbody";
        for cut in 0..whole.len() {
            let (one, two) = whole.split_at(cut);
            let mut got = found(&[one, two]);
            if let Ok(Some((_, _, rest))) = &mut got
                && "body".starts_with(rest.as_str())
            {
                "body".clone_into(rest); // the rest after the cut arrives as body
            }
            assert_eq!(got, is(404, "A: b\r\n", "body"), "{cut}");
        }
        assert_eq!(found(&["A: b\n\nbody"]), is(200, "A: b\r\n", "body"));
        assert_eq!(found(&["\nbody"]), is(200, "", "body"));
        assert_eq!(found(&["A: b\r\n"]), Ok(None));
    }

    #[test]
    fn a_location_without_a_status_is_a_redirect() {
        assert_eq!(found(&["Location: /a\n\n"]), is(302, "Location: /a\r\n", ""));
        assert_eq!(found(&["Status: 201\nLocation: /a\n\n"]), is(201, "Location: /a\r\n", ""));
    }

    #[test]
    fn malformed_heads_are_refused() {
        for lines in ["Status: 99\n\n", "Status: 2000\n\n", "Status: x\n\n", "Status: +20\n\n"] {
            assert!(found(&[lines]).is_err(), "{lines}");
        }
        assert!(found(&["Status: 200\nStatus: 500\n\n"]).is_err());
        assert_eq!(
            found(&["no field\nA: b\rEvil: 1\nTransfer-Encoding: chunked\n\n"]),
            is(200, "", "")
        );
        let long: &'static str = "A: b\n".repeat(20_000).leak();
        assert!(found(&[long]).is_err());
    }
}
