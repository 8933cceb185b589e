//! The client's direction of a stream.

use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::RecvStream;
use http::HeaderMap;

use super::blocks::{Flaws, MalformedRequest};
use crate::body::BodyError;
use crate::streams::Incoming;

/// The body of a request. When it is dropped, `h2` refuses the bytes that still arrive.
pub(super) struct RequestBody {
    pub stream: RecvStream,
    /// Number of the stream.
    number: u32,
    flaws: Rc<Flaws>,
    trailer: Bytes,
}

impl RequestBody {
    pub fn new(stream: RecvStream, number: u32, flaws: &Rc<Flaws>) -> Self {
        RequestBody { stream, number, flaws: Rc::clone(flaws), trailer: Bytes::new() }
    }
}

impl Incoming for RequestBody {
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>> {
        if let Some(data) = ready!(self.stream.poll_data(cx)) {
            let bytes = data.map_err(|error| {
                if error.is_library() { BodyError::Malformed } else { BodyError::Closed }
            })?;
            // Makes room in the flow-control window; fails only if the connection has ended.
            let _ = self.stream.flow_control().release_capacity(bytes.len());
            return Poll::Ready(Ok(Some(bytes)));
        }
        let fields = ready!(self.stream.poll_trailers(cx)).map_err(|_| BodyError::Closed)?;
        if self.is_malformed() {
            return Poll::Ready(Err(BodyError::Malformed));
        }
        self.trailer = lines(fields.unwrap_or_default());
        Poll::Ready(Ok(None))
    }

    fn trailer(&self) -> Bytes {
        self.trailer.clone()
    }

    fn is_malformed(&self) -> bool {
        self.flaws.has(self.number, MalformedRequest::PseudoInTrailer)
    }
}

/// Formats fields as `name: value` lines.
fn lines(fields: HeaderMap) -> Bytes {
    let mut lines = Vec::new();
    for (name, value) in &fields {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            lines.extend_from_slice(part);
        }
    }
    lines.into()
}
