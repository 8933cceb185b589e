//! The server's direction of a stream. The task of the connection sends the output.

use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, SendStream};
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Response as Head, StatusCode};

use super::output::Output;
use crate::date;
use crate::message::{ConnectionFields, FieldBlock, Request, Response};
use crate::streams::{Gone, Outgoing, Reset, Room, is_of_connection, shown_status};

/// The response of a stream.
pub(super) struct ResponseStream {
    pub respond: SendResponse<Bytes>,
    /// Direction of the body, after the head.
    body: Option<SendStream<Bytes>>,
    output: Rc<Output>,
}

impl ResponseStream {
    pub fn new(respond: SendResponse<Bytes>, output: &Rc<Output>) -> Self {
        ResponseStream { respond, body: None, output: Rc::clone(output) }
    }

    fn with_body(
        &mut self,
        act: impl FnOnce(&mut SendStream<Bytes>) -> Result<(), h2::Error>,
    ) -> Result<(), Gone> {
        act(self.body.as_mut().ok_or(Gone)?).map_err(|_| Gone)
    }
}

impl Outgoing for ResponseStream {
    fn id(&self) -> u64 {
        u64::from(u32::from(self.respond.stream_id()))
    }

    fn interim(&mut self, status: u16, fields: &FieldBlock) {
        let mut response = Head::new(());
        *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::CONTINUE);
        put_fields(response.headers_mut(), fields);
        let _ = self.respond.send_informational(response);
        self.output.add_head(fields);
    }

    fn poll_interim(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        self.poll_head_room(None, cx)
    }

    fn poll_head_room(
        &mut self,
        request: Option<&Request>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Gone>> {
        match self.output.poll_room(request, cx) {
            Poll::Ready(()) => Poll::Ready(Ok(())),
            Poll::Pending => self.poll_reset(cx).map(|()| Err(Gone)),
        }
    }

    fn head(
        &mut self,
        response: &Response,
        added: &ConnectionFields<'_>,
        ends: bool,
    ) -> Result<(), Gone> {
        self.output.add_head(&response.fields);
        let sent = self.respond.send_response(head(response, added), ends);
        self.body = Some(sent.map_err(|_| Gone)?);
        Ok(())
    }

    fn poll_room(&mut self, want: usize, request: Option<&Request>, cx: &mut Context<'_>) -> Room {
        let Some(body) = &mut self.body else { return Room::Gone };
        if self.output.poll_room(request, cx).is_pending() {
            return if self.poll_reset(cx).is_ready() { Room::Gone } else { Room::Blocked };
        }
        body.reserve_capacity(want);
        loop {
            let room = body.capacity();
            if room > 0 {
                return Room::Bytes(room);
            }
            match body.poll_capacity(cx) {
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(_) => return Room::Gone,
                Poll::Pending => return Room::Stuck,
            }
        }
    }

    fn data(&mut self, bytes: Bytes, ends: bool) -> Result<(), Gone> {
        self.output.add(bytes.len());
        self.with_body(|body| body.send_data(bytes, ends))
    }

    fn end(&mut self, trailer: &[u8]) -> Result<(), Gone> {
        if trailer.is_empty() {
            return self.with_body(|body| body.send_data(Bytes::new(), true));
        }
        let mut fields = HeaderMap::new();
        put_fields(&mut fields, &FieldBlock::from_lines(Bytes::copy_from_slice(trailer)));
        self.with_body(|body| body.send_trailers(fields))
    }

    fn poll_sent(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        Poll::Ready(Ok(()))
    }

    fn poll_reset(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.body {
            Some(body) => body.poll_reset(cx).map(|_| ()),
            None => self.respond.poll_reset(cx).map(|_| ()),
        }
    }

    fn reset(&mut self, reason: Reset) {
        let reason = match reason {
            Reset::Malformed => Reason::PROTOCOL_ERROR,
            Reset::Refused => Reason::REFUSED_STREAM,
            Reset::Excessive => Reason::ENHANCE_YOUR_CALM,
            Reset::Failed => Reason::INTERNAL_ERROR,
        };
        match &mut self.body {
            Some(body) => body.send_reset(reason),
            None => self.respond.send_reset(reason),
        }
    }
}

/// Builds the head of a response.
pub(super) fn head(response: &Response, added: &ConnectionFields<'_>) -> Head<()> {
    let mut head = Head::new(());
    let status = StatusCode::from_u16(shown_status(response.status));
    *head.status_mut() = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = head.headers_mut();
    if !added.server.is_empty() {
        put(headers, b"server", added.server);
    }
    if added.date {
        put(headers, b"date", &date::value());
    }
    put_fields(headers, &response.fields);
    if let Some(length) = added.length {
        put(headers, b"content-length", length.to_string().as_bytes());
    }
    head
}

/// Appends fields, except those that belong to a connection of HTTP/1.
fn put_fields(headers: &mut HeaderMap, fields: &FieldBlock) {
    for (name, value) in fields.iter() {
        put(headers, name, value);
    }
}

/// Appends a field, unless HTTP/2 cannot represent it.
fn put(headers: &mut HeaderMap, name: &[u8], value: &[u8]) {
    if is_of_connection(name) {
        return;
    }
    if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
        let _ = headers.try_append(name, value); // fails beyond 24,000 fields
    }
}
