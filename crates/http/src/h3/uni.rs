//! The unidirectional streams of a client (RFC 9114, 6.2): one for control, two for instructions of
//! QPACK, and others, which are refused.

use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::task::coop;

use super::connection::Connection;
use super::control::{Control, Event};
use super::cost;
use super::error::{Code, ConnectionError};
use super::qpack::instructions::{Instructions, Kind};
use super::transport::{ReadError, ReceiveStream, Transport};
use super::varint::Varint;
use crate::streams::{MAX_STREAMS, Priority};

/// Types of streams.
mod kind {
    pub const CONTROL: u64 = 0;
    pub const PUSH: u64 = 1;
    pub const ENCODER: u64 = 2;
    pub const DECODER: u64 = 3;
}

/// Ids of requests that a client may have sent or may send, from the first that was not accepted: it may
/// open no more streams (RFC 9218, 7.2).
const MAX_AHEAD: u64 = 4 * MAX_STREAMS as u64;

/// Maximum number of bytes of a read.
const MAX_READ: usize = 4096;

/// The streams of a connection.
pub(super) struct UniStreams<T: Transport> {
    connection: Rc<Connection<T>>,
    streams: Vec<UniStream<T::Receiver>>,
    /// The control, encoder and decoder streams exist.
    has: [bool; 3],
}

struct UniStream<R> {
    stream: R,
    content: Content,
}

/// The content of a stream.
enum Content {
    /// The type has not arrived.
    Unknown(Varint),
    Control(Box<Control>),
    Instructions(Instructions),
}

impl<T: Transport> UniStreams<T> {
    pub fn new(connection: &Rc<Connection<T>>) -> Self {
        let connection = Rc::clone(connection);
        UniStreams { connection, streams: Vec::new(), has: [false; 3] }
    }

    /// Accepts and reads what has arrived.
    pub fn poll(&mut self, cx: &mut Context<'_>) {
        while let Poll::Ready(Ok(stream)) = self.connection.transport.poll_accept_uni(cx) {
            cost::spend_stream(&self.connection.shared.budget);
            self.streams.push(UniStream { stream, content: Content::Unknown(Varint::default()) });
        }
        let mut streams = std::mem::take(&mut self.streams);
        streams.retain_mut(|stream| match self.poll_stream(stream, cx) {
            Poll::Pending => true,
            Poll::Ready(Ok(())) => false,
            Poll::Ready(Err(error)) => {
                self.connection.fail(error);
                false
            }
        });
        self.streams = streams;
    }

    /// Reads a stream. Ready when it is no longer needed.
    fn poll_stream(
        &mut self,
        stream: &mut UniStream<T::Receiver>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), ConnectionError>> {
        loop {
            let unbudgeted = ready!(coop::poll_proceed(cx));
            let read = ready!(stream.stream.poll_read(MAX_READ, cx));
            unbudgeted.made_progress();
            let mut input = match read {
                Ok(Some(input)) => input,
                // The end of the connection is no end of a stream.
                Err(ReadError::Closed) => return Poll::Ready(Ok(())),
                Ok(None) | Err(ReadError::Reset) => {
                    return Poll::Ready(match stream.content {
                        Content::Unknown(_) => Ok(()),
                        _ => Err(ConnectionError::new(
                            Code::ClosedCriticalStream,
                            "the control stream or a stream of QPACK was closed",
                        )),
                    });
                }
            };
            if let Content::Unknown(number) = &mut stream.content {
                let Some(kind) = next_number(number, &mut input) else { continue };
                match self.content_of(kind)? {
                    Some(content) => stream.content = content,
                    None => {
                        stream.stream.stop(Code::StreamCreationError.number());
                        return Poll::Ready(Ok(()));
                    }
                }
            }
            self.read(&mut stream.content, input)?;
        }
    }

    /// Returns the initial state of a stream; `None` for a type that is not known.
    fn content_of(&mut self, kind: u64) -> Result<Option<Content>, ConnectionError> {
        let error = |reason| Err(ConnectionError::new(Code::StreamCreationError, reason));
        let (place, content) = match kind {
            kind::CONTROL => (0, Content::Control(Box::default())),
            kind::PUSH => return error("a push stream of a client"),
            kind::ENCODER => (1, Content::Instructions(Instructions::new(Kind::Encoder))),
            kind::DECODER => (2, Content::Instructions(Instructions::new(Kind::Decoder))),
            _ => return Ok(None),
        };
        if std::mem::replace(&mut self.has[place], true) {
            return error("a second control stream, or stream of QPACK");
        }
        Ok(Some(content))
    }

    fn read(&self, content: &mut Content, mut input: Bytes) -> Result<(), ConnectionError> {
        match content {
            Content::Unknown(_) => {}
            Content::Control(control) => {
                while let Some(event) = control.next(&mut input)? {
                    match event {
                        Event::Frame(frame) => self.connection.spend(frame),
                        Event::Priority { stream, value } => {
                            if stream >= self.connection.next_id.get() + MAX_AHEAD {
                                let reason = "the priority of a request that is not permitted yet";
                                return Err(ConnectionError::new(Code::IdError, reason));
                            }
                            let priority = Priority::read(std::iter::once(&value[..]));
                            self.connection.shared.turns.update(stream, priority);
                        }
                    }
                }
            }
            Content::Instructions(instructions) => {
                cost::spend_instructions(&self.connection.shared.budget, input.len());
                instructions.read(&input)?;
            }
        }
        Ok(())
    }
}

/// Takes the bytes of a number off the input. `None` if more bytes are needed.
fn next_number(number: &mut Varint, input: &mut Bytes) -> Option<u64> {
    let found = input.iter().enumerate().find_map(|(at, byte)| Some((at, number.push(*byte)?)));
    let taken = found.map_or(input.len(), |(at, _)| at + 1);
    let _ = input.split_to(taken);
    found.map(|(_, value)| value)
}
