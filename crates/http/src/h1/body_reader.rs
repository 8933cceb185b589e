//! The body of the current request, taken out of the input.

use bytes::{Bytes, BytesMut};

use super::head::Head;
use super::transport::Transport;
use crate::body::BodyError;
use crate::body_length::BodyLength;
use crate::chunked::{Chunked, Decoded, Malformed};
use crate::input::Input;
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
            Rest::Chunked(chunked) => match next_chunks(chunked, &mut transport.input) {
                Ok(Some(bytes)) => bytes,
                Ok(None) => return Next::End,
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

/// Chunks with fewer bytes are copied together with those that have arrived behind them: the steps
/// for each piece of a body cost more than the copy.
const SMALL_CHUNK: usize = 1024;

/// Takes the data of the next chunk, or of several small ones, out of the input. The data is empty
/// if more input is needed, and `None` at the end of the body.
fn next_chunks(chunked: &mut Chunked, input: &mut Input) -> Result<Option<Bytes>, Malformed> {
    let mut small = BytesMut::new();
    while small.is_empty() || !input.is_empty() {
        match chunked.decode(input.as_bytes())? {
            Decoded::Data { skip, len } => {
                input.skip(skip);
                if small.is_empty() && len >= SMALL_CHUNK.min(input.as_bytes().len()) {
                    return Ok(Some(input.take(len)));
                }
                small.extend_from_slice(input.as_bytes().get(..len).unwrap_or_default());
                input.skip(len);
            }
            Decoded::NeedMore => {
                input.clear();
                break;
            }
            Decoded::End(len) => {
                input.skip(len);
                return Ok(Some(small.freeze()).filter(|data| !data.is_empty()));
            }
        }
    }
    Ok(Some(small.freeze()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(mut input: Input) -> Vec<usize> {
        let mut chunked = Chunked::with_trailer();
        let mut lengths = Vec::new();
        while let Some(bytes) = next_chunks(&mut chunked, &mut input).unwrap() {
            lengths.push(bytes.len());
        }
        lengths
    }

    #[test]
    fn small_chunks_that_have_arrived_are_one_piece_and_long_ones_are_not_copied() {
        let small = b"1\r\nx\r\n".repeat(5000);
        let long = [b"bb8\r\n", &[b'y'; 3000][..], b"\r\n"].concat();
        let end = b"0\r\nA: b\r\n\r\n";
        assert_eq!(pieces(Input::from(&[&small[..], end].concat()[..])), [5000]);
        assert_eq!(pieces(Input::from(&[&long[..], &long, end].concat()[..])), [3000, 3000]);
        assert_eq!(pieces(Input::from(&[&small[..], &long, end].concat()[..])), [8000]);
    }

    #[test]
    fn what_follows_a_malformed_chunk_is_never_read() {
        let mut chunked = Chunked::with_trailer();
        let mut input = Input::from(&b"1\r\nx\r\n1\r\nxy\r\n0\r\n\r\n"[..]);
        assert!(next_chunks(&mut chunked, &mut input).is_err());
    }
}
