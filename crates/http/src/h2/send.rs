//! Sending a response at the pace of the flow-control windows, with at most one piece of it in
//! memory.

use std::fs::File;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, SendStream};
use http::header::{CONNECTION, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING, UPGRADE};
use http::{Response as Head, StatusCode};
use tokio::task::coop::consume_budget;

use super::settings::SEND_BUFFER_SIZE;
use super::shared::Shared;
use super::turns::Turn;
use crate::body::{Body, BodyStream, Piece, SendError, file};
use crate::date;
use crate::limits::Limits;
use crate::memory::{Charge, FREE_BYTES, RESPONSES};
use crate::message::{ConnectionFields, FieldBlock, Request, Response, Trailer};
use crate::spool::unread_file;
use crate::timer::{ProgressDeadline, Throughput, Timer};

/// Sends a response, and its body when `turn` allows; without a turn there is no body. Returns the
/// number of bytes of the body sent, and the result. The output that the client does not read
/// counts as memory of the request's owner, if there is one.
pub(super) async fn send(
    mut respond: SendResponse<Bytes>,
    request: Option<&Request>,
    response: &mut Response,
    added: &ConnectionFields<'_>,
    turn: Option<Turn>,
    limits: &Rc<Limits>,
    shared: &Rc<Shared>,
) -> (u64, Result<(), SendError>) {
    if response.is_unsent() {
        respond.send_reset(Reason::ENHANCE_YOUR_CALM);
        return (0, Err(SendError::ClientGone));
    }
    let has_room = poll_fn(|cx| match shared.output.poll_room(request, cx) {
        Poll::Ready(()) => Poll::Ready(true),
        Poll::Pending => respond.poll_reset(cx).map(|_| false),
    });
    if !has_room.await {
        return (0, Err(SendError::ClientGone));
    }
    shared.output.add_head(&response.fields);
    let head = head(response, added);
    let stream = match respond.send_response(head, turn.is_none()) {
        Ok(stream) => stream,
        Err(_) => return (0, Err(SendError::ClientGone)),
    };
    let Some(turn) = turn else { return (0, Ok(())) };
    let mut sender = Sender {
        stream,
        turn,
        limits: Rc::clone(limits),
        shared: Rc::clone(shared),
        timer: Timer::default(),
        rate: Throughput::default(),
        deadline: ProgressDeadline::default(),
        left: added.length,
        sent: 0,
        trailer: response.trailer().cloned(),
        request,
        charge: None,
        is_counted: response.extras.as_ref().is_some_and(|extras| extras.is_counted),
    };
    let result = sender.body(&mut response.body).await;
    if result.is_err() {
        // The reset tells the client that the part that was sent is not the whole.
        sender.stream.send_reset(Reason::INTERNAL_ERROR);
    }
    (sender.sent, result)
}

/// Builds the head of a response.
pub(super) fn head(response: &Response, added: &ConnectionFields<'_>) -> Head<()> {
    let mut head = Head::new(());
    // HTTP/2 has no status of less than three digits, and 1xx ends no request.
    let status = StatusCode::from_u16(response.status).ok().filter(|s| !s.is_informational());
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

/// Appends fields, except those that belong to a connection of HTTP/1 (RFC 9113, 8.2.2).
pub(super) fn put_fields(headers: &mut HeaderMap, fields: &FieldBlock) {
    for (name, value) in fields.iter() {
        put(headers, name, value);
    }
}

/// Appends a field, unless HTTP/2 cannot represent it.
fn put(headers: &mut HeaderMap, name: &[u8], value: &[u8]) {
    let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value))
    else {
        return;
    };
    let of_connection = name == CONNECTION
        || name == TRANSFER_ENCODING
        || name == UPGRADE
        || matches!(name.as_str(), "keep-alive" | "proxy-connection");
    if !of_connection {
        let _ = headers.try_append(name, value); // fails beyond 24,000 fields
    }
}

/// Sender of one body.
struct Sender<'r> {
    stream: SendStream<Bytes>,
    turn: Turn,
    limits: Rc<Limits>,
    shared: Rc<Shared>,
    timer: Timer,
    rate: Throughput,
    deadline: ProgressDeadline,
    /// Number of announced bytes that were not sent; `None` if the length was not announced.
    left: Option<u64>,
    /// Number of bytes sent.
    sent: u64,
    /// Trailer after the body.
    trailer: Option<Trailer>,
    request: Option<&'r Request>,
    /// The memory of the piece that is being sent, while the client does not take it.
    charge: Option<Charge>,
    /// The body is counted elsewhere.
    is_counted: bool,
}

impl Sender<'_> {
    async fn body(&mut self, body: &mut Body) -> Result<(), SendError> {
        match body {
            Body::Empty => {}
            Body::Bytes(bytes) => self.bytes(std::mem::take(bytes)).await?,
            Body::Pieces(pieces) => {
                self.turn.begin();
                for piece in std::mem::take(pieces) {
                    match piece {
                        Piece::Bytes(bytes) => self.bytes(bytes).await?,
                        Piece::File { file, offset, len } => self.file(&file, offset, len).await?,
                    }
                }
            }
            Body::Stream(stream) => {
                self.is_counted |= stream.is_counted();
                while self.left != Some(0)
                    && let Some(bytes) = poll_fn(|cx| self.poll_stream(&mut **stream, cx)).await?
                {
                    self.shared.budget.earn_piece(0);
                    self.bytes(bytes).await?;
                    self.turn.pause();
                }
            }
        }
        match self.left {
            Some(0) => Ok(()), // the last piece has ended it
            Some(_) => Err(SendError::BodyFailed),
            None => self.end(),
        }
    }

    /// Sends a range of a file. A part is read only when there is room to send it.
    async fn file(&mut self, file: &Arc<File>, mut offset: u64, len: u64) -> Result<(), SendError> {
        let end = offset.checked_add(len).ok_or(SendError::BodyFailed)?;
        while offset < end {
            let want = end.saturating_sub(offset).min(SEND_BUFFER_SIZE as u64) as usize;
            let room = poll_fn(|cx| self.poll_room(want, cx)).await?;
            self.turn.set_stuck(true); // in case the disk is slow
            let bytes = file::read(file, offset, room.min(want)).await?;
            offset += bytes.len() as u64;
            self.bytes(bytes).await?;
        }
        Ok(())
    }

    /// Ends the stream after a body whose length was not announced.
    fn end(&mut self) -> Result<(), SendError> {
        let lines = self.trailer.as_ref().map(Trailer::lines).unwrap_or_default();
        let ended = if lines.is_empty() {
            self.stream.send_data(Bytes::new(), true)
        } else {
            let mut fields = HeaderMap::new();
            put_fields(&mut fields, &FieldBlock::from_lines(lines));
            self.stream.send_trailers(fields)
        };
        ended.map_err(|_| SendError::ClientGone)
    }

    /// Sends bytes as the windows have room. The stream ends with the last byte of the announced
    /// length.
    async fn bytes(&mut self, mut bytes: Bytes) -> Result<(), SendError> {
        if let Some(left) = self.left {
            // Bytes after the announced length are not part of the response.
            bytes.truncate(usize::try_from(left).unwrap_or(usize::MAX));
        }
        // A piece that the client does not take would keep all that it is a part of.
        let mut whole = bytes.len();
        let is_copied = whole > 2 * SEND_BUFFER_SIZE;
        self.turn.begin();
        while !bytes.is_empty() {
            let want = bytes.len().min(SEND_BUFFER_SIZE);
            let room = poll_fn(|cx| match self.poll_room(want, cx) {
                Poll::Ready(room) => Poll::Ready(room.map(Some)),
                Poll::Pending if self.hold(&mut bytes, &mut whole) => Poll::Pending,
                Poll::Pending => Poll::Ready(Ok(None)),
            });
            let Some(room) = room.await? else { return Box::pin(self.spill(bytes)).await };
            let piece = bytes.split_to(room.min(bytes.len()));
            let count = piece.len();
            self.left = self.left.map(|left| left - count as u64);
            let ends = self.left == Some(0);
            let piece = if is_copied { Bytes::copy_from_slice(&piece) } else { piece };
            self.stream.send_data(piece, ends).map_err(|_| SendError::ClientGone)?;
            self.shared.output.add(count);
            self.sent += count as u64;
            self.shared.budget.earn_bytes(count);
            self.deadline.progress(&mut self.rate, count);
            if !bytes.is_empty() {
                consume_budget().await; // other streams and connections have a turn
            }
        }
        self.charge = None;
        Ok(())
    }

    /// Counts the rest of a piece of `whole` bytes, which the client does not take at the moment.
    /// Returns false if it may not stay in memory.
    fn hold(&mut self, rest: &mut Bytes, whole: &mut usize) -> bool {
        let Some(request) = self.request.filter(|_| !self.is_counted && rest.len() > FREE_BYTES)
        else {
            return true;
        };
        let charge = self.charge.get_or_insert_with(|| Charge::new(&RESPONSES, request.owner()));
        // The rest of a large piece would keep all of it.
        if rest.len() <= *whole / 2 && rest.is_unique() {
            (*rest, *whole) = (Bytes::copy_from_slice(rest), rest.len());
        }
        charge.hold_with(0, Some(rest), *whole)
    }

    /// Sends the rest of a piece from a file.
    async fn spill(&mut self, rest: Bytes) -> Result<(), SendError> {
        self.charge = None;
        let Some(request) = self.request else { return Err(SendError::ClientGone) };
        let (file, _space) = unread_file(&self.limits.temporary, request.owner(), &rest)?;
        let length = rest.len() as u64;
        drop(rest);
        self.file(&Arc::new(file), 0, length).await
    }

    /// Waits for room in the flow-control windows and in the buffer, within the limits for sending.
    /// Returns the number of bytes.
    fn poll_room(&mut self, want: usize, cx: &mut Context<'_>) -> Poll<Result<usize, SendError>> {
        if self.turn.poll(cx).is_pending() {
            return self.stream.poll_reset(cx).map(|_| Err(SendError::ClientGone));
        }
        let can_be_kept = self.shared.output.poll_room(self.request, cx).is_ready();
        if can_be_kept {
            self.stream.reserve_capacity(want);
            loop {
                let room = self.stream.capacity();
                if room > 0 {
                    self.turn.set_stuck(false);
                    return Poll::Ready(Ok(room));
                }
                match self.stream.poll_capacity(cx) {
                    Poll::Ready(Some(Ok(_))) => {}
                    Poll::Ready(_) => return Poll::Ready(Err(SendError::ClientGone)),
                    Poll::Pending => break,
                }
            }
        } else if self.stream.poll_reset(cx).is_ready() {
            return Poll::Ready(Err(SendError::ClientGone));
        }
        self.turn.set_stuck(can_be_kept);
        let (rate, limits) = (self.rate, &self.limits);
        let timeout = || rate.remaining(limits.send_timeout, limits.min_rate, limits.grace);
        let deadline = self.deadline.get(timeout);
        ready!(self.timer.poll(cx, deadline));
        Poll::Ready(Err(SendError::ClientGone))
    }

    /// Returns the next bytes of a stream. While there are none, watches the client, so that a
    /// script learns before its next output that the client has disconnected.
    fn poll_stream(
        &mut self,
        stream: &mut dyn BodyStream,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, SendError>> {
        match stream.poll_next(cx) {
            Poll::Ready(Some(Ok(bytes))) => Poll::Ready(Ok(Some(bytes))),
            Poll::Ready(Some(Err(_))) => Poll::Ready(Err(SendError::BodyFailed)),
            Poll::Ready(None) => Poll::Ready(Ok(None)),
            Poll::Pending => self.stream.poll_reset(cx).map(|_| Err(SendError::ClientGone)),
        }
    }
}
