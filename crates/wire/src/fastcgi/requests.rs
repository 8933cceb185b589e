//! Decodes what a web server sends on a connection: requests, one at a time, and questions about
//! the application itself.
//!
//! The limits of this module bound what a client makes the server keep before its request is
//! complete: one stream of parameters of [`MAX_PARAMS_BYTES`] and one question.

use super::pairs::{Pairs, put_pair};
use super::records::{End, Kind, Part, Protocol, Records, Role, put_record};
use crate::bytes::Malformed;

/// Maximum length of a stream of parameters, in bytes.
pub const MAX_PARAMS_BYTES: usize = 1 << 20;

/// Maximum number of parameters of a request.
pub const MAX_PARAMS: usize = 4096;

/// Maximum length of the content of a question ([`Kind::GetValues`]), in bytes.
const MAX_QUESTION_BYTES: usize = 4096;

/// Bit of the flags of a request: the connection stays open after the response.
const KEEP_CONNECTION: u8 = 1;

/// The variables of the application that a web server may ask for, with their values. Connections
/// occupy no process, so their number has no limit of this application; a connection has one
/// request at a time, as with PHP-FPM.
const VALUES: [(&[u8], &[u8]); 3] =
    [(b"FCGI_MAX_CONNS", b"65535"), (b"FCGI_MAX_REQS", b"65535"), (b"FCGI_MPXS_CONNS", b"0")];

/// Event on a connection.
#[derive(Debug, PartialEq, Eq)]
pub enum Received<'a> {
    /// The parameters of a request are complete; its body follows.
    Head(RequestHead),
    /// Bytes of the body of the request, never empty.
    Body(&'a [u8]),
    /// The body of the request is complete.
    BodyEnd,
    /// The web server has abandoned the request, of which [`Received::Head`] was returned.
    Abort,
    /// A record that needs no request has to be answered.
    Reply(Reply),
}

/// The beginning of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestHead {
    /// Request id, not 0.
    pub id: u16,
    /// Role of the application.
    pub role: Role,
    /// The connection stays open after the response.
    pub keep: bool,
    /// The complete stream of parameters: at most [`MAX_PARAMS`] well-formed [`Pairs`].
    pub params: Vec<u8>,
}

/// Answer to a record that belongs to no request that is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The values of variables, as an encoded list of pairs.
    Values(Vec<u8>),
    /// The type of the record is unknown.
    UnknownType(u8),
    /// A request is not served, for this reason.
    Refused {
        /// Request id.
        id: u16,
        /// Reason.
        protocol: Protocol,
        /// The connection stays open.
        keep: bool,
    },
}

impl Reply {
    /// Appends the record.
    pub fn put(&self, out: &mut Vec<u8>) {
        match self {
            Reply::Values(values) => put_record(Kind::GetValuesResult, 0, values, out),
            Reply::UnknownType(kind) => {
                put_record(Kind::UnknownType, 0, &[*kind, 0, 0, 0, 0, 0, 0, 0], out);
            }
            Reply::Refused { id, protocol, .. } => {
                End { status: 0, protocol: *protocol }.put(*id, out);
            }
        }
    }

    /// Returns false if the connection is to be closed after the answer.
    pub fn keeps(&self) -> bool {
        !matches!(self, Reply::Refused { keep: false, .. })
    }
}

/// Decodes the records of a web server. A connection has one request at a time: another one that
/// begins meanwhile is refused, and its records are skipped, like all of requests that have ended.
#[derive(Debug, Default)]
pub struct Requests {
    records: Records,
    /// The content of the current record, if that is kept: a beginning or a question.
    content: Vec<u8>,
    current: Option<Current>,
}

/// The request that is read or answered.
#[derive(Debug)]
struct Current {
    id: u16,
    role: Role,
    keep: bool,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// Parameters, as far as they have arrived.
    Params(Vec<u8>),
    Body,
    /// The body is complete.
    Complete,
}

impl Requests {
    /// Takes the next event from the front of `input`; `None` if all of `input` is consumed.
    ///
    /// # Errors
    /// The bytes violate the protocol or a limit: the connection must be closed.
    pub fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Received<'a>>, Malformed> {
        while let Some((kind, id, part)) = self.records.next(input)? {
            let event = match (Kind::from_byte(kind), id) {
                (Some(Kind::BeginRequest), 1..) => self.begin(id, part)?,
                (Some(Kind::GetValues), _) => self.question(part)?,
                (Some(Kind::Params), 1..) => self.params(id, part)?,
                (Some(Kind::Stdin), 1..) => self.stdin(id, part)?,
                (Some(Kind::AbortRequest), 1..) => self.abort(id, part)?,
                // Of the role of a filter, which no request has.
                (Some(Kind::Data), 1..) => None,
                // Records of an application, and those of requests with the id of none.
                (Some(_), _) => return Err(Malformed),
                (None, _) => {
                    let is_complete = matches!(part, Part::End(_));
                    is_complete.then_some(Received::Reply(Reply::UnknownType(kind)))
                }
            };
            if event.is_some() {
                return Ok(event);
            }
        }
        Ok(None)
    }

    /// Records that the request has been answered. The rest of its records is skipped.
    pub fn end(&mut self) {
        self.current = None;
    }

    /// Returns true if a part of a record or of a head has been received.
    pub fn has_begun(&self) -> bool {
        self.current.is_some() || !self.records.is_record_complete()
    }

    /// Returns the number of bytes that are kept of an incomplete request.
    pub fn kept_bytes(&self) -> usize {
        match &self.current {
            Some(Current { stage: Stage::Params(params), .. }) => params.len(),
            _ => 0,
        }
    }

    /// Collects the content of a record. Returns it once the record is complete.
    fn collect(&mut self, part: Part<'_>, max: usize) -> Result<Option<Vec<u8>>, Malformed> {
        match part {
            Part::Content(bytes) if self.content.len() + bytes.len() > max => Err(Malformed),
            Part::Content(bytes) => {
                self.content.extend_from_slice(bytes);
                Ok(None)
            }
            Part::End(_) => Ok(Some(std::mem::take(&mut self.content))),
        }
    }

    fn begin(&mut self, id: u16, part: Part<'_>) -> Result<Option<Received<'static>>, Malformed> {
        let Some(content) = self.collect(part, 8)? else { return Ok(None) };
        let [high, low, flags, _, _, _, _, _] = content[..] else { return Err(Malformed) };
        let keep = flags & KEEP_CONNECTION != 0;
        let refused = |protocol| Ok(Some(Received::Reply(Reply::Refused { id, protocol, keep })));
        match &self.current {
            Some(current) if current.id == id => return Err(Malformed),
            // The connection is needed for the request that it has.
            Some(_) => {
                let protocol = Protocol::CannotMultiplex;
                return Ok(Some(Received::Reply(Reply::Refused { id, protocol, keep: true })));
            }
            None => {}
        }
        let role = match u16::from_be_bytes([high, low]) {
            1 => Role::Responder,
            2 => Role::Authorizer,
            _ => return refused(Protocol::UnknownRole),
        };
        self.current = Some(Current { id, role, keep, stage: Stage::Params(Vec::new()) });
        Ok(None)
    }

    fn params(&mut self, id: u16, part: Part<'_>) -> Result<Option<Received<'static>>, Malformed> {
        let Some(current) = self.current.as_mut().filter(|current| current.id == id) else {
            return Ok(None);
        };
        let Stage::Params(params) = &mut current.stage else { return Err(Malformed) };
        match part {
            Part::Content(bytes) if params.len() + bytes.len() > MAX_PARAMS_BYTES => {
                return Err(Malformed);
            }
            Part::Content(bytes) => params.extend_from_slice(bytes),
            Part::End(0) => {
                let params = std::mem::take(params);
                let mut count = 0;
                for pair in Pairs::new(&params) {
                    pair?;
                    count += 1;
                }
                if count > MAX_PARAMS {
                    return Err(Malformed);
                }
                current.stage = Stage::Body;
                let &mut Current { id, role, keep, .. } = current;
                return Ok(Some(Received::Head(RequestHead { id, role, keep, params })));
            }
            Part::End(_) => {}
        }
        Ok(None)
    }

    fn stdin<'a>(&mut self, id: u16, part: Part<'a>) -> Result<Option<Received<'a>>, Malformed> {
        let Some(current) = self.current.as_mut().filter(|current| current.id == id) else {
            return Ok(None);
        };
        match (&current.stage, part) {
            (Stage::Params(_), _) => Err(Malformed),
            (Stage::Body, Part::Content(bytes)) => Ok(Some(Received::Body(bytes))),
            (Stage::Body, Part::End(0)) => {
                current.stage = Stage::Complete;
                Ok(Some(Received::BodyEnd))
            }
            (Stage::Body, Part::End(_)) | (Stage::Complete, _) => Ok(None),
        }
    }

    fn abort(&mut self, id: u16, part: Part<'_>) -> Result<Option<Received<'static>>, Malformed> {
        let Part::End(_) = part else { return Ok(None) };
        let Some(current) = self.current.as_ref().filter(|current| current.id == id) else {
            return Ok(None);
        };
        if !matches!(current.stage, Stage::Params(_)) {
            return Ok(Some(Received::Abort));
        }
        let (keep, protocol) = (current.keep, Protocol::RequestComplete);
        self.current = None;
        Ok(Some(Received::Reply(Reply::Refused { id, protocol, keep })))
    }

    fn question(&mut self, part: Part<'_>) -> Result<Option<Received<'static>>, Malformed> {
        let Some(content) = self.collect(part, MAX_QUESTION_BYTES)? else { return Ok(None) };
        let mut known = [false; VALUES.len()];
        for pair in Pairs::new(&content) {
            let (name, _) = pair?;
            if let Some(place) = VALUES.iter().position(|(known, _)| *known == name) {
                known[place] = true;
            }
        }
        let mut values = Vec::new();
        for ((name, value), _) in VALUES.iter().zip(known).filter(|(_, is_asked)| *is_asked) {
            put_pair(name, value, &mut values);
        }
        Ok(Some(Received::Reply(Reply::Values(values))))
    }
}

#[cfg(test)]
mod tests;
