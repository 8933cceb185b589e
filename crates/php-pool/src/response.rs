//! Builds the response for the checked head of a script, and streams its body.

use std::io;
use std::task::{Context, Poll};

use bytes::Bytes;
use howdah_cgi::head::CheckedHead;
use howdah_http::body::{Body, BodyStream};
use howdah_http::message::{Response, ResponseExtras};

use crate::pending::Failure;
use crate::thread::RequestHandle;

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
