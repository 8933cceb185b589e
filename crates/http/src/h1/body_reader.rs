//! The body of the current request, taken out of the input.

use bytes::Bytes;

use super::head::Head;
use super::transport::Transport;
use crate::body::BodyError;
use crate::framing::{BodyLength, Chunked, Decoded};
use crate::limits::Limits;
use crate::timer::{ProgressDeadline, Throughput};

/// State of reading a request body.
pub(super) struct BodyReader {
    /// Length that the head announces.
    pub announced: BodyLength,
    rest: Rest,
    /// Bytes returned so far.
    pub received: u64,
    /// Maximum length in bytes.
    pub max: u64,
    /// The client waits for `100 Continue`.
    pub expects_continue: bool,
    pub rate: Throughput,
    pub deadline: ProgressDeadline,
}

/// The part of the body that is not read yet.
enum Rest {
    Known(u64),
    Chunked(Chunked),
    Failed(BodyError),
}

/// A step of [`BodyReader::next`].
pub(super) enum Next {
    Bytes(Bytes),
    End,
    NeedMore,
    Failed(BodyError),
}

impl BodyReader {
    /// Creates the reader of a body that `head` announces.
    pub fn new(head: &Head, limits: &Limits) -> Self {
        BodyReader {
            announced: head.body,
            rest: match head.body {
                BodyLength::Known(length) => Rest::Known(length),
                BodyLength::Chunked => Rest::Chunked(Chunked::with_trailer()),
            },
            received: 0,
            max: limits.max_body,
            expects_continue: head.expects_continue,
            rate: Throughput::default(),
            deadline: ProgressDeadline::default(),
        }
    }

    /// Takes the next bytes of the body out of the input.
    pub fn next<I>(&mut self, transport: &mut Transport<I>) -> Next {
        let bytes = match &mut self.rest {
            Rest::Failed(error) => return Next::Failed(*error),
            Rest::Known(0) => return Next::End,
            Rest::Known(rest) => {
                let len = usize::try_from(*rest).unwrap_or(usize::MAX);
                let bytes = transport.input.take(len);
                *rest -= bytes.len() as u64;
                bytes
            }
            Rest::Chunked(chunked) => match chunked.decode(transport.input.as_bytes()) {
                Ok(Decoded::Data { skip, len }) => {
                    transport.input.skip(skip);
                    transport.input.take(len)
                }
                Ok(Decoded::NeedMore) => {
                    transport.input.clear();
                    Bytes::new()
                }
                Ok(Decoded::End(len)) => {
                    transport.input.skip(len);
                    return Next::End;
                }
                Err(_) => return self.fail(BodyError::Malformed),
            },
        };
        if bytes.is_empty() {
            return Next::NeedMore;
        }
        self.received += bytes.len() as u64;
        if self.received > self.max {
            return self.fail(BodyError::TooLarge);
        }
        self.deadline.progress(&mut self.rate, bytes.len());
        Next::Bytes(bytes)
    }

    /// Makes this and all further steps fail.
    pub fn fail(&mut self, error: BodyError) -> Next {
        self.rest = Rest::Failed(error);
        Next::Failed(error)
    }

    /// Returns the number of bytes that remain; `None` if it is unknown or the body has failed.
    pub fn remaining(&self) -> Option<u64> {
        match self.rest {
            Rest::Known(rest) => Some(rest),
            Rest::Chunked(_) | Rest::Failed(_) => None,
        }
    }

    /// Lines of the trailer received so far.
    pub fn trailer(&self) -> &[u8] {
        match &self.rest {
            Rest::Chunked(chunked) => chunked.trailer(),
            Rest::Known(_) | Rest::Failed(_) => &[],
        }
    }
}
