//! Records: header, content and padding (FastCGI Specification, section 3.3 and 8).

use crate::bytes::{Malformed, numbered};

/// Maximum length of a record's content, in bytes.
pub const MAX_CONTENT_BYTES: usize = u16::MAX as usize;

/// Length of a record's header, in bytes.
pub const HEADER: usize = 8;

numbered! {
    /// Type of a record, with its number on the wire.
    pub enum Kind {
        /// A request begins: role and flags.
        BeginRequest = 1,
        /// The client has ended the request.
        AbortRequest = 2,
        /// The response is complete: [`End`].
        EndRequest = 3,
        /// Part of the stream of parameters: [`Pairs`](super::Pairs).
        Params = 4,
        /// Part of the request's body.
        Stdin = 5,
        /// Part of the response.
        Stdout = 6,
        /// Part of the output for the log.
        Stderr = 7,
        /// Part of a file for a filter.
        Data = 8,
        /// Requests the capabilities of the application.
        GetValues = 9,
        /// The capabilities of the application.
        GetValuesResult = 10,
        /// The response to a record of unknown type.
        UnknownType = 11,
    }
}

/// Role of the application for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum Role {
    /// Generates the response.
    Responder = 1,
    /// Decides whether the request is permitted.
    Authorizer = 2,
    /// Generates the response from a file.
    Filter = 3,
}

numbered! {
    /// Protocol status: the way in which the application has ended a request.
    pub enum Protocol {
        /// The response is complete.
        RequestComplete = 0,
        /// The application takes one request at a time on a connection.
        CannotMultiplex = 1,
        /// The application lacks a resource.
        Overloaded = 2,
        /// The application does not have this role.
        UnknownRole = 3,
    }
}

/// Content of [`Kind::EndRequest`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// Exit status of the script.
    pub status: u32,
    /// Protocol status.
    pub protocol: Protocol,
}

impl End {
    /// Decodes the content of a record.
    pub fn decode(content: [u8; 8]) -> Result<End, Malformed> {
        let [a, b, c, d, protocol, _, _, _] = content;
        let protocol = Protocol::from_byte(protocol).ok_or(Malformed)?;
        Ok(End { status: u32::from_be_bytes([a, b, c, d]), protocol })
    }

    /// Appends the record.
    pub fn put(self, id: u16, out: &mut Vec<u8>) {
        let [a, b, c, d] = self.status.to_be_bytes();
        put_record(Kind::EndRequest, id, &[a, b, c, d, self.protocol as u8, 0, 0, 0], out);
    }
}

/// Appends the record that begins a request. `keep` leaves the connection open afterwards.
pub fn put_begin(role: Role, keep: bool, id: u16, out: &mut Vec<u8>) {
    let [high, low] = (role as u16).to_be_bytes();
    put_record(Kind::BeginRequest, id, &[high, low, u8::from(keep), 0, 0, 0, 0, 0], out);
}

/// Appends a part of a stream, in as many records as necessary: none for an empty part, because an
/// empty record ends the stream ([`put_end_of_stream`]).
pub fn put_stream(kind: Kind, id: u16, bytes: &[u8], out: &mut Vec<u8>) {
    for content in bytes.chunks(MAX_CONTENT_BYTES) {
        put_record(kind, id, content, out);
    }
}

/// Appends the end of a stream.
pub fn put_end_of_stream(kind: Kind, id: u16, out: &mut Vec<u8>) {
    put_record(kind, id, &[], out);
}

/// Returns the header of a record without padding; its content follows.
pub fn header(kind: Kind, id: u16, content: u16) -> [u8; HEADER] {
    let ([id_high, id_low], [high, low]) = (id.to_be_bytes(), content.to_be_bytes());
    [1, kind as u8, id_high, id_low, high, low, 0, 0]
}

/// Appends a record. `content` has at most [`MAX_CONTENT_BYTES`] bytes; the rest is ignored.
pub(super) fn put_record(kind: Kind, id: u16, content: &[u8], out: &mut Vec<u8>) {
    let len = u16::try_from(content.len()).unwrap_or(u16::MAX);
    out.extend_from_slice(&header(kind, id, len));
    out.extend_from_slice(content.get(..usize::from(len)).unwrap_or_default());
}

/// Part of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part<'a> {
    /// Bytes of the content, never empty.
    Content(&'a [u8]),
    /// The record is complete; its content had this length in bytes.
    End(u16),
}

/// Splits the bytes of a connection into records.
#[derive(Debug, Default)]
pub struct Records {
    header: [u8; HEADER],
    state: State,
}

/// The next expected bytes.
#[derive(Debug, Clone, Copy)]
enum State {
    /// The header, of which this many bytes have been read.
    Header(usize),
    /// Content; this many bytes are left.
    Content(u16),
    /// Padding; this many bytes are left.
    Padding(u8),
}

impl Default for State {
    fn default() -> Self {
        State::Header(0)
    }
}

impl Records {
    /// Takes the next part from the front of `input`. Returns the record's type (which may be
    /// unknown), its request id, and the part; `None` if all of `input` is consumed.
    pub fn next<'a>(
        &mut self,
        input: &mut &'a [u8],
    ) -> Result<Option<(u8, u16, Part<'a>)>, Malformed> {
        loop {
            let [_, kind, id_high, id_low, high, low, padding, _] = self.header;
            let id = u16::from_be_bytes([id_high, id_low]);
            match self.state {
                State::Header(have) => {
                    let Some((byte, rest)) = input.split_first() else { return Ok(None) };
                    *self.header.get_mut(have).ok_or(Malformed)? = *byte;
                    *input = rest;
                    self.state = match have + 1 {
                        HEADER => State::Content(self.content_length()?),
                        have => State::Header(have),
                    };
                }
                State::Content(0) => {
                    self.state = State::Padding(padding);
                    return Ok(Some((kind, id, Part::End(u16::from_be_bytes([high, low])))));
                }
                State::Content(left) => {
                    let len = input.len().min(usize::from(left));
                    let (content, rest) = input.split_at(len);
                    *input = rest;
                    self.state = State::Content(left - len as u16); // not more than that
                    return Ok((len > 0).then_some((kind, id, Part::Content(content))));
                }
                State::Padding(0) => self.state = State::Header(0),
                State::Padding(left) => {
                    let len = input.len().min(usize::from(left));
                    if len == 0 {
                        return Ok(None);
                    }
                    *input = input.get(len..).unwrap_or_default();
                    self.state = State::Padding(left - len as u8); // not more than that
                }
            }
        }
    }

    /// Returns the length of the content from the header.
    fn content_length(&self) -> Result<u16, Malformed> {
        match self.header {
            [1, _, _, _, high, low, _, _] => Ok(u16::from_be_bytes([high, low])),
            _ => Err(Malformed), // another version
        }
    }

    /// Returns true between two records: the last one is complete, including its padding.
    pub fn is_record_complete(&self) -> bool {
        matches!(self.state, State::Header(0) | State::Padding(0))
    }
}
