//! The server's direction of a request stream.
//!
//! At most one piece of a response waits here; the transport keeps what the client has not
//! acknowledged, up to its own limit.

use std::collections::VecDeque;
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;

use super::error::Code;
use super::frames::{kind, put_head};
use super::qpack;
use super::transport::{SendStream, Transport};
use crate::date;
use crate::message::{ConnectionFields, FieldBlock, Request, Response};
use crate::streams::{Gone, Outgoing, Priority, Reset, Room, is_of_connection, shown_status};

/// Writer of a response.
pub(super) struct ResponseStream<T: Transport> {
    stream: T::Sender,
    /// Frames that the transport has not taken.
    waiting: VecDeque<Bytes>,
    /// Heads of frames and sections behind those.
    tail: Vec<u8>,
    /// The stream ends with the last frame.
    ends: bool,
    is_finished: bool,
}

impl<T: Transport> ResponseStream<T> {
    pub fn new(stream: T::Sender) -> Self {
        let (waiting, tail) = (VecDeque::new(), Vec::new());
        ResponseStream { stream, waiting, tail, ends: false, is_finished: false }
    }

    /// Sets the priority among the streams of the connection.
    pub fn set_priority(&mut self, priority: Priority) {
        self.stream.set_priority(-i32::from(priority.urgency()));
    }

    /// Resets the stream with a code.
    pub fn reset_with(&mut self, code: Code) {
        if !self.is_finished {
            self.stream.reset(code.number());
        }
        self.is_finished = true;
        self.waiting.clear();
        self.tail.clear();
    }

    /// Passes the frames to the transport. Ready when it has taken all.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        if !self.tail.is_empty() {
            self.waiting.push_back(std::mem::take(&mut self.tail).into());
        }
        while let Some(bytes) = self.waiting.front_mut() {
            while !bytes.is_empty() {
                ready!(self.stream.poll_write(bytes, cx)).map_err(|_| Gone)?;
            }
            self.waiting.pop_front();
        }
        if self.ends && !std::mem::replace(&mut self.is_finished, true) {
            self.stream.finish();
        }
        Poll::Ready(Ok(()))
    }

    fn put_section(&mut self, section: &[u8]) {
        put_head(kind::HEADERS, section.len(), &mut self.tail);
        self.tail.extend_from_slice(section);
    }
}

impl<T: Transport> Outgoing for ResponseStream<T> {
    fn id(&self) -> u64 {
        self.stream.id()
    }

    fn interim(&mut self, status: u16, fields: &FieldBlock) {
        let mut section = Vec::with_capacity(128);
        qpack::begin(&mut section);
        qpack::put_status(status, &mut section);
        put_fields(fields, &mut section);
        self.put_section(&section);
        // What the transport does not take now goes with the next frame.
        let _ = self.poll_write(&mut Context::from_waker(Waker::noop()));
    }

    fn poll_interim(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        self.poll_write(cx)
    }

    fn poll_head_room(
        &mut self,
        _: Option<&Request>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Gone>> {
        self.poll_write(cx)
    }

    fn head(
        &mut self,
        response: &Response,
        added: &ConnectionFields<'_>,
        ends: bool,
    ) -> Result<(), Gone> {
        let mut section = Vec::with_capacity(256);
        qpack::begin(&mut section);
        qpack::put_status(shown_status(response.status), &mut section);
        if !added.server.is_empty() {
            qpack::put_field(b"server", added.server, &mut section);
        }
        if added.date {
            qpack::put_field(b"date", &date::value(), &mut section);
        }
        put_fields(&response.fields, &mut section);
        if let Some(length) = added.length {
            qpack::put_field(b"content-length", length.to_string().as_bytes(), &mut section);
        }
        self.put_section(&section);
        self.ends = ends;
        Ok(())
    }

    fn poll_room(&mut self, want: usize, _: Option<&Request>, cx: &mut Context<'_>) -> Room {
        // The head of a response goes with the first bytes of its body.
        if self.waiting.is_empty() {
            return Room::Bytes(want);
        }
        match self.poll_write(cx) {
            Poll::Ready(Ok(())) => Room::Bytes(want),
            Poll::Ready(Err(Gone)) => Room::Gone,
            Poll::Pending => Room::Stuck,
        }
    }

    fn data(&mut self, bytes: Bytes, ends: bool) -> Result<(), Gone> {
        put_head(kind::DATA, bytes.len(), &mut self.tail);
        self.waiting.push_back(std::mem::take(&mut self.tail).into());
        self.waiting.push_back(bytes);
        self.ends = ends;
        Ok(())
    }

    fn end(&mut self, trailer: &[u8]) -> Result<(), Gone> {
        if !trailer.is_empty() {
            let mut section = Vec::with_capacity(128);
            qpack::begin(&mut section);
            put_fields(&FieldBlock::from_lines(Bytes::copy_from_slice(trailer)), &mut section);
            self.put_section(&section);
        }
        self.ends = true;
        Ok(())
    }

    fn poll_sent(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        self.poll_write(cx)
    }

    fn poll_reset(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.stream.poll_stopped(cx)
    }

    fn reset(&mut self, reason: Reset) {
        self.reset_with(match reason {
            Reset::Malformed => Code::MessageError,
            Reset::Refused => Code::RequestRejected,
            Reset::Excessive => Code::ExcessiveLoad,
            Reset::Failed => Code::InternalError,
        });
    }
}

/// Appends fields, except those that belong to a connection of HTTP/1 and those that HTTP/3 cannot
/// represent.
fn put_fields(fields: &FieldBlock, section: &mut Vec<u8>) {
    for (name, value) in fields.iter() {
        if is_field(name, value) && !is_of_connection(name) {
            qpack::put_field(name, value, section);
        }
    }
}

/// Returns true for a field with a valid name, and no control characters in its value (RFC 9110, 5).
fn is_field(name: &[u8], value: &[u8]) -> bool {
    howdah_text::token::is_token(name)
        && value.iter().all(|byte| (*byte >= b' ' && *byte != 0x7f) || *byte == b'\t')
}
