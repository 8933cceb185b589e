//! Parses the head of an upstream's response as strictly as that of a client's request.
//!
//! A response is refused if two parsers could disagree about its fields or its end: otherwise one
//! client's response could reach another client. As in requests, a line may end in LF alone unless
//! the body is chunked.

use bytes::Bytes;
use howdah_http::body_length::content_length;
use howdah_http::message::FieldBlock;
use howdah_text::token::is_token_byte;
use memchr::{memchr, memchr_iter};

use super::hop::Nominated;
use crate::failure::Malformed;

/// Maximum number of bytes of a head.
pub const MAX_HEAD_BYTES: usize = 64 * 1024;
/// Maximum number of fields of a head.
const MAX_FIELDS: usize = 500;
/// Initial capacity for fields, enough for most heads.
const USUAL_FIELDS: usize = 16;

/// Length of a response's body (RFC 9112, 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// No body; `Content-Length` may give the length that it would have.
    None(Option<u64>),
    /// Number of bytes.
    Known(u64),
    /// The body is chunked.
    Chunked,
    /// The body ends with the connection.
    Close,
}

/// A response head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// 100 to 599.
    pub status: u16,
    /// Reason phrase, if it is not the registered one.
    pub reason: Option<Bytes>,
    /// Fields for the client, without those of the connection, `Content-Length` and `Server`.
    pub fields: FieldBlock,
    /// The fields include `Date`.
    pub has_date: bool,
    /// Protocol that follows a 101.
    pub upgrade: Option<Bytes>,
    /// Length of the body.
    pub length: Length,
    /// The connection can be used for another request after this response.
    pub keep_alive: bool,
}

/// Finds the end of a head in bytes that arrive in parts.
#[derive(Debug, Default)]
pub struct Scan {
    /// Number of bytes that were scanned.
    at: usize,
}

impl Scan {
    /// Returns the length of the head at the start of `input`, once it is complete. `input` has all
    /// bytes from the start on.
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
            Some(Ok(end)) if end <= MAX_HEAD_BYTES => return Ok(Some(end)),
            Some(Err(feed)) => self.at = feed,
            _ => self.at = input.len(),
        }
        if input.len() > MAX_HEAD_BYTES {
            return Err(Malformed("the head of the response is longer than 64 KiB"));
        }
        Ok(None)
    }
}

/// Parses a complete head including the empty line at its end. `is_head` is true for the method
/// HEAD.
pub fn parse(head: &[u8], is_head: bool) -> Result<Head, Malformed> {
    let mut lines = Lines { rest: head, has_bare_lf: false };
    let line = lines.next().unwrap_or_default();
    let (is_http10, status, reason) = status_line(line)?;
    let fields = all_fields(&mut lines)?;
    let all = |wanted: &'static [u8]| values(&fields, wanted);
    let length = framing(&fields, is_http10, lines.has_bare_lf)?;
    let without_body = is_head || matches!(status, ..200 | 204 | 304);
    // A server may send the announced body even where none is allowed.
    let sends_none = is_head || status == 304 || matches!(length, Length::Known(0) | Length::Close);
    let nominated = Nominated::of(all(b"connection"));
    let persistent = if is_http10 {
        nominated.has(b"keep-alive") && !nominated.has(b"close")
    } else {
        !nominated.has(b"close")
    };
    let length = match (without_body, length) {
        (false, length) => length,
        (true, Length::Known(length)) => Length::None(Some(length)),
        (true, _) => Length::None(None),
    };
    let has_date = all(b"date").next().is_some();
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
        has_date,
        upgrade,
        fields: block(fields, &nominated),
        keep_alive: persistent && length != Length::Close && (!without_body || sends_none),
        length,
    })
}

/// Name and value of a field.
type Field<'a> = (&'a [u8], &'a [u8]);

/// Parses the field lines, up to the empty line.
fn all_fields<'a>(lines: &mut Lines<'a>) -> Result<Vec<Field<'a>>, Malformed> {
    let mut fields = Vec::with_capacity(USUAL_FIELDS);
    loop {
        match lines.next() {
            Some(b"") => return Ok(fields),
            Some(_) if fields.len() == MAX_FIELDS => {
                return Err(Malformed("the response has too many fields"));
            }
            Some(line) => fields.push(field(line)?),
            None => return Err(Malformed("the head of the response has no end")),
        }
    }
}

/// Returns the values of all fields with a name.
fn values<'f, 'a: 'f>(
    fields: &'f [Field<'a>],
    wanted: &'static [u8],
) -> impl Iterator<Item = &'a [u8]> + 'f {
    let found = fields.iter().filter(move |(name, _)| name.eq_ignore_ascii_case(wanted));
    found.map(|(_, value)| *value)
}

/// Returns the length that the fields give, whether or not the response may have a body.
fn framing(fields: &[Field<'_>], is_http10: bool, has_bare_lf: bool) -> Result<Length, Malformed> {
    let announced = one(values(fields, b"content-length"), "two fields Content-Length")?
        .map(|value| content_length(value).ok_or(Malformed("Content-Length is not a number")))
        .transpose()?;
    let coding = one(values(fields, b"transfer-encoding"), "two fields Transfer-Encoding")?;
    match (coding, announced) {
        (Some(_), Some(_)) => Err(Malformed("both Content-Length and Transfer-Encoding")),
        (Some(_), None) if is_http10 => Err(Malformed("Transfer-Encoding in HTTP/1.0")),
        (Some(coding), None) if !coding.eq_ignore_ascii_case(b"chunked") => {
            Err(Malformed("a Transfer-Encoding other than chunked"))
        }
        (Some(_), None) if has_bare_lf => {
            Err(Malformed("a line of a chunked response ends in LF alone"))
        }
        (Some(_), None) => Ok(Length::Chunked),
        (None, Some(length)) => Ok(Length::Known(length)),
        (None, None) => Ok(Length::Close),
    }
}

/// Returns the fields for the client. As in Unit, the router sends its own `Server`.
fn block(mut fields: Vec<Field<'_>>, nominated: &Nominated<'_>) -> FieldBlock {
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

/// Returns the only value, if there is one. Error: there are two.
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

/// Parses the status line: true for HTTP/1.0, the status, and the reason phrase.
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
        _ => return Err(Malformed("the status line is malformed")),
    };
    Ok((old, status, reason))
}

/// Parses a field line into name and value.
fn field(line: &[u8]) -> Result<Field<'_>, Malformed> {
    const NO_FIELD: Malformed = Malformed("a field line is malformed");
    let end = line.iter().position(|byte| !is_token_byte(*byte)).ok_or(NO_FIELD)?;
    let (name, value) = line.split_at_checked(end).ok_or(NO_FIELD)?;
    let value = value.strip_prefix(b":").ok_or(NO_FIELD)?;
    if name.is_empty() {
        return Err(NO_FIELD);
    }
    if !value.iter().all(is_text) {
        return Err(Malformed("a field has a control character"));
    }
    Ok((name, value.trim_ascii())) // only spaces and tabs are left to trim
}

fn is_text(byte: &u8) -> bool {
    matches!(byte, b'\t' | b' '..=b'~' | 0x80..)
}

/// Splits a head into lines without their ends.
struct Lines<'a> {
    rest: &'a [u8],
    /// A line ended in LF alone.
    has_bare_lf: bool,
}

impl<'a> Lines<'a> {
    fn next(&mut self) -> Option<&'a [u8]> {
        let feed = memchr(b'\n', self.rest)?;
        let (line, rest) = self.rest.split_at_checked(feed)?;
        self.rest = rest.get(1..).unwrap_or_default();
        let stripped = line.strip_suffix(b"\r");
        self.has_bare_lf |= stripped.is_none();
        Some(stripped.unwrap_or(line))
    }
}

#[cfg(test)]
mod tests;
