//! The lines of a complete head, and the request line.

use std::ops::Range;

use howdah_text::token::is_token;
use memchr::memchr;

use crate::limits::Limits;
use crate::message::Version;
use crate::refusal::Refusal;

/// Iterator over the lines of a complete head up to the empty one, without line ends.
pub struct Lines<'a> {
    buffer: &'a [u8],
    at: usize,
    /// A line ended in LF alone.
    pub has_bare_lf: bool,
}

impl<'a> Lines<'a> {
    /// Starts at the request line of a head.
    pub fn new(buffer: &'a [u8]) -> Self {
        Lines { buffer, at: 0, has_bare_lf: false }
    }

    /// Returns the range of the next line; `None` at the empty one.
    pub fn next(&mut self) -> Result<Option<Range<usize>>, Refusal> {
        let rest = self.buffer.get(self.at..).unwrap_or_default();
        let feed = memchr(b'\n', rest).ok_or(Refusal::LineEnd)?;
        let end = feed.checked_sub(1).filter(|end| rest.get(*end) == Some(&b'\r'));
        self.has_bare_lf |= end.is_none();
        let end = end.unwrap_or(feed);
        let line = self.at..self.at + end;
        self.at += feed + 1;
        Ok((end > 0).then_some(line))
    }
}

/// The request line, `method SP target SP version`, as ranges of the line. The target may have
/// spaces unless the reading is strict; spaces around it do not belong to it.
pub struct RequestLine {
    pub method: Range<usize>,
    pub target: Range<usize>,
    pub version: Version,
}

impl RequestLine {
    /// Parses a line without its end.
    pub fn parse(line: &[u8], limits: &Limits) -> Result<RequestLine, Refusal> {
        if line.len() >= limits.max_line {
            return Err(Refusal::RequestLineTooLong);
        }
        let method = memchr(b' ', line).ok_or(Refusal::RequestLine)?;
        let token = line.get(..method).unwrap_or_default();
        if !is_token(token) {
            return Err(Refusal::RequestLine);
        }
        // Methods are case-sensitive (RFC 9110, 9.1), but applications take `post` for `POST`. As
        // in nginx and Unit.
        if !token.iter().all(|byte| byte.is_ascii_uppercase() || matches!(byte, b'-' | b'_')) {
            return Err(Refusal::Method);
        }
        let rest = line.get(method + 1..).unwrap_or_default();
        let mut parts = rest.rsplitn(2, |byte| *byte == b' ');
        let (Some(version), Some(target)) = (parts.next(), parts.next()) else {
            return Err(Refusal::RequestLine);
        };
        let is_inner = |byte: &u8| *byte != b' ';
        let ends = target.iter().position(is_inner).zip(target.iter().rposition(is_inner));
        let (first, last) = ends.ok_or(Refusal::RequestLine)?;
        if limits.strict && memchr(b' ', target).is_some() {
            return Err(Refusal::RequestLine);
        }
        let version = match version {
            b"HTTP/1.1" => Version::Http11,
            b"HTTP/1.0" => Version::Http10,
            [b'H', b'T', b'T', b'P', b'/', major, b'.', minor]
                if major.is_ascii_digit() && minor.is_ascii_digit() =>
            {
                return Err(Refusal::Version);
            }
            _ => return Err(Refusal::RequestLine),
        };
        let target = method + 1 + first..method + 1 + last + 1;
        Ok(RequestLine { method: 0..method, target, version })
    }
}
