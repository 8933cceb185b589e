//! The client's direction of a request stream.

use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::task::coop;

use super::connection::Connection;
use super::error::{Code, StreamError};
use super::message::{Event, Message};
use super::qpack::Section;
use super::request;
use super::transport::{ReadError, ReceiveStream, Transport};
use crate::body::BodyError;
use crate::streams::Incoming;

/// Maximum number of bytes of a read.
const MAX_READ: usize = 64 * 1024;

/// Maximum number of bytes of a body that are read ahead.
pub(super) const MAX_AHEAD: usize = 16 * 1024;

/// Reader of a request: its head, then its body and trailer.
pub(super) struct RequestStream<T: Transport> {
    stream: T::Receiver,
    connection: Rc<Connection<T>>,
    message: Message,
    /// Bytes that were received and not read yet.
    input: Bytes,
    /// The start of the body, which was read ahead.
    ahead: VecDeque<Bytes>,
    trailer: Bytes,
    end: Option<End>,
}

/// Reason why a stream is not read further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The client has ended it.
    Complete,
    /// The client has reset it, or the connection has ended.
    Gone,
    Failed(StreamError),
}

/// Result of reading a head.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum HeadError {
    /// The client has reset the stream, or the connection has ended.
    Gone,
    Failed(StreamError),
}

impl<T: Transport> RequestStream<T> {
    /// Creates the reader of a stream. Its sections have at most `max_section` bytes.
    pub fn new(
        stream: T::Receiver,
        connection: &Rc<Connection<T>>,
        max_section: usize,
    ) -> RequestStream<T> {
        RequestStream {
            stream,
            connection: Rc::clone(connection),
            message: Message::new(max_section),
            input: Bytes::new(),
            ahead: VecDeque::new(),
            trailer: Bytes::new(),
            end: None,
        }
    }

    /// Reads the head.
    pub fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<Section, HeadError>> {
        loop {
            match ready!(self.poll_event(cx)) {
                Some(Event::Head(section)) => return Poll::Ready(Ok(section)),
                Some(_) => {}
                None => {
                    return Poll::Ready(Err(match self.end {
                        Some(End::Failed(error)) => HeadError::Failed(error),
                        _ => HeadError::Gone,
                    }));
                }
            }
        }
    }

    /// Sets the length of the body that the head announces.
    pub fn announce(&mut self, length: Option<u64>) {
        self.message.announce(length);
    }

    /// Reads the body ahead, up to its end or [`MAX_AHEAD`] bytes. Ready with true if there is none.
    pub fn poll_ahead(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        while self.ahead.iter().map(Bytes::len).sum::<usize>() <= MAX_AHEAD {
            match ready!(self.poll_rest(cx)) {
                Ok(Some(bytes)) => self.ahead.push_back(bytes),
                Ok(None) => return Poll::Ready(self.ahead.is_empty()),
                Err(_) => break,
            }
        }
        Poll::Ready(false)
    }

    /// Tells the client that no more of the request is read, unless all has been.
    pub fn stop(&mut self, code: Code) {
        if self.end.is_none() {
            self.end = Some(End::Gone);
            self.stream.stop(code.number());
        }
    }

    /// Returns the next event; `None` at the end.
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        loop {
            if self.end.is_some() {
                return Poll::Ready(None);
            }
            match self.message.next(&mut self.input) {
                Ok(Some(Event::Frame(frame))) => self.connection.spend(frame),
                Ok(Some(event)) => return Poll::Ready(Some(event)),
                Ok(None) => {
                    let unbudgeted = ready!(coop::poll_proceed(cx));
                    let read = ready!(self.stream.poll_read(MAX_READ, cx));
                    unbudgeted.made_progress();
                    match read {
                        Ok(Some(bytes)) => self.input = bytes,
                        Ok(None) => match self.message.end() {
                            Ok(()) => self.end = Some(End::Complete),
                            Err(error) => self.fail(error),
                        },
                        Err(ReadError::Reset | ReadError::Closed) => self.end = Some(End::Gone),
                    }
                }
                Err(error) => self.fail(error),
            }
        }
    }

    /// Returns the next bytes of the body behind those that were read ahead.
    fn poll_rest(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>> {
        loop {
            match ready!(self.poll_event(cx)) {
                Some(Event::Data(bytes)) => return Poll::Ready(Ok(Some(bytes))),
                Some(Event::Trailer(section)) => match request::trailer(&section) {
                    Some(lines) => self.trailer = lines,
                    None => self.fail(StreamError::Malformed),
                },
                Some(_) => {}
                None => {
                    return Poll::Ready(match self.end {
                        Some(End::Complete) => Ok(None),
                        Some(End::Failed(StreamError::TooLong)) => Err(BodyError::TooLarge),
                        Some(End::Failed(_)) => Err(BodyError::Malformed),
                        Some(End::Gone) | None => Err(BodyError::Closed),
                    });
                }
            }
        }
    }

    fn fail(&mut self, error: StreamError) {
        match error {
            StreamError::Connection(error) => self.connection.fail(error),
            StreamError::Malformed => self.stream.stop(Code::MessageError.number()),
            StreamError::Incomplete | StreamError::TooLong => {
                self.stream.stop(Code::NoError.number());
            }
        }
        self.end = Some(End::Failed(error));
        self.input = Bytes::new();
    }
}

impl<T: Transport> Incoming for RequestStream<T> {
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>> {
        match self.ahead.pop_front() {
            Some(bytes) => Poll::Ready(Ok(Some(bytes))),
            None => self.poll_rest(cx),
        }
    }

    fn trailer(&self) -> Bytes {
        self.trailer.clone()
    }

    fn is_malformed(&self) -> bool {
        self.end == Some(End::Failed(StreamError::Malformed))
    }
}
