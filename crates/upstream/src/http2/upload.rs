//! Sends the body of a request as the windows of its stream have room.

use std::task::{Context, Poll};

use bytes::Bytes;
use h2::{Reason, SendStream};

use super::head;
use crate::failure::Failure;
use crate::proxy::framing::TrailerSource;
use crate::transfer::upload::{Source, State};

/// Maximum number of bytes that are sent at once.
const MAX_PIECE: usize = 64 * 1024;

/// A body that is being sent.
pub struct Upload {
    stream: SendStream<Bytes>,
    source: Source,
    trailer: TrailerSource,
    piece: Bytes,
    /// Trailer of the client's body, once all of it is in `piece`.
    end: Option<Bytes>,
    state: State,
}

impl Upload {
    /// Creates the upload. With `is_done`, the stream has ended with the head.
    pub fn new(
        stream: SendStream<Bytes>,
        source: Source,
        trailer: TrailerSource,
        is_done: bool,
    ) -> Self {
        let state = if is_done { State::Done } else { State::Sending };
        Upload { stream, source, trailer, piece: Bytes::new(), end: None, state }
    }

    /// Returns the progress.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Sends as much as the windows have room for. Returns true if there was progress.
    pub fn poll_send(&mut self, cx: &mut Context<'_>) -> bool {
        let mut has_moved = false;
        while matches!(self.state, State::Sending | State::Starved) {
            match self.poll_step(cx) {
                Poll::Ready(state) => self.state = state,
                Poll::Pending => break,
            }
            has_moved = true;
        }
        has_moved
    }

    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<State> {
        if self.piece.is_empty() && self.end.is_none() {
            self.state = State::Starved;
            match self.source.poll_next(MAX_PIECE, cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(piece)) => self.piece = piece,
                Poll::Ready(Err(failure)) => {
                    self.stream.send_reset(Reason::CANCEL);
                    return Poll::Ready(State::Failed(failure));
                }
            }
            self.end = self.source.trailer();
        }
        let Some(end) = self.end.as_ref().filter(|_| self.piece.is_empty()) else {
            return self.poll_piece(cx);
        };
        let lines = self.trailer.lines(end);
        let sent = if lines.is_empty() {
            self.stream.send_data(Bytes::new(), true)
        } else {
            self.stream.send_trailers(head::trailer(&lines))
        };
        // A stream that the server has closed: its response tells why.
        let _ = sent;
        Poll::Ready(State::Done)
    }

    /// Sends a part of the piece.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<State> {
        self.state = State::Sending;
        self.stream.reserve_capacity(self.piece.len());
        while self.stream.capacity() == 0 {
            match self.stream.poll_capacity(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(_))) => {}
                // The server wants no more; its response tells why.
                Poll::Ready(Some(Err(_)) | None) => return Poll::Ready(State::Done),
            }
        }
        let room = self.stream.capacity().min(self.piece.len());
        let part = self.piece.split_to(room);
        match self.stream.send_data(part, false) {
            Ok(()) => Poll::Ready(State::Sending),
            Err(_) => Poll::Ready(State::Done),
        }
    }

    /// Takes the failure of the client, if there is one.
    pub fn take_client_failure(&mut self) -> Option<Failure> {
        match std::mem::replace(&mut self.state, State::Done) {
            State::Failed(failure) => Some(failure),
            state => {
                self.state = state;
                None
            }
        }
    }
}
