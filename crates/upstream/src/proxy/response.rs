//! The head that an upstream sends: read strictly, as if from a client.
//!
//! Whatever would let an upstream, or who speaks through it, add a field to a response or make
//! two readers disagree about where it ends is refused as a whole: a lenient proxy is how one
//! client's answer reaches another. A line may end in LF alone unless the body is chunked, as in
//! requests.

use bytes::Bytes;
use howdah_http::framing::{content_length, is_token};
use howdah_http::message::FieldBlock;
use memchr::{memchr, memchr_iter};

use super::hop::Nominated;

/// Bytes of a head.
pub const MOST_BYTES: usize = 64 * 1024;
/// Fields of a head.
const MOST_FIELDS: usize = 500;
/// Fields that most heads do not exceed.
const USUAL_FIELDS: usize = 16;

/// Where a response's body ends (RFC 9112, 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// There is no body, though `Content-Length` may say what it would be.
    None(Option<u64>),
    /// After so many bytes.
    Known(u64),
    /// Its last chunk tells.
    Chunked,
    /// With the connection.
    Close,
}

/// A response head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// 100 to 599.
    pub status: u16,
    /// Reason phrase, if it is not the registered one.
    pub reason: Option<Bytes>,
    /// Fields for the client: without those of the connection, `Content-Length` and `Server`.
    pub fields: FieldBlock,
    /// `Date` is among them.
    pub dated: bool,
    /// The protocol that follows a 101, if it is one.
    pub upgrade: Option<Bytes>,
    /// The body that follows.
    pub length: Length,
    /// The connection may be used for another request after this response.
    pub keep_alive: bool,
}

/// What is wrong with a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

/// Looks for the end of a head in bytes that come little by little.
#[derive(Debug, Default)]
pub struct Scan {
    /// Bytes that need not be looked at again.
    at: usize,
}

impl Scan {
    /// Number of bytes of the head at the start of `input`, once it has come in full; `input` is
    /// all that came.
    pub fn advance(&mut self, input: &[u8]) -> Result<Option<usize>, Malformed> {
        const START: &[u8] = b"HTTP/1.";
        let common = input.len().min(START.len());
        if input.get(..common) != START.get(..common) {
            return Err(Malformed("the response does not start with HTTP/1"));
        }
        let found = memchr_iter(b'\n', input.get(self.at..).unwrap_or_default())
            .map(|feed| self.at + feed)
            .find_map(|feed| match input.get(feed + 1..).unwrap_or_default() {
                [b'\n', ..] => Some(Ok(feed + 2)),
                [b'\r', b'\n', ..] => Some(Ok(feed + 3)),
                [] | [b'\r'] => Some(Err(feed)),
                _ => None,
            });
        match found {
            Some(Ok(end)) if end <= MOST_BYTES => return Ok(Some(end)),
            Some(Err(feed)) => self.at = feed,
            _ => self.at = input.len(),
        }
        if input.len() > MOST_BYTES {
            return Err(Malformed("the head of the response is longer than 64 KiB"));
        }
        Ok(None)
    }
}

/// Reads a complete head, with the empty line at its end. `to_head`: the request was HEAD.
pub fn parse(head: &[u8], to_head: bool) -> Result<Head, Malformed> {
    let mut lines = Lines { rest: head, bare: false };
    let line = lines.next().unwrap_or_default();
    let (old, status, reason) = status_line(line)?;
    let mut fields: Vec<(&[u8], &[u8])> = Vec::with_capacity(USUAL_FIELDS);
    loop {
        match lines.next() {
            Some(b"") => break,
            Some(_) if fields.len() == MOST_FIELDS => {
                return Err(Malformed("the response has too many fields"));
            }
            Some(line) => fields.push(field(line)?),
            None => return Err(Malformed("the head of the response has no end")),
        }
    }
    let all = |wanted: &'static [u8]| {
        fields.iter().filter(move |(n, _)| n.eq_ignore_ascii_case(wanted)).map(|(_, value)| *value)
    };
    let announced = one(all(b"content-length"), "two fields Content-Length")?
        .map(|value| content_length(value).ok_or(Malformed("Content-Length is no number")))
        .transpose()?;
    let coding = one(all(b"transfer-encoding"), "two fields Transfer-Encoding")?;
    let length = match (coding, announced) {
        (Some(_), Some(_)) => return Err(Malformed("both Content-Length and Transfer-Encoding")),
        (Some(_), None) if old => return Err(Malformed("Transfer-Encoding in HTTP/1.0")),
        (Some(coding), None) if !coding.eq_ignore_ascii_case(b"chunked") => {
            return Err(Malformed("a Transfer-Encoding other than chunked"));
        }
        (Some(_), None) if lines.bare => {
            return Err(Malformed("a line of a chunked response ends in LF alone"));
        }
        (Some(_), None) => Length::Chunked,
        (None, Some(length)) => Length::Known(length),
        (None, None) => Length::Close,
    };
    let without_body = to_head || matches!(status, ..200 | 204 | 304);
    // A body that must not be there might come all the same.
    let quiet = to_head || status == 304 || matches!(length, Length::Known(0) | Length::Close);
    let nominated = Nominated::of(all(b"connection"));
    let persistent = match old {
        true => nominated.has(b"keep-alive") && !nominated.has(b"close"),
        false => !nominated.has(b"close"),
    };
    let length = match (without_body, length) {
        (false, length) => length,
        (true, Length::Known(length)) => Length::None(Some(length)),
        (true, _) => Length::None(None),
    };
    let dated = all(b"date").next().is_some();
    let upgrade = match status {
        101 if nominated.has(b"upgrade") => {
            one(all(b"upgrade"), "two fields Upgrade")?.map(Bytes::copy_from_slice)
        }
        _ => None,
    };
    Ok(Head {
        status,
        reason: (!reason.is_empty() && reason != howdah_http::reason::phrase(status).as_bytes())
            .then(|| Bytes::copy_from_slice(reason)),
        dated,
        upgrade,
        fields: block(fields, &nominated),
        keep_alive: persistent && length != Length::Close && (!without_body || quiet),
        length,
    })
}

/// The fields that are passed on. `Server` is ours to say, as in Unit.
fn block(mut fields: Vec<(&[u8], &[u8])>, nominated: &Nominated<'_>) -> FieldBlock {
    const NOT_PASSED: [&[u8]; 2] = [b"content-length", b"server"];
    fields.retain(|(name, _)| {
        let own = NOT_PASSED.iter().any(|other| name.eq_ignore_ascii_case(other));
        !own && !nominated.is_hop_by_hop(name)
    });
    let len = fields.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
    let mut lines = Vec::with_capacity(len);
    for (name, value) in fields {
        for part in [name, &b": "[..], value, b"\r\n"] {
            lines.extend_from_slice(part);
        }
    }
    FieldBlock::from_lines(lines.into())
}

/// The only value, if there is one.
fn one<'a>(
    mut values: impl Iterator<Item = &'a [u8]>,
    two: &'static str,
) -> Result<Option<&'a [u8]>, Malformed> {
    let first = values.next();
    match values.next() {
        None => Ok(first),
        Some(_) => Err(Malformed(two)),
    }
}

/// Whether it is HTTP/1.0, the status, and the reason phrase.
fn status_line(line: &[u8]) -> Result<(bool, u16, &[u8]), Malformed> {
    let (old, rest) = match line {
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'0', b' ', rest @ ..] => (true, rest),
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'1', b' ', rest @ ..] => (false, rest),
        _ => return Err(Malformed("the response does not start with HTTP/1.0 or HTTP/1.1")),
    };
    let (status, reason) = match rest {
        [hundreds @ b'1'..=b'5', tens @ b'0'..=b'9', ones @ b'0'..=b'9', reason @ ..] => {
            let digit = |byte: &u8| u16::from(byte - b'0');
            (digit(hundreds) * 100 + digit(tens) * 10 + digit(ones), reason)
        }
        _ => return Err(Malformed("the status is not between 100 and 599")),
    };
    let reason = match reason {
        [] => reason,
        [b' ', reason @ ..] if reason.iter().all(is_text) => reason,
        _ => return Err(Malformed("the status line is no status line")),
    };
    Ok((old, status, reason))
}

/// Name and value of a field line.
fn field(line: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    const NO_FIELD: Malformed = Malformed("a line of the head is no field");
    let end = line.iter().position(|byte| !is_token(*byte)).ok_or(NO_FIELD)?;
    let (name, value) = line.split_at_checked(end).ok_or(NO_FIELD)?;
    let value = value.strip_prefix(b":").ok_or(NO_FIELD)?;
    if name.is_empty() {
        return Err(NO_FIELD);
    }
    if !value.iter().all(is_text) {
        return Err(Malformed("a field has a control character"));
    }
    Ok((name, value.trim_ascii())) // of what this trims, only spaces and tabs are left
}

fn is_text(byte: &u8) -> bool {
    matches!(byte, b'\t' | b' '..=b'~' | 0x80..)
}

/// Lines without their ends.
struct Lines<'a> {
    rest: &'a [u8],
    /// Some line ended in LF alone.
    bare: bool,
}

impl<'a> Lines<'a> {
    fn next(&mut self) -> Option<&'a [u8]> {
        let feed = memchr(b'\n', self.rest)?;
        let (line, rest) = self.rest.split_at_checked(feed)?;
        self.rest = rest.get(1..).unwrap_or_default();
        let stripped = line.strip_suffix(b"\r");
        self.bare |= stripped.is_none();
        Some(stripped.unwrap_or(line))
    }
}

#[cfg(test)]
#[path = "response_tests.rs"]
mod tests;
