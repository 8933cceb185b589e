//! Framing of a request's body for an HTTP server: by length or in chunks (RFC 9112, 6).

use std::borrow::Cow;

use crate::proxy::changes::HeadChanges;
use crate::proxy::request;
use crate::transfer::upload::BodyFraming;

/// Framing of a body.
#[derive(Debug)]
pub enum Framing {
    /// `Content-Length` is in the head.
    Length,
    /// Chunks, followed by a trailer.
    Chunks(TrailerSource),
}

/// Field lines after a chunked body.
#[derive(Debug)]
pub enum TrailerSource {
    /// Header lines; may be empty.
    Lines(Vec<u8>),
    /// The trailer of the client's body, with these changes.
    Client(HeadChanges),
}

impl TrailerSource {
    /// Returns the lines for a server. `lines` are those of the client's body.
    pub fn lines(&self, lines: &[u8]) -> Cow<'_, [u8]> {
        match self {
            TrailerSource::Lines(lines) => Cow::Borrowed(lines),
            TrailerSource::Client(changes) => Cow::Owned(request::trailer(lines, changes)),
        }
    }
}

impl BodyFraming for Framing {
    const MAX_PIECE: usize = usize::MAX;

    fn frame(&self, len: usize, trailer: Option<&[u8]>, before: &mut Vec<u8>, after: &mut Vec<u8>) {
        let Framing::Chunks(source) = self else { return };
        if len > 0 {
            before.extend_from_slice(format!("{len:x}\r\n").as_bytes());
            after.extend_from_slice(b"\r\n");
        }
        if let Some(lines) = trailer {
            after.extend_from_slice(b"0\r\n");
            after.extend_from_slice(&source.lines(lines));
            after.extend_from_slice(b"\r\n");
        }
    }
}
