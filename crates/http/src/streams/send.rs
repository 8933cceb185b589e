//! Sending a response at the pace of its client, with at most one piece of it in memory.

use std::fs::File;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::task::coop::consume_budget;

use super::direction::{Gone, Outgoing, Reset, Room};
use super::shared::Shared;
use super::turns::Turn;
use crate::body::{Body, BodyStream, Piece, SendError, file};
use crate::limits::Limits;
use crate::memory::{Charge, FREE_BYTES, RESPONSES};
use crate::message::{ConnectionFields, Request, Response, Trailer};
use crate::spool::unread_file;
use crate::timer::{ProgressDeadline, Throughput, Timer};

/// Maximum number of bytes of a response that are buffered for sending.
pub(crate) const SEND_BUFFER_SIZE: usize = 32 * 1024;

/// Sends a response, and its body when `turn` allows; without a turn there is no body. Returns the
/// number of bytes of the body sent, and the result. The output that the client does not read
/// counts as memory of the request's owner, if there is one.
pub(super) async fn send<O: Outgoing>(
    mut outgoing: O,
    request: Option<&Request>,
    response: &mut Response,
    added: &ConnectionFields<'_>,
    turn: Option<Turn>,
    limits: &Rc<Limits>,
    shared: &Rc<Shared>,
) -> (u64, Result<(), SendError>) {
    if response.is_unsent() {
        outgoing.reset(Reset::Excessive);
        return (0, Err(SendError::ClientGone));
    }
    let has_room = poll_fn(|cx| match outgoing.poll_head_room(request, cx) {
        Poll::Ready(room) => Poll::Ready(room.is_ok()),
        Poll::Pending => outgoing.poll_reset(cx).map(|()| false),
    });
    if !has_room.await || outgoing.head(response, added, turn.is_none()).is_err() {
        return (0, Err(SendError::ClientGone));
    }
    let mut sender = Sender {
        outgoing,
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
    let mut result = match sender.turn {
        Some(_) => sender.body(&mut response.body).await,
        None => Ok(()),
    };
    if result.is_ok() {
        result = poll_fn(|cx| sender.poll_sent(cx)).await;
    }
    if result.is_err() {
        // The reset tells the client that the part that was sent is not the whole.
        sender.outgoing.reset(Reset::Failed);
    }
    (sender.sent, result)
}

/// Returns the status that a response is sent with: three digits, and none of an interim response.
pub(crate) fn shown_status(status: u16) -> u16 {
    if (200..1000).contains(&status) { status } else { 500 }
}

/// Returns true for fields that belong to a connection of HTTP/1 (RFC 9113, 8.2.2; RFC 9114, 4.2).
pub(crate) fn is_of_connection(name: &[u8]) -> bool {
    let is = |other: &[u8]| name.eq_ignore_ascii_case(other);
    match name.len() {
        7 => is(b"upgrade"),
        10 => is(b"connection") || is(b"keep-alive"),
        16 => is(b"proxy-connection"),
        17 => is(b"transfer-encoding"),
        _ => false,
    }
}

/// Sender of one response after its head.
struct Sender<'r, O> {
    outgoing: O,
    /// The turn of the body, if there is one.
    turn: Option<Turn>,
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

impl<O: Outgoing> Sender<'_, O> {
    async fn body(&mut self, body: &mut Body) -> Result<(), SendError> {
        match body {
            Body::Empty => {}
            Body::Bytes(bytes) => self.bytes(std::mem::take(bytes)).await?,
            Body::Pieces(pieces) => {
                self.begin_turn();
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
                    self.pause_turn();
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
            self.set_stuck(true); // in case the disk is slow
            let bytes = file::read(file, offset, room.min(want)).await?;
            offset += bytes.len() as u64;
            self.bytes(bytes).await?;
        }
        Ok(())
    }

    /// Ends the stream after a body whose length was not announced.
    fn end(&mut self) -> Result<(), SendError> {
        let lines = self.trailer.as_ref().map(Trailer::lines).unwrap_or_default();
        self.outgoing.end(&lines).map_err(|_| SendError::ClientGone)
    }

    fn begin_turn(&self) {
        self.turn.iter().for_each(Turn::begin);
    }

    fn pause_turn(&self) {
        self.turn.iter().for_each(Turn::pause);
    }

    fn set_stuck(&self, is_stuck: bool) {
        self.turn.iter().for_each(|turn| turn.set_stuck(is_stuck));
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
        self.begin_turn();
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
            self.outgoing.data(piece, ends).map_err(|_| SendError::ClientGone)?;
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

    /// Waits for room, within the limits for sending. Returns the number of bytes.
    fn poll_room(&mut self, want: usize, cx: &mut Context<'_>) -> Poll<Result<usize, SendError>> {
        if self.turn.as_mut().is_some_and(|turn| turn.poll(cx).is_pending()) {
            return self.outgoing.poll_reset(cx).map(|()| Err(SendError::ClientGone));
        }
        match self.outgoing.poll_room(want, self.request, cx) {
            Room::Bytes(room) => {
                self.set_stuck(false);
                return Poll::Ready(Ok(room));
            }
            Room::Stuck => self.set_stuck(true),
            Room::Blocked => self.set_stuck(false),
            Room::Gone => return Poll::Ready(Err(SendError::ClientGone)),
        }
        self.poll_timeout(cx).map(Err)
    }

    /// Ready when the client takes nothing for too long.
    fn poll_timeout(&mut self, cx: &mut Context<'_>) -> Poll<SendError> {
        let (rate, limits) = (self.rate, &self.limits);
        let timeout = || rate.remaining(limits.send_timeout, limits.min_rate, limits.grace);
        let deadline = self.deadline.get(timeout);
        self.timer.poll(cx, deadline).map(|()| SendError::ClientGone)
    }

    /// Waits until all output is with the transport, within the limits for sending.
    fn poll_sent(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        match self.outgoing.poll_sent(cx) {
            Poll::Ready(sent) => Poll::Ready(sent.map_err(|_| SendError::ClientGone)),
            Poll::Pending => self.poll_timeout(cx).map(Err),
        }
    }

    /// Returns the next bytes of a stream. While there are none, watches the client, so that a
    /// script learns before its next output that the client has disconnected.
    fn poll_stream(
        &mut self,
        stream: &mut dyn BodyStream,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, SendError>> {
        // What was appended is sent before the producer has more.
        if self.outgoing.poll_sent(cx) == Poll::Ready(Err(Gone)) {
            return Poll::Ready(Err(SendError::ClientGone));
        }
        match stream.poll_next(cx) {
            Poll::Ready(Some(Ok(bytes))) => Poll::Ready(Ok(Some(bytes))),
            Poll::Ready(Some(Err(_))) => Poll::Ready(Err(SendError::BodyFailed)),
            Poll::Ready(None) => Poll::Ready(Ok(None)),
            Poll::Pending => self.outgoing.poll_reset(cx).map(|()| Err(SendError::ClientGone)),
        }
    }
}
