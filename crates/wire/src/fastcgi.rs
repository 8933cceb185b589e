//! FastCGI records, in both directions and without I/O (FastCGI Specification, section 3 and 8).
//!
//! A connection is a sequence of records: eight bytes of header, up to 65,535 bytes of content, and
//! up to 255 bytes of padding. Records of one kind make a stream (parameters, body, output), which
//! an empty record ends.
//!
//! Writing splits what is longer than a record, so a length never wraps (the bug behind
//! smuggled requests in other implementations). Reading takes bytes as they come and hands out
//! content without waiting for the rest of its record.

mod answers;
mod pairs;

pub use self::answers::{Answer, Answers};
pub use self::pairs::{Pairs, put_pair, put_params};

use crate::bytes::Malformed;

/// Bytes of content that one record may have.
pub const MOST_CONTENT: usize = u16::MAX as usize;
/// Bytes of a record's header.
pub const HEADER: usize = 8;

/// Kind of a record, the number on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A request begins: role and flags.
    BeginRequest = 1,
    /// The client has lost interest.
    AbortRequest = 2,
    /// The response is over: [`End`].
    EndRequest = 3,
    /// Part of the stream of parameters: [`Pairs`].
    Params = 4,
    /// Part of the request's body.
    Stdin = 5,
    /// Part of the response.
    Stdout = 6,
    /// Part of what is for the log.
    Stderr = 7,
    /// Part of a file for a filter.
    Data = 8,
    /// Asks what the application can do.
    GetValues = 9,
    /// The answer to it.
    GetValuesResult = 10,
    /// The answer to a kind that is not known.
    UnknownType = 11,
}

/// What a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum Role {
    /// Answer it.
    Responder = 1,
    /// Say whether it is allowed.
    Authorizer = 2,
    /// Answer it with a changed file.
    Filter = 3,
}

/// How a request ended, as the application sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Protocol {
    /// It was answered.
    RequestComplete = 0,
    /// The application takes one request at a time on a connection.
    CannotMultiplex = 1,
    /// The application is out of something.
    Overloaded = 2,
    /// The application does not have this role.
    UnknownRole = 3,
}

/// Content of [`Kind::EndRequest`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// Exit status of the script.
    pub status: u32,
    /// How it ended.
    pub protocol: Protocol,
}

impl Kind {
    /// From the number on the wire.
    pub fn from_byte(byte: u8) -> Option<Kind> {
        Some(match byte {
            1 => Kind::BeginRequest,
            2 => Kind::AbortRequest,
            3 => Kind::EndRequest,
            4 => Kind::Params,
            5 => Kind::Stdin,
            6 => Kind::Stdout,
            7 => Kind::Stderr,
            8 => Kind::Data,
            9 => Kind::GetValues,
            10 => Kind::GetValuesResult,
            11 => Kind::UnknownType,
            _ => return None,
        })
    }
}

impl End {
    /// Decodes the content of a record.
    pub fn decode(content: [u8; 8]) -> Result<End, Malformed> {
        let [a, b, c, d, protocol, _, _, _] = content;
        let protocol = match protocol {
            0 => Protocol::RequestComplete,
            1 => Protocol::CannotMultiplex,
            2 => Protocol::Overloaded,
            3 => Protocol::UnknownRole,
            _ => return Err(Malformed),
        };
        Ok(End { status: u32::from_be_bytes([a, b, c, d]), protocol })
    }

    /// Appends the record.
    pub fn put(self, id: u16, out: &mut Vec<u8>) {
        let [a, b, c, d] = self.status.to_be_bytes();
        put_record(Kind::EndRequest, id, &[a, b, c, d, self.protocol as u8, 0, 0, 0], out);
    }
}

/// Appends the record that begins a request. `keep`: the connection is used again afterwards.
pub fn put_begin(role: Role, keep: bool, id: u16, out: &mut Vec<u8>) {
    let [high, low] = (role as u16).to_be_bytes();
    put_record(Kind::BeginRequest, id, &[high, low, u8::from(keep), 0, 0, 0, 0, 0], out);
}

/// Appends a part of a stream, in as many records as it needs. Nothing for an empty part, as an
/// empty record is the end: [`put_end_of_stream`].
pub fn put_stream(kind: Kind, id: u16, bytes: &[u8], out: &mut Vec<u8>) {
    for content in bytes.chunks(MOST_CONTENT) {
        put_record(kind, id, content, out);
    }
}

/// Appends the end of a stream.
pub fn put_end_of_stream(kind: Kind, id: u16, out: &mut Vec<u8>) {
    put_record(kind, id, &[], out);
}

/// The header of a record without padding; the content is to follow.
pub fn header(kind: Kind, id: u16, content: u16) -> [u8; HEADER] {
    let ([id_high, id_low], [high, low]) = (id.to_be_bytes(), content.to_be_bytes());
    [1, kind as u8, id_high, id_low, high, low, 0, 0]
}

/// `content` has at most [`MOST_CONTENT`] bytes; what is beyond is not written.
fn put_record(kind: Kind, id: u16, content: &[u8], out: &mut Vec<u8>) {
    let len = u16::try_from(content.len()).unwrap_or(u16::MAX);
    out.extend_from_slice(&header(kind, id, len));
    out.extend_from_slice(content.get(..usize::from(len)).unwrap_or_default());
}

/// Part of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part<'a> {
    /// Bytes of the content, never empty.
    Content(&'a [u8]),
    /// The record is complete; its content had so many bytes.
    End(u16),
}

/// Takes records apart.
#[derive(Debug, Default)]
pub struct Records {
    header: [u8; HEADER],
    /// Bytes of the header that are there.
    have: u8,
    /// Bytes of the content that are to come.
    content: u16,
    /// The end of the content was told.
    told: bool,
    /// Bytes of the padding that are to come.
    padding: u8,
}

impl Records {
    /// Takes the next part from the front of `input`, with the record's kind (perhaps an unknown
    /// one) and request. `None`: the input is used up.
    pub fn next<'a>(
        &mut self,
        input: &mut &'a [u8],
    ) -> Result<Option<(u8, u16, Part<'a>)>, Malformed> {
        loop {
            if usize::from(self.have) < HEADER {
                let Some((byte, rest)) = input.split_first() else { return Ok(None) };
                self.header[usize::from(self.have)] = *byte;
                self.have += 1;
                *input = rest;
                if usize::from(self.have) == HEADER {
                    let [version, _, _, _, high, low, padding, _] = self.header;
                    if version != 1 {
                        return Err(Malformed);
                    }
                    self.content = u16::from_be_bytes([high, low]);
                    self.padding = padding;
                    self.told = false;
                }
                continue;
            }
            let [_, kind, id_high, id_low, high, low, _, _] = self.header;
            let id = u16::from_be_bytes([id_high, id_low]);
            if self.content > 0 {
                let len = usize::from(self.content).min(input.len());
                let (content, rest) = input.split_at(len);
                *input = rest;
                self.content -= len as u16; // at most that
                let part = (!content.is_empty()).then_some((kind, id, Part::Content(content)));
                return Ok(part);
            }
            if !self.told {
                self.told = true;
                return Ok(Some((kind, id, Part::End(u16::from_be_bytes([high, low])))));
            }
            let len = usize::from(self.padding).min(input.len());
            *input = input.get(len..).unwrap_or_default();
            self.padding -= len as u8; // at most that
            if self.padding > 0 {
                return Ok(None);
            }
            self.have = 0;
        }
    }

    /// Whether the last record has come in full, with its padding.
    pub fn is_between(&self) -> bool {
        self.have == 0 || (usize::from(self.have) == HEADER && self.told && self.padding == 0)
    }
}

#[cfg(test)]
mod tests;
