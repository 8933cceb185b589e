//! Field lines, and the fields that concern the connection or the framing.

use std::ops::Range;

use howdah_text::token::is_token_byte;

use crate::body_length::{BodyLength, content_length};
use crate::limits::Limits;
use crate::message::Version;
use crate::refusal::Refusal;

/// Names of the fields that concern the connection or the framing.
#[derive(Clone, Copy)]
pub enum KnownName {
    Connection,
    ContentLength,
    Expect,
    Host,
    TransferEncoding,
}

impl KnownName {
    /// Returns the known name that equals `name`, compared without regard to ASCII case.
    pub fn of(name: &[u8]) -> Option<KnownName> {
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

/// Values of the known fields.
#[derive(Default)]
pub struct KnownFields {
    /// Range of the value of `Host`.
    pub host: Option<Range<usize>>,
    /// Value of `Content-Length`.
    length: Option<u64>,
    /// `Transfer-Encoding`: true for `chunked`, false for other codings.
    chunked: Option<bool>,
    /// `Expect: 100-continue`.
    pub expects_continue: bool,
    /// `Expect` with another value.
    pub expects_other: bool,
    /// `Connection: close`.
    pub close: bool,
    /// `Connection: keep-alive`.
    pub keep_alive: bool,
}

impl KnownFields {
    /// Records a field.
    pub fn take(
        &mut self,
        name: KnownName,
        value: &[u8],
        range: Range<usize>,
    ) -> Result<(), Refusal> {
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
                self.expects_other |= !value.eq_ignore_ascii_case(b"100-continue");
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

    /// Returns the length of the body (RFC 9112, 6.3). Cases in which the RFC leaves a choice are
    /// refused.
    pub fn body_length(&self, version: Version, limits: &Limits) -> Result<BodyLength, Refusal> {
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

/// Parses a field line; returns the ranges of its name and value.
pub fn field(
    buffer: &[u8],
    line: Range<usize>,
    limits: &Limits,
) -> Result<(Range<usize>, Range<usize>), Refusal> {
    let bytes = buffer.get(line.clone()).unwrap_or_default();
    let colon = bytes.iter().position(|byte| !is_token_byte(*byte)).filter(|colon| *colon > 0);
    let colon = colon.filter(|colon| bytes.get(*colon) == Some(&b':')).ok_or(Refusal::Field)?;
    let rest = bytes.get(colon + 1..).unwrap_or_default();
    // Without branches, so that the compiler handles 16 or 32 bytes at a time.
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
