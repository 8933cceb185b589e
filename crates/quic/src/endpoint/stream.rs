//! Streams of a connection.

use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use quinn_proto::{ReadableError, StreamId, VarInt};

use super::connection::State;
use crate::errors::{ReadError, WriteError};

/// Code with which a stream is reset that is dropped before its end: the application has failed
/// (H3_INTERNAL_ERROR, RFC 9114, 8.1).
const DROPPED: u64 = 0x102;

/// Code with which the peer is told that the rest of its stream is not wanted (H3_NO_ERROR).
const NOT_WANTED: u64 = 0x100;

/// Maximum bytes of one piece that is read.
const MAX_PIECE: usize = 1 << 16;

/// The sending part of a stream.
pub struct Send {
    connection: Rc<State>,
    id: StreamId,
    /// The stream was finished or reset.
    has_ended: bool,
}

/// The receiving part of a stream.
pub struct Recv {
    connection: Rc<State>,
    id: StreamId,
    end: Option<End>,
}

/// How a receiving part has ended.
#[derive(Clone, Copy)]
enum End {
    Finished,
    Reset(u64),
    Stopped,
}

impl Send {
    pub(crate) fn new(connection: Rc<State>, id: StreamId) -> Send {
        Send { connection, id, has_ended: false }
    }

    /// Returns the number of the stream (RFC 9000, 2.1).
    pub fn id(&self) -> u64 {
        VarInt::from(self.id).into_inner()
    }

    /// Takes a prefix of `bytes` for sending, without copying it. Pending while the peer or the path
    /// takes no more.
    pub fn poll_write(
        &mut self,
        bytes: &mut Bytes,
        cx: &mut Context<'_>,
    ) -> Poll<Result<usize, WriteError>> {
        if self.has_ended {
            return Poll::Ready(Err(WriteError::Ended));
        }
        let id = self.id;
        let written = self.connection.call(|library| {
            let mut stream = library.send_stream(id);
            stream.write_chunks(std::slice::from_mut(bytes)).map(|written| written.bytes)
        });
        match written {
            Ok(Ok(count)) => {
                self.connection.touch();
                Poll::Ready(Ok(count))
            }
            Ok(Err(quinn_proto::WriteError::Blocked)) => {
                // It may have to tell the peer that it is blocked.
                self.connection.touch();
                let mut wakers = self.connection.wakers.borrow_mut();
                wakers.writers.insert(id, cx.waker().clone());
                Poll::Pending
            }
            Ok(Err(quinn_proto::WriteError::Stopped(code))) => {
                Poll::Ready(Err(WriteError::Stopped(code.into_inner())))
            }
            Ok(Err(quinn_proto::WriteError::ClosedStream)) => Poll::Ready(Err(WriteError::Ended)),
            Err(closed) => Poll::Ready(Err(WriteError::Closed(closed))),
        }
    }

    /// Ends the stream behind what was written.
    pub fn finish(&mut self) {
        if !std::mem::replace(&mut self.has_ended, true) {
            let id = self.id;
            if let Ok(Ok(())) = self.connection.call(|library| library.send_stream(id).finish()) {
                let unacknowledged = &self.connection.unacknowledged;
                unacknowledged.set(unacknowledged.get() + 1);
            }
            self.connection.touch();
        }
    }

    /// Ends the stream at once, with a code of the application's protocol. What was not sent is lost.
    pub fn reset(&mut self, code: u64) {
        if !std::mem::replace(&mut self.has_ended, true) {
            let (id, code) = (self.id, varint(code));
            let _ = self.connection.call(|library| library.send_stream(id).reset(code));
            self.connection.touch();
        }
    }

    /// Sets the priority of the stream within its connection. Higher ones are sent first.
    pub fn set_priority(&mut self, priority: i32) {
        let id = self.id;
        let _ = self.connection.call(|library| library.send_stream(id).set_priority(priority));
    }

    /// Returns true if the peer wants no more of the stream, or the connection has ended. Otherwise the
    /// task is woken when that is so.
    pub fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let id = self.id;
        match self.connection.call(|library| library.send_stream(id).stopped()) {
            Ok(Ok(Some(_))) | Err(_) => Poll::Ready(()),
            Ok(Ok(None) | Err(_)) => {
                self.connection.wakers.borrow_mut().stopped.insert(id, cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for Send {
    fn drop(&mut self) {
        self.reset(DROPPED);
        let mut wakers = self.connection.wakers.borrow_mut();
        wakers.writers.remove(&self.id);
        wakers.stopped.remove(&self.id);
    }
}

impl Recv {
    pub(crate) fn new(connection: Rc<State>, id: StreamId) -> Recv {
        Recv { connection, id, end: None }
    }

    /// Returns the number of the stream (RFC 9000, 2.1).
    pub fn id(&self) -> u64 {
        VarInt::from(self.id).into_inner()
    }

    /// Reads the next bytes, of at most `max`; `None` after the last ones.
    pub fn poll_read(
        &mut self,
        max: usize,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, ReadError>> {
        match self.end {
            Some(End::Finished | End::Stopped) => return Poll::Ready(Ok(None)),
            Some(End::Reset(code)) => return Poll::Ready(Err(ReadError::Reset(code))),
            None => {}
        }
        let id = self.id;
        let read = self.connection.call(|library| {
            let mut stream = library.recv_stream(id);
            let mut pieces = match stream.read(true) {
                Ok(pieces) => pieces,
                Err(ReadableError::ClosedStream | ReadableError::IllegalOrderedRead) => {
                    return (Ok(None), false);
                }
            };
            let piece = pieces.next(max.clamp(1, MAX_PIECE));
            (piece, pieces.finalize().should_transmit())
        });
        let (piece, has_to_send) = match read {
            Ok(read) => read,
            Err(closed) => return Poll::Ready(Err(ReadError::Closed(closed))),
        };
        if has_to_send {
            self.connection.touch();
        }
        match piece {
            Ok(Some(piece)) => Poll::Ready(Ok(Some(piece.bytes))),
            Ok(None) => {
                self.end = Some(End::Finished);
                Poll::Ready(Ok(None))
            }
            Err(quinn_proto::ReadError::Reset(code)) => {
                self.end = Some(End::Reset(code.into_inner()));
                Poll::Ready(Err(ReadError::Reset(code.into_inner())))
            }
            Err(quinn_proto::ReadError::Blocked) => {
                self.connection.wakers.borrow_mut().readers.insert(id, cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Asks the peer to send no more, with a code of the application's protocol. No effect after the
    /// last byte.
    pub fn stop(&mut self, code: u64) {
        if self.end.is_none() {
            self.end = Some(End::Stopped);
            let (id, code) = (self.id, varint(code));
            let _ = self.connection.call(|library| library.recv_stream(id).stop(code));
            self.connection.touch();
        }
    }
}

impl Drop for Recv {
    fn drop(&mut self) {
        self.stop(NOT_WANTED);
        self.connection.wakers.borrow_mut().readers.remove(&self.id);
    }
}

fn varint(code: u64) -> VarInt {
    VarInt::from_u64(code).unwrap_or(VarInt::MAX)
}
