//! Converts the header lines of a script into a response, and streams its body.
//!
//! Header lines come from a worker and are untrusted: a line that is not a valid field is dropped,
//! and so are fields that frame the message or belong to the connection.

use std::io;
use std::task::{Context, Poll};

use bytes::Bytes;
use howdah_http::body::{Body, BodyStream};
use howdah_http::framing::content_length;
use howdah_http::message::{FieldBlock, Response, ResponseExtras};
use howdah_text::token::is_token;
use howdah_wire::frame::Head;

use super::pending::{Failure, ScriptHead};
use super::thread::RequestHandle;

/// Fields of scripts that are dropped: hop-by-hop fields (RFC 9110, 7.6.1), those that the
/// connection writes itself, and CGI's `Status`.
const DROPPED_FIELDS: [&str; 10] = [
    "connection",
    "content-length",
    "date",
    "keep-alive",
    "proxy-connection",
    "server",
    "status",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// Maximum number of variables that are taken from a head. The worker's shim sends at most 4,096 bytes.
const MAX_VARIABLES: usize = 512;

/// Checked head of a script's response.
#[derive(Debug, PartialEq, Eq)]
pub struct CheckedHead {
    /// Status code, 200 to 599.
    pub status: u16,
    /// Reason phrase, if it is not the registered one.
    pub reason: Option<Bytes>,
    /// Fields.
    pub fields: FieldBlock,
    /// `Content-Length`.
    pub length: Option<u64>,
    /// Variables that the script has set for the server.
    pub variables: Vec<(Bytes, Bytes)>,
}

/// Checks a head. Error: the problem, for the log.
pub fn check(head: &ScriptHead) -> Result<CheckedHead, &'static str> {
    // As nginx, which also passes on statuses without a meaning in RFC 9110.
    if !(200..=999).contains(&head.status) {
        return Err("the script set a status that is not within 200 to 999");
    }
    let (fields, length) = check_lines(&head.lines);
    let reason = (!head.reason.is_empty()
        && head.reason.iter().all(|b| matches!(b, b'\t' | b' '..=b'~' | 0x80..)))
    .then(|| head.reason.clone());
    let variables = { head.lines.iter() }
        .filter_map(|line| Head::variable(line))
        .take(MAX_VARIABLES)
        .map(|(name, value)| (Bytes::copy_from_slice(name), Bytes::copy_from_slice(value)))
        .collect();
    Ok(CheckedHead { status: head.status, reason, fields, length, variables })
}

/// Returns the fields of an interim response.
pub fn interim_fields(head: &ScriptHead) -> FieldBlock {
    check_lines(&head.lines).0
}

/// Returns the valid fields, and the length if the script sent one. A `Content-Length` that is not
/// a number, or several different ones, are ignored, as in the peers.
fn check_lines(lines: &[Bytes]) -> (FieldBlock, Option<u64>) {
    let mut block = Vec::with_capacity(lines.iter().map(|line| line.len() + 2).sum());
    let mut lengths = Vec::new();
    for (name, value) in lines.iter().filter_map(|line| split(line)) {
        if name.eq_ignore_ascii_case(b"content-length") {
            lengths.push(content_length(value));
        }
        let nothing = value.is_empty() && name.eq_ignore_ascii_case(b"content-type");
        if nothing || DROPPED_FIELDS.iter().any(|other| name.eq_ignore_ascii_case(other.as_bytes()))
        {
            continue;
        }
        block.extend_from_slice(name);
        block.extend_from_slice(b": ");
        block.extend_from_slice(value);
        block.extend_from_slice(b"\r\n");
    }
    let length = match lengths.as_slice() {
        [first, rest @ ..] if rest.iter().all(|length| length == first) => *first,
        _ => None,
    };
    (FieldBlock::from_lines(block.into()), length)
}

/// Splits a line into name and value; `None` if it is not a field (RFC 9110, 5.1 and 5.5).
fn split(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = memchr::memchr(b':', line)?;
    let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
    let text = |b: &u8| matches!(b, b'\t' | b' '..=b'~' | 0x80..);
    (is_token(name) && value.iter().all(text)).then_some((name, value))
}

/// Builds the response for a checked head; `handle` provides the body. As under PHP-FPM and in
/// Unit, `Content-Length` is sent if the script sent it, and to HTTP/1.0 clients, which cannot read
/// chunks, if the body is complete. For a HEAD request (`to_head`) no other length is known, since
/// PHP writes no body.
pub fn respond(head: CheckedHead, handle: RequestHandle, to_head: bool) -> Response {
    let body = match (handle.whole_body(), head.length) {
        (_, length) if to_head => Body::unsent(length),
        (Some(bytes), length) if handle.is_cut() => Body::cut(bytes, length),
        (Some(bytes), None) => bytes.into(),
        (Some(bytes), Some(length)) if bytes.len() as u64 == length => bytes.into(),
        // The script sent a wrong `Content-Length`: excess bytes are cut, and after too few the
        // connection ends, so that the client notices the truncation.
        (Some(bytes), Some(length)) => {
            Body::Stream(Box::new(MislabeledBody { rest: Some(bytes), length }))
        }
        (None, length) => Body::Stream(Box::new(ScriptBody { handle, remaining: length })),
    };
    let CheckedHead { status, reason, fields, length, variables } = head;
    let extras = (!variables.is_empty())
        .then(|| Box::new(ResponseExtras { variables, ..ResponseExtras::default() }));
    Response { reason, fields, extras, chunked: length.is_none(), ..Response::new(status, body) }
}

/// A complete body with a wrong `Content-Length`.
struct MislabeledBody {
    rest: Option<Bytes>,
    length: u64,
}

impl BodyStream for MislabeledBody {
    fn poll_next(&mut self, _: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        Poll::Ready(self.rest.take().filter(|bytes| !bytes.is_empty()).map(Ok))
    }

    fn len(&self) -> Option<u64> {
        Some(self.length)
    }
}

/// Builds the response for a client that has gone. The connection waits in its body for the end of
/// the script.
pub fn for_gone_client(handle: RequestHandle, response: Response) -> Response {
    let body = Body::Stream(Box::new(ScriptBody { handle, remaining: Some(0) }));
    Response { body, ..response }
}

/// A body that the script is still writing, or that is too large for memory.
struct ScriptBody {
    handle: RequestHandle,
    remaining: Option<u64>,
}

impl BodyStream for ScriptBody {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        self.handle.poll_body(cx).map(|part| {
            let part = part?;
            if let (Ok(bytes), Some(remaining)) = (&part, &mut self.remaining) {
                *remaining = remaining.saturating_sub(bytes.len() as u64);
            }
            Some(part.map_err(|failure| match failure {
                Failure::Died(how) | Failure::Broken(how) | Failure::Stopped(how) => {
                    io::Error::other(how)
                }
                Failure::SpoolFailed => io::ErrorKind::StorageFull.into(),
                Failure::TimedOut => io::ErrorKind::TimedOut.into(),
            }))
        })
    }

    fn len(&self) -> Option<u64> {
        self.remaining
    }

    fn is_cut(&self) -> bool {
        self.handle.is_cut()
    }

    /// The spool counts them.
    fn is_counted(&self) -> bool {
        true
    }

    fn poll_finished(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.handle.poll_finished(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_no_fields_and_their_number_is_limited() {
        let lines: Vec<Bytes> = (0..600).map(|n| format!("\x01env:N{n}=a: b").into()).collect();
        let head = check(&ScriptHead { status: 200, reason: Bytes::new(), lines }).unwrap();
        assert_eq!(head.fields, FieldBlock::default());
        assert_eq!(head.variables.len(), MAX_VARIABLES);
        assert_eq!(head.variables[7], ("N7".into(), "a: b".into()));
    }

    fn checked(status: u16, lines: &[&'static str]) -> Result<CheckedHead, &'static str> {
        let lines = lines.iter().map(|line| Bytes::from_static(line.as_bytes())).collect();
        check(&ScriptHead { status, reason: Bytes::new(), lines })
    }

    #[test]
    fn fields_keep_their_order_and_case() {
        let head = checked(200, &["X-Powered-By: PHP", "set-cookie:a=b", "Set-Cookie: c=d"]);
        let expected = b"X-Powered-By: PHP\r\nset-cookie: a=b\r\nSet-Cookie: c=d\r\n";
        assert_eq!(head.unwrap().fields.as_bytes(), expected);
    }

    #[test]
    fn a_line_cannot_add_a_field_or_frame_the_message() {
        let lines = [
            "A: b\r\nEvil: 1",
            "B: c\nEvil: 1",
            "no field",
            ": empty",
            "spa ce: x",
            "Transfer-Encoding: chunked",
            "Connection: close",
            "Status: 500",
            "NUL: \0",
        ];
        assert_eq!(checked(200, &lines).unwrap().fields.as_bytes(), b"");
    }

    #[test]
    fn an_announced_length_must_be_one_number() {
        assert_eq!(checked(200, &["Content-Length: 3"]).unwrap().length, Some(3));
        for lines in [&["Content-Length: 3", "Content-Length: 4"][..], &["Content-Length: -1"]] {
            assert_eq!(checked(200, lines).unwrap().length, None);
        }
    }

    #[test]
    fn an_empty_content_type_is_none() {
        assert_eq!(checked(200, &["Content-Type:", "A:"]).unwrap().fields.as_bytes(), b"A: \r\n");
    }

    #[test]
    fn a_status_outside_of_the_final_ones_is_refused() {
        assert!(checked(100, &[]).is_err() && checked(0, &[]).is_err());
        assert!(checked(1000, &[]).is_err() && checked(999, &[]).is_ok());
    }
}
