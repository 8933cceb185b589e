//! Response heads and the framing of bodies (RFC 9112, 6).

use bytes::Bytes;
use howdah_text::hex;

use super::output::Output;
use crate::body::Body;
use crate::limits::Limits;
use crate::message::{ConnectionFields, Response, Version};
use crate::{date, reason};

/// Framing of a response body: how the client finds its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// `Content-Length`.
    Length(u64, Content),
    /// `Transfer-Encoding: chunked`.
    Chunked(Content),
    /// The connection is closed after the body.
    Close(Content),
    /// The status allows no body.
    NoBody,
}

/// Presence of the body after the head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    Sent,
    /// Response to HEAD.
    Omitted,
}

impl Framing {
    /// Chooses the framing of a response.
    pub fn of(response: &Response, is_head: bool, version: Version) -> Framing {
        let content = if is_head { Content::Omitted } else { Content::Sent };
        let is_chunked = response.chunked
            && version >= Version::Http11
            && matches!(response.body, Body::Bytes(_));
        match (response.status, response.body.len()) {
            (..200 | 204 | 304, _) => Framing::NoBody,
            (_, Some(_)) if is_chunked => Framing::Chunked(content),
            (_, Some(len)) => Framing::Length(len, content),
            (_, None) if version >= Version::Http11 => Framing::Chunked(content),
            (_, None) => Framing::Close(content),
        }
    }

    /// Returns true if the connection can be used after the response.
    pub fn keeps_alive(self) -> bool {
        !matches!(self, Framing::Close(Content::Sent))
    }

    /// Returns true if bytes of the body follow the head.
    pub fn sends_body(self) -> bool {
        match self {
            Framing::Length(len, content) => content == Content::Sent && len > 0,
            Framing::Chunked(content) | Framing::Close(content) => content == Content::Sent,
            Framing::NoBody => false,
        }
    }
}

/// Returns the fields that the connection adds to a response. As in Unit, `Connection` is added
/// only if it differs from the default of the request's version.
pub(super) fn connection_fields<'l>(
    response: &Response,
    framing: Framing,
    keep_alive: bool,
    version: Version,
    limits: &'l Limits,
) -> ConnectionFields<'l> {
    ConnectionFields {
        server: if response.adds_server { &limits.server } else { b"" },
        date: response.adds_date,
        length: match framing {
            Framing::Length(len, _) => Some(len),
            Framing::Chunked(_) | Framing::Close(_) | Framing::NoBody => None,
        },
        chunked: matches!(framing, Framing::Chunked(_)),
        connection: match (keep_alive, version) {
            (true, Version::Http10) => "keep-alive",
            (false, Version::Http11) => "close",
            (true, Version::Http11)
            | (false, Version::Http10)
            | (_, Version::Http2 | Version::Http3 | Version::Session(_)) => "",
        },
    }
}

/// Writes the head of a response.
pub(super) fn put_head(out: &mut Output, response: &Response, added: &ConnectionFields<'_>) {
    put_status(out, response.status, response.reason.as_ref());
    if !added.server.is_empty() {
        put_field(out, b"Server: ", added.server);
    }
    if added.date {
        put_field(out, &date::line(), b"");
    }
    out.put(response.fields.as_bytes());
    if let Some(length) = added.length {
        out.put(b"Content-Length: ");
        put_decimal(out, length);
        out.put(b"\r\n");
    }
    if added.chunked {
        out.put(b"Transfer-Encoding: chunked\r\n");
    }
    if !added.connection.is_empty() {
        put_field(out, b"Connection: ", added.connection.as_bytes());
    }
    out.put(b"\r\n");
}

fn put_field(out: &mut Output, name: &[u8], value: &[u8]) {
    for part in [name, value, b"\r\n"] {
        out.put(part);
    }
}

/// Writes the status line. The version is HTTP/1.1 even for requests of HTTP/1.0 (RFC 9110, 2.5).
pub(super) fn put_status(out: &mut Output, status: u16, reason: Option<&Bytes>) {
    if status == 200 && reason.is_none() {
        return out.put(b"HTTP/1.1 200 OK\r\n");
    }
    let [hundreds, tens, ones] = [status / 100 % 10, status / 10 % 10, status % 10];
    let digit = |digit: u16| b'0' + digit as u8;
    out.put(b"HTTP/1.1 ");
    out.put(&[digit(hundreds), digit(tens), digit(ones), b' ']);
    match reason {
        // Scripts set the phrase, and it must not end the line.
        Some(reason) if !reason.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)) => {
            out.put(reason);
        }
        _ => out.put(reason::phrase(status).as_bytes()),
    }
    out.put(b"\r\n");
}

/// Writes the size line of a chunk.
pub(super) fn put_chunk_size(out: &mut Output, mut size: usize) {
    let mut digits = [b'0'; 2 * size_of::<usize>()];
    let mut len = 0;
    for digit in digits.iter_mut().rev() {
        *digit = hex::lower_digits((size & 15) as u8)[1];
        size >>= 4;
        len += 1;
        if size == 0 {
            break;
        }
    }
    out.put(digits.get(digits.len() - len..).unwrap_or_default());
    out.put(b"\r\n");
}

fn put_decimal(out: &mut Output, mut number: u64) {
    let mut digits = [b'0'; 20];
    let mut len = 0;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
        len += 1;
        if number == 0 {
            break;
        }
    }
    out.put(digits.get(digits.len() - len..).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(put: impl Fn(&mut Output)) -> String {
        let mut out = Output::default();
        put(&mut out);
        String::from_utf8_lossy(out.buffered()).into_owned()
    }

    #[test]
    fn numbers_are_written_without_leading_zeros() {
        for number in [0, 7, 10, 1234567890, u64::MAX] {
            assert_eq!(written(|out| put_decimal(out, number)), number.to_string());
            let size = number as usize;
            assert_eq!(written(|out| put_chunk_size(out, size)), format!("{size:x}\r\n"));
        }
    }

    #[test]
    fn a_reason_phrase_cannot_end_its_line() {
        let own = Bytes::from_static(b"Gone fishing");
        assert_eq!(
            written(|out| put_status(out, 404, Some(&own))),
            "HTTP/1.1 404 Gone fishing\r\n"
        );
        let split = Bytes::from_static(b"Gone\r\nSet-Cookie: a=b");
        assert_eq!(written(|out| put_status(out, 404, Some(&split))), "HTTP/1.1 404 Not Found\r\n");
        assert_eq!(written(|out| put_status(out, 299, None)), "HTTP/1.1 299 \r\n");
        assert_eq!(written(|out| put_status(out, 7, None)), "HTTP/1.1 007 \r\n");
    }
}
