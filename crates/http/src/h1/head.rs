//! Request heads: from bytes to fields, in two steps.
//!
//! 1. [`Scan`] finds where the head ends, however it was cut into reads, and looks at no byte
//!    twice. It refuses at once what will never be a head, so that a client that speaks another
//!    protocol is not kept waiting.
//! 2. [`Head::parse`] reads the complete head: request line, fields, what the fields say about
//!    framing and persistence, target. Names and values stay slices of the buffer.
//!
//! As RFC 9112 has it: names are tokens directly before the colon, no value goes over several
//! lines, no control byte is in one. A line may end in LF alone, as 2.2 permits and as nginx and
//! Unit have it, unless the body is chunked: that is how requests are smuggled past a proxy that
//! reads such a line as part of the one before.
//!
//! Unless [`Limits::strict`] is set, a request needs no host, and its host may have any characters;
//! spaces and a fragment may stand in its target. What was taken so is made legal here: spaces are
//! escaped, the fragment is cut off, the host is percent-encoded. So whoever gets the request from
//! us, a script or another server, reads the target and the host that routes were chosen by.
//! Nothing here reads a clock or a socket.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use howdah_config::Captures;
use memchr::{memchr, memchr_iter};

use super::refusal::Refusal;
use crate::authority;
use crate::framing::{BodyLength, content_length, is_token};
use crate::limits::Limits;
use crate::message::{ConnectionInfo, Fields, Request, Version};
use crate::target::{Path, Target, TargetError};

/// What the start of the bytes received is.
#[derive(Debug)]
pub enum Parse {
    /// Not a whole head yet.
    Partial,
    /// Nothing that is answered but with an error.
    Refused(Refusal),
    /// A head, and the number of bytes up to its end.
    Complete(Box<Head>, usize),
}

/// Reads the head at the start of `input`, as the connection does with bytes that arrive at once.
pub fn parse_head(input: &[u8], limits: &Limits) -> Parse {
    match Scan::default().advance(input, limits) {
        Scanned::Partial => Parse::Partial,
        Scanned::Refused(refusal) => Parse::Refused(refusal),
        Scanned::Complete(range) => {
            let end = range.end;
            let head = input.get(range).map(Bytes::copy_from_slice).unwrap_or_default();
            match Head::parse(head, limits) {
                Ok(head) => Parse::Complete(Box::new(head), end),
                Err(refusal) => Parse::Refused(refusal),
            }
        }
    }
}

/// Looks for the end of a head in bytes that come little by little.
#[derive(Debug, Default)]
pub struct Scan {
    /// Bytes looked at.
    at: usize,
    /// Start of the head: after empty lines, if any.
    start: usize,
    /// Start of the line that is being looked at.
    line: usize,
    /// Empty lines before the head.
    empty: u8,
    /// The request line was checked by itself, since the rest had not come.
    checked: bool,
    /// What was found, once that is certain.
    found: Option<Scanned>,
}

/// What a [`Scan`] found so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scanned {
    /// Not a whole head yet.
    Partial,
    /// This will never be a head.
    Refused(Refusal),
    /// The head has come: it is at this range.
    Complete(Range<usize>),
}

impl Scan {
    /// Empty lines that a client may send before a request (RFC 9112, 2.2, asks for one).
    const EMPTY_LINES: u8 = 2;

    /// Looks at the bytes that are new since the last call; `input` is all of them.
    pub fn advance(&mut self, input: &[u8], limits: &Limits) -> Scanned {
        if let Some(found) = &self.found {
            return found.clone();
        }
        let found = match self.look(input, limits) {
            Ok(Some(range)) => Scanned::Complete(range),
            Ok(None) => return Scanned::Partial,
            Err(refusal) => Scanned::Refused(refusal),
        };
        self.found = Some(found.clone());
        found
    }

    fn look(&mut self, input: &[u8], limits: &Limits) -> Result<Option<Range<usize>>, Refusal> {
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
                if self.empty > Self::EMPTY_LINES {
                    return Err(Refusal::RequestLine);
                }
            }
        }
        self.at = input.len();
        self.early(input, limits)?;
        Ok(None)
    }

    /// Where in the input the head starts, as far as is known.
    pub fn start(&self) -> usize {
        self.start
    }

    /// What can be said about a head that has not come in full.
    fn early(&mut self, input: &[u8], limits: &Limits) -> Result<(), Refusal> {
        let head = input.get(self.start..).unwrap_or_default();
        let has_line = self.line > self.start;
        if head.len() > limits.max_head || (!has_line && head.len() > limits.max_line) {
            return Err(self.too_long(input, limits));
        }
        if !has_line && head.first().is_some_and(|&byte| byte != b'\r' && !is_token(byte)) {
            return Err(Refusal::RequestLine);
        }
        if has_line && !self.checked {
            let mut lines = Lines { buffer: head, at: 0, bare: false };
            let line = lines.next()?.and_then(|line| head.get(line)).unwrap_or_default();
            RequestLine::parse(line, limits)?;
            self.checked = true;
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

/// A request head.
#[derive(Debug, Clone)]
pub struct Head {
    /// As sent.
    pub method: Bytes,
    /// In origin form, without a fragment.
    pub target: Bytes,
    /// What was cut off the target, with its `#`.
    pub fragment: Bytes,
    /// Decoded and normalised.
    pub path: Bytes,
    /// After the first `?` of the target.
    pub query: Bytes,
    /// Of the message.
    pub version: Version,
    /// From the target if it has one, else from `Host`; lower case.
    pub host: Bytes,
    /// In the order sent. `Host` has the authority that `host` is of; it comes first if it is not
    /// the field that was sent.
    pub fields: Fields,
    /// How the body is framed.
    pub body: BodyLength,
    /// Whether the client wants to use the connection further.
    pub keep_alive: bool,
    /// Whether it waits for `100 Continue` before it sends the body.
    pub expects_continue: bool,
}

impl Head {
    /// Reads a complete head: from the first byte of the request line to the empty line.
    pub fn parse(buffer: Bytes, limits: &Limits) -> Result<Head, Refusal> {
        let mut lines = Lines { buffer: &buffer, at: 0, bare: false };
        let line = lines.next()?.ok_or(Refusal::RequestLine)?;
        let bytes = buffer.get(line.clone()).ok_or(Refusal::RequestLine)?;
        let RequestLine { method, target, version } = RequestLine::parse(bytes, limits)?;
        let form = Form::of(&buffer, method.clone(), target, limits)?;

        let mut fields = Fields::new(buffer.clone(), 16);
        let mut known = Known::default();
        let mut count = 0;
        while let Some(line) = lines.next()? {
            count += 1;
            if count > limits.max_fields {
                return Err(Refusal::TooManyFields);
            }
            let (name, mut value) = field(&buffer, line, limits)?;
            let name_bytes = buffer.get(name.clone()).unwrap_or_default();
            if let Some(which) = KnownName::of(name_bytes) {
                let bytes = buffer.get(value.clone()).unwrap_or_default();
                if let (KnownName::Host, Some(authority)) = (which, form.authority.clone()) {
                    // The authority of an absolute target counts in its stead, for all that
                    // look at the fields later (RFC 9112, 3.2.2).
                    authority::host(bytes, limits.strict).ok_or(Refusal::Host)?;
                    value = authority;
                }
                known.take(which, bytes, value.clone())?;
            } else if limits.discard_unsafe_fields
                && !name_bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
            {
                continue;
            }
            fields.push(name, value);
        }
        let body = known.body_length(version, limits)?;
        if lines.bare && body == BodyLength::Chunked {
            return Err(Refusal::LineEnd);
        }
        // HTTP/1.0 knows no expectations: there the field means nothing (RFC 9110, 10.1.1).
        if known.expects_more && version >= Version::Http11 {
            return Err(Refusal::Expectation);
        }
        let authority = match (known.host.clone(), form.authority.clone()) {
            (Some(host), _) => host,
            (None, _) if limits.strict && version >= Version::Http11 => return Err(Refusal::Host),
            (None, authority) => authority.unwrap_or(0..0),
        };
        let host = host_of(&buffer, authority.clone(), limits.strict)?;
        let authority = buffer.get(authority).unwrap_or_default();
        let legal = match limits.strict {
            true => None,
            false => authority::passed_on(authority),
        };
        if let Some(legal) = legal {
            fields = with_host(&fields, &legal);
        } else if known.host.is_none() && !authority.is_empty() {
            fields = with_host(&fields, authority);
        }
        Ok(Head {
            method: buffer.slice(method),
            host,
            target: form.target,
            fragment: form.fragment,
            path: form.path,
            query: form.query,
            version,
            fields,
            body,
            keep_alive: match version {
                Version::Http11 | Version::Http2 => !known.close,
                Version::Http10 => known.keep_alive && !known.close,
            },
            expects_continue: known.expects_continue && version == Version::Http11,
        })
    }
}

impl Head {
    /// The request that came with it.
    pub fn into_request(self, connection: Arc<ConnectionInfo>, id: u64) -> Request {
        Request {
            method: self.method,
            target: self.target,
            fragment: self.fragment,
            path: self.path,
            query: self.query,
            version: self.version,
            host: self.host,
            fields: self.fields,
            connection,
            user: None,
            id,
            error: None,
            captures: Captures::default(),
        }
    }
}

/// The lines of a complete head, without their ends; stops at the empty one.
struct Lines<'a> {
    buffer: &'a [u8],
    at: usize,
    /// Some line ended in LF alone.
    bare: bool,
}

impl Lines<'_> {
    fn next(&mut self) -> Result<Option<Range<usize>>, Refusal> {
        let rest = self.buffer.get(self.at..).unwrap_or_default();
        let feed = memchr(b'\n', rest).ok_or(Refusal::LineEnd)?;
        let end = feed.checked_sub(1).filter(|end| rest.get(*end) == Some(&b'\r'));
        self.bare |= end.is_none();
        let end = end.unwrap_or(feed);
        let line = self.at..self.at + end;
        self.at += feed + 1;
        Ok((end > 0).then_some(line))
    }
}

/// `method SP target SP version`: ranges of the line. The target may hold spaces unless the
/// reading is strict; those around it do not belong to it.
struct RequestLine {
    method: Range<usize>,
    target: Range<usize>,
    version: Version,
}

impl RequestLine {
    fn parse(line: &[u8], limits: &Limits) -> Result<RequestLine, Refusal> {
        if line.len() >= limits.max_line {
            return Err(Refusal::RequestLineTooLong);
        }
        let method = memchr(b' ', line).ok_or(Refusal::RequestLine)?;
        let token = line.get(..method).unwrap_or_default();
        if token.is_empty() || !token.iter().all(|byte| is_token(*byte)) {
            return Err(Refusal::RequestLine);
        }
        let rest = line.get(method + 1..).unwrap_or_default();
        let mut parts = rest.rsplitn(2, |byte| *byte == b' ');
        let (Some(version), Some(target)) = (parts.next(), parts.next()) else {
            return Err(Refusal::RequestLine);
        };
        let inner = |byte: &u8| *byte != b' ';
        let ends = target.iter().position(inner).zip(target.iter().rposition(inner));
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

/// A target, whatever its form was (RFC 9112, 3.2), in origin form and taken apart.
struct Form {
    target: Bytes,
    fragment: Bytes,
    path: Bytes,
    query: Bytes,
    /// The authority of an absolute target; it stands in place of `Host`.
    authority: Option<Range<usize>>,
}

impl Form {
    fn of(
        buffer: &Bytes,
        method: Range<usize>,
        target: Range<usize>,
        limits: &Limits,
    ) -> Result<Form, Refusal> {
        let bytes = buffer.get(target.clone()).unwrap_or_default();
        let method = buffer.get(method).unwrap_or_default();
        if method == b"CONNECT" {
            return Err(Refusal::Connect);
        }
        if bytes.first() == Some(&b'/') {
            return Form::origin(buffer.slice(target), None, limits);
        }
        if bytes == b"*" && method == b"OPTIONS" {
            let path = Bytes::from_static(b"/");
            let target = buffer.slice(target);
            let (query, fragment) = (Bytes::new(), Bytes::new());
            return Ok(Form { target, fragment, path, query, authority: None });
        }
        let scheme = [&b"http://"[..], b"https://"].into_iter().find(|scheme| {
            bytes.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
        });
        let scheme = scheme.ok_or(Refusal::Target(TargetError::Form))?.len();
        let rest = bytes.get(scheme..).unwrap_or_default();
        let len = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
        let authority = target.start + scheme..target.start + scheme + len;
        // Unit refuses whole URIs, so nobody needs to have them read leniently.
        if len == 0 || host_of(buffer, authority.clone(), true).is_err() {
            return Err(Refusal::Host);
        }
        let path = authority.end..target.end;
        let origin = if buffer.get(path.start) == Some(&b'/') {
            buffer.slice(path)
        } else {
            [b"/", buffer.get(path).unwrap_or_default()].concat().into()
        };
        Form::origin(origin, Some(authority), limits)
    }

    fn origin(
        mut target: Bytes,
        authority: Option<Range<usize>>,
        limits: &Limits,
    ) -> Result<Form, Refusal> {
        if memchr(b' ', &target).is_some() {
            let parts: Vec<_> = target.split(|byte| *byte == b' ').collect();
            target = parts.join(b"%20".as_slice()).into();
        }
        let Target { path, query } = Target::parse(&target).map_err(Refusal::Target)?;
        let path = match path {
            Path::AsSent(end) => target.slice(..end),
            Path::Decoded(path) => path.into(),
        };
        let query = target.slice(query);
        let fragment = memchr(b'#', &target).map(|at| target.split_off(at)).unwrap_or_default();
        if limits.strict && !fragment.is_empty() {
            return Err(Refusal::Fragment);
        }
        Ok(Form { path, query, target, fragment, authority })
    }
}

/// The fields that say something about the message or the connection.
#[derive(Clone, Copy)]
enum KnownName {
    Connection,
    ContentLength,
    Expect,
    Host,
    TransferEncoding,
}

impl KnownName {
    fn of(name: &[u8]) -> Option<KnownName> {
        let (known, text): (_, &[u8]) = match name.len() {
            4 => (KnownName::Host, b"host"),
            6 => (KnownName::Expect, b"expect"),
            10 => (KnownName::Connection, b"connection"),
            14 => (KnownName::ContentLength, b"content-length"),
            17 => (KnownName::TransferEncoding, b"transfer-encoding"),
            _ => return None,
        };
        name.eq_ignore_ascii_case(text).then_some(known)
    }
}

/// What those fields said.
#[derive(Default)]
struct Known {
    host: Option<Range<usize>>,
    length: Option<u64>,
    /// `Transfer-Encoding` was there; whether it was `chunked`.
    chunked: Option<bool>,
    expects_continue: bool,
    /// `Expect` had something else.
    expects_more: bool,
    close: bool,
    keep_alive: bool,
}

impl Known {
    fn take(&mut self, name: KnownName, value: &[u8], range: Range<usize>) -> Result<(), Refusal> {
        match name {
            KnownName::Connection => {
                for option in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
                    self.close |= option.eq_ignore_ascii_case(b"close");
                    self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
                }
            }
            KnownName::ContentLength => {
                if self.length.is_some() {
                    return Err(Refusal::ContentLengthConflict);
                }
                let length = content_length(value).ok_or(Refusal::ContentLengthInvalid)?;
                self.length = Some(length);
            }
            KnownName::Expect => {
                self.expects_continue |= value.eq_ignore_ascii_case(b"100-continue");
                self.expects_more |= !value.eq_ignore_ascii_case(b"100-continue");
            }
            KnownName::Host if self.host.is_some() => return Err(Refusal::Host),
            KnownName::Host => self.host = Some(range),
            KnownName::TransferEncoding => {
                if self.chunked.is_some() {
                    return Err(Refusal::TransferEncoding);
                }
                self.chunked = Some(value.eq_ignore_ascii_case(b"chunked"));
            }
        }
        Ok(())
    }

    /// RFC 9112, 6.3, without the cases in which it leaves a choice.
    fn body_length(&self, version: Version, limits: &Limits) -> Result<BodyLength, Refusal> {
        match (self.chunked, self.length) {
            (Some(_), Some(_)) => Err(Refusal::ContentLengthConflict),
            (Some(_), None) if version == Version::Http10 => Err(Refusal::TransferEncoding),
            (Some(false), None) => Err(Refusal::UnknownCoding),
            (Some(true), None) if !limits.chunked_bodies => Err(Refusal::LengthRequired),
            (Some(true), None) => Ok(BodyLength::Chunked),
            (None, Some(length)) if length > limits.max_body => Err(Refusal::BodyTooLong),
            (None, length) => Ok(BodyLength::Known(length.unwrap_or(0))),
        }
    }
}

/// Name and value of a field line.
fn field(
    buffer: &[u8],
    line: Range<usize>,
    limits: &Limits,
) -> Result<(Range<usize>, Range<usize>), Refusal> {
    let bytes = buffer.get(line.clone()).unwrap_or_default();
    let colon = bytes.iter().position(|byte| !is_token(*byte)).filter(|colon| *colon > 0);
    let colon = colon.filter(|colon| bytes.get(*colon) == Some(&b':')).ok_or(Refusal::Field)?;
    let rest = bytes.get(colon + 1..).unwrap_or_default();
    // Without a branch per byte, so that it is done 16 or 32 bytes at a time.
    let legal = |byte: u8| (byte >= b' ') & (byte != 0x7f) | (byte == b'\t');
    if !rest.iter().fold(true, |all, byte| all & legal(*byte)) {
        return Err(Refusal::Field);
    }
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let lead = rest.iter().take_while(|byte| blank(byte)).count();
    let trail = rest.iter().rev().take_while(|byte| blank(byte)).count();
    let start = line.start + colon + 1 + lead;
    let value = start..(line.end - trail).max(start);
    if colon >= limits.max_line || value.len() >= limits.max_line {
        return Err(Refusal::FieldTooLong);
    }
    Ok((line.start..line.start + colon, value))
}

/// The fields, with this value of `Host`.
fn with_host(fields: &Fields, host: &[u8]) -> Fields {
    let others = fields.iter().filter(|(name, _)| !name.eq_ignore_ascii_case(b"host"));
    Fields::from_pairs([(&b"Host"[..], host)].into_iter().chain(others))
}

/// The host in an authority, in lower case.
fn host_of(buffer: &Bytes, authority: Range<usize>, strict: bool) -> Result<Bytes, Refusal> {
    let bytes = buffer.get(authority.clone()).unwrap_or_default();
    let host = authority::host(bytes, strict).ok_or(Refusal::Host)?;
    let host = authority.start + host.start..authority.start + host.end;
    let bytes = buffer.get(host.clone()).unwrap_or_default();
    Ok(if bytes.iter().any(u8::is_ascii_uppercase) {
        bytes.to_ascii_lowercase().into()
    } else {
        buffer.slice(host)
    })
}

#[cfg(test)]
#[path = "head_tests.rs"]
mod tests;
