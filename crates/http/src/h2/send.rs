//! Sending a response: as fast as the client's windows allow, never more of it in memory than a
//! piece.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, SendStream};
use http::header::{CONNECTION, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING, UPGRADE};
use http::{Response as Head, StatusCode};
use tokio::task::coop::consume_budget;

use super::SEND_BUFFER;
use super::budget::Budget;
use super::turns::Turn;
use crate::body::{Body, BodyStream, Piece};
use crate::date;
use crate::h1::file;
use crate::h1::send::Cut;
use crate::limits::Limits;
use crate::message::{Added, FieldBlock, Response, Trailer};
use crate::timer::{Pace, Timer, Wait};

/// Sends a response, its body when it has its `turn`; without one it has none. The number of bytes
/// of the body, and whether it is whole.
pub(super) async fn send(
    mut respond: SendResponse<Bytes>,
    response: &mut Response,
    added: &Added<'_>,
    turn: Option<Turn>,
    limits: &Rc<Limits>,
    budget: &Rc<Budget>,
) -> (u64, Result<(), Cut>) {
    let head = head(response, added);
    let stream = match respond.send_response(head, turn.is_none()) {
        Ok(stream) => stream,
        Err(_) => return (0, Err(Cut::Client)),
    };
    let Some(turn) = turn else { return (0, Ok(())) };
    let (limits, budget) = (Rc::clone(limits), Rc::clone(budget));
    let (timer, pace, wait) = Default::default();
    let (left, trailer) = (added.length, response.trailer().cloned());
    let mut sender =
        Sender { stream, turn, limits, budget, timer, pace, wait, left, sent: 0, trailer };
    let result = sender.body(&mut response.body).await;
    if result.is_err() {
        // The client must not take a part for the whole.
        sender.stream.send_reset(Reason::INTERNAL_ERROR);
    }
    (sender.sent, result)
}

/// The head of a response.
pub(super) fn head(response: &Response, added: &Added<'_>) -> Head<()> {
    let mut head = Head::new(());
    // HTTP/2 has no way to say a status of less than three digits, and 1xx ends no request.
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

/// Adds fields, but for those of a connection of HTTP/1 (RFC 9113, 8.2.2).
pub(super) fn put_fields(headers: &mut HeaderMap, fields: &FieldBlock) {
    for (name, value) in fields.iter() {
        put(headers, name, value);
    }
}

/// A name or a value that HTTP/2 cannot carry is left out.
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
        let _ = headers.try_append(name, value); // beyond 24,000 fields there are no more
    }
}

struct Sender {
    stream: SendStream<Bytes>,
    turn: Turn,
    limits: Rc<Limits>,
    budget: Rc<Budget>,
    timer: Timer,
    pace: Pace,
    wait: Wait,
    /// Bytes that were announced and not sent; `None` if only the end will tell.
    left: Option<u64>,
    sent: u64,
    /// What follows the body.
    trailer: Option<Trailer>,
}

impl Sender {
    async fn body(&mut self, body: &mut Body) -> Result<(), Cut> {
        match body {
            Body::Empty => {}
            Body::Bytes(bytes) => self.bytes(std::mem::take(bytes)).await?,
            Body::Pieces(pieces) => {
                self.turn.begin();
                for piece in std::mem::take(pieces) {
                    match piece {
                        Piece::Bytes(bytes) => self.bytes(bytes).await?,
                        Piece::File { file, mut offset, len } => {
                            let end = offset.checked_add(len).ok_or(Cut::Body)?;
                            while offset < end {
                                // A stream that cannot send holds nothing of the file.
                                let want = end.saturating_sub(offset).min(SEND_BUFFER as u64);
                                let room = poll_fn(|cx| self.poll_room(want as usize, cx)).await?;
                                let most = room.min(want as usize);
                                self.turn.stuck(true); // should the disk be slow
                                let bytes = file::read(&file, offset, most).await?;
                                offset += bytes.len() as u64;
                                self.bytes(bytes).await?;
                            }
                        }
                    }
                }
            }
            Body::Stream(stream) => {
                while self.left != Some(0)
                    && let Some(bytes) = poll_fn(|cx| self.poll_stream(&mut **stream, cx)).await?
                {
                    self.budget.earn_piece(0);
                    self.bytes(bytes).await?;
                    self.turn.pause();
                }
            }
        }
        match self.left {
            Some(0) => Ok(()), // the last piece has ended it
            Some(_) => Err(Cut::Body),
            None => self.end(),
        }
    }

    /// Ends the stream behind a body whose length was not announced.
    fn end(&mut self) -> Result<(), Cut> {
        let lines = self.trailer.as_ref().map(Trailer::lines).unwrap_or_default();
        let ended = match lines.is_empty() {
            true => self.stream.send_data(Bytes::new(), true),
            false => {
                let mut fields = HeaderMap::new();
                put_fields(&mut fields, &FieldBlock::from_lines(lines));
                self.stream.send_trailers(fields)
            }
        };
        ended.map_err(|_| Cut::Client)
    }

    /// Sends bytes as the windows have room; with the last that were announced the stream ends.
    async fn bytes(&mut self, mut bytes: Bytes) -> Result<(), Cut> {
        if let Some(left) = self.left {
            // More than was announced is no part of the response.
            bytes.truncate(usize::try_from(left).unwrap_or(usize::MAX));
        }
        self.turn.begin();
        while !bytes.is_empty() {
            let want = bytes.len().min(SEND_BUFFER);
            let room = poll_fn(|cx| self.poll_room(want, cx)).await?;
            let piece = bytes.split_to(room.min(bytes.len()));
            let count = piece.len();
            self.left = self.left.map(|left| left - count as u64);
            let ends = self.left == Some(0);
            self.stream.send_data(piece, ends).map_err(|_| Cut::Client)?;
            self.sent += count as u64;
            self.budget.earn_bytes(count);
            self.wait.over(&mut self.pace, count);
            if !bytes.is_empty() {
                consume_budget().await; // other streams and connections have their turn
            }
        }
        Ok(())
    }

    /// Waits for room in the client's windows and in the buffer, within the limits for sending.
    fn poll_room(&mut self, want: usize, cx: &mut Context<'_>) -> Poll<Result<usize, Cut>> {
        if self.turn.poll(cx).is_pending() {
            return self.stream.poll_reset(cx).map(|_| Err(Cut::Client));
        }
        self.stream.reserve_capacity(want);
        loop {
            let room = self.stream.capacity();
            if room > 0 {
                self.turn.stuck(false);
                return Poll::Ready(Ok(room));
            }
            match self.stream.poll_capacity(cx) {
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(_) => return Poll::Ready(Err(Cut::Client)),
                Poll::Pending => break,
            }
        }
        self.turn.stuck(true);
        let (pace, limits) = (self.pace, &self.limits);
        let patience = || pace.patience(limits.send_timeout, limits.min_rate, limits.grace);
        let deadline = self.wait.deadline(patience);
        ready!(self.timer.poll(cx, deadline));
        Poll::Ready(Err(Cut::Client))
    }

    /// The next bytes of a stream. While there are none, the client is watched: a script that
    /// nobody listens to should learn so before its next output.
    fn poll_stream(
        &mut self,
        stream: &mut dyn BodyStream,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, Cut>> {
        match stream.poll_next(cx) {
            Poll::Ready(Some(Ok(bytes))) => Poll::Ready(Ok(Some(bytes))),
            Poll::Ready(Some(Err(_))) => Poll::Ready(Err(Cut::Body)),
            Poll::Ready(None) => Poll::Ready(Ok(None)),
            Poll::Pending => self.stream.poll_reset(cx).map(|_| Err(Cut::Client)),
        }
    }
}
