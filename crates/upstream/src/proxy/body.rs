//! Body of an HTTP server's response, decoded from its framing.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use howdah_http::body::{Body, BodyStream};
use howdah_http::chunked::{Chunked, Decoded};
use howdah_http::input::Input;
use howdah_http::message::Trailer;
use howdah_http::spool::SMALL_PART_BYTES;

use super::conversation::Conversation;
use super::hop;
use super::response::{Head, Length};
use crate::failure::{Failure, Malformed};
use crate::retry::Attempt;
use crate::servers::selection::ActiveRequest;
use crate::servers::upstream::Upstream;
use crate::thread::UpstreamThread;
use crate::transfer::response_buffer::{Abandon, ResponseBuffering, TurnLimit};

/// Context of a body that is being read: for the log, and for the reuse of the connection.
pub struct BodyContext {
    /// Thread that pools the connection.
    pub thread: Rc<UpstreamThread>,
    /// The request.
    pub attempt: Attempt<Arc<Upstream>>,
    /// The connection can be used again.
    pub keep_alive: bool,
    /// The request counts as active until the end.
    pub _active: ActiveRequest,
}

/// Returns the body that follows a head.
pub fn body(
    mut conversation: Conversation,
    head: &Head,
    context: BodyContext,
    buffering: ResponseBuffering<'_>,
    trailer: Option<&Trailer>,
) -> Result<Body, Malformed> {
    let framing = match head.length {
        Length::None(announced) => {
            context.reuse(conversation);
            return Ok(Body::unsent(announced));
        }
        Length::Known(len) => {
            if let Ok(len) = usize::try_from(len)
                && conversation.input().as_bytes().len() >= len
            {
                let bytes = conversation.input().take(len);
                context.reuse(conversation);
                return Ok(bytes.into());
            }
            Framing::Known(len)
        }
        Length::Chunked if trailer.is_some() => Framing::Chunked(Chunked::with_trailer()),
        Length::Chunked => Framing::Chunked(Chunked::new()),
        Length::Close => Framing::Close,
    };
    let active = Some((conversation, context));
    let (pieces, turn, trailer) = (VecDeque::new(), TurnLimit::default(), trailer.cloned());
    let mut body = ResponseBody { active, framing, pieces, turn, trailer };
    // Malformed chunks that arrived with the head can still be answered with an error.
    if let Framing::Chunked(_) = body.framing
        && body.decode()?
    {
        let whole = match body.pieces.len() {
            0 | 1 => body.pieces.pop_front().unwrap_or_default(),
            _ => body.pieces.iter().flatten().copied().collect(),
        };
        body.complete();
        return Ok(whole.into());
    }
    Ok(buffering.body(body, &head.fields))
}

impl BodyContext {
    /// Keeps the connection if it can be used again and no input is left; otherwise closes it.
    fn reuse(&self, conversation: Conversation) {
        let (idle, timer) = conversation.into_idle();
        self.thread.return_timer(timer);
        if self.keep_alive
            && let Some(stream) = idle
        {
            let Attempt { owner: upstream, server, .. } = &self.attempt;
            let config = &upstream.config;
            let (max, time) = (config.keepalive, config.timeouts.idle);
            self.thread.put_idle(&server.pool_key, stream, max, time);
        }
    }
}

struct ResponseBody {
    /// `None` after the end of the body.
    active: Option<(Conversation, BodyContext)>,
    framing: Framing,
    /// Decoded parts that were not returned yet.
    pieces: VecDeque<Bytes>,
    turn: TurnLimit,
    /// Receiver of the trailer, if the client accepts one.
    trailer: Option<Trailer>,
}

enum Framing {
    /// Number of remaining bytes.
    Known(u64),
    Chunked(Chunked),
    Close,
}

impl ResponseBody {
    /// Decodes the input until the turn is over. Returns true at the end of the body.
    fn decode(&mut self) -> Result<bool, Malformed> {
        let Some((conversation, _)) = &mut self.active else { return Ok(true) };
        let input = conversation.input();
        match &mut self.framing {
            Framing::Known(left) => {
                let bytes = input.take(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= bytes.len() as u64; // at most `left` were taken
                self.pieces.extend((!bytes.is_empty()).then_some(bytes));
                Ok(*left == 0)
            }
            Framing::Close => {
                let bytes = input.take(usize::MAX);
                self.pieces.extend((!bytes.is_empty()).then_some(bytes));
                Ok(false)
            }
            Framing::Chunked(chunked) => {
                let (pieces, turn) = (&mut self.pieces, &mut self.turn);
                decode_chunks(chunked, input, pieces, turn, self.trailer.as_ref())
            }
        }
    }

    /// Ends a complete body.
    fn complete(&mut self) {
        if let Some((conversation, context)) = self.active.take() {
            context.reuse(conversation);
        }
    }

    /// Ends an incomplete body.
    fn fail(&mut self, failure: Failure) -> io::Error {
        if failure.is_by_client() {
            self.active = None
        } else {
            let active = self.active.as_ref();
            if let Some(reason) = active.map(|(_, context)| context.attempt.reason(&failure)) {
                self.abandon(format_args!("{reason}"));
            }
        }
        io::Error::other("the upstream's response was cut")
    }
}

/// Decodes chunks of the input until the turn is over. Returns true at the end of the body.
fn decode_chunks(
    chunked: &mut Chunked,
    input: &mut Input,
    pieces: &mut VecDeque<Bytes>,
    turn: &mut TurnLimit,
    trailer: Option<&Trailer>,
) -> Result<bool, Malformed> {
    let mut gathered = BytesMut::new();
    let is_over = loop {
        if !turn.take() {
            break false;
        }
        match chunked.decode(input.as_bytes()) {
            Ok(Decoded::Data { skip, len }) => {
                input.skip(skip);
                // A slice would keep the whole read buffer in memory.
                if len < SMALL_PART_BYTES {
                    let bytes = input.as_bytes();
                    gathered.extend_from_slice(bytes.get(..len).unwrap_or(bytes));
                    input.skip(len);
                    continue;
                }
                if !gathered.is_empty() {
                    pieces.push_back(gathered.split().freeze());
                }
                pieces.push_back(input.take(len));
            }
            Ok(Decoded::NeedMore) => {
                input.clear();
                break false;
            }
            Ok(Decoded::End(len)) => {
                input.skip(len);
                if let Some(trailer) = trailer {
                    trailer.set(hop::trailer(chunked.trailer(), |_| false).into());
                }
                break true;
            }
            Err(_) => return Err(Malformed("a chunk of the body is malformed")),
        }
    };
    if !gathered.is_empty() {
        pieces.push_back(gathered.freeze());
    }
    Ok(is_over)
}

impl Abandon for ResponseBody {
    fn abandon(&mut self, problem: fmt::Arguments<'_>) {
        if let Some((_, context)) = self.active.take() {
            context.attempt.log(&context.thread, problem);
        }
    }
}

impl BodyStream for ResponseBody {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        loop {
            if let Some(piece) = self.pieces.pop_front() {
                return Poll::Ready(Some(Ok(piece)));
            }
            ready!(self.turn.poll(cx));
            match self.decode() {
                Ok(true) if self.pieces.is_empty() => {
                    self.complete();
                    return Poll::Ready(None);
                }
                Ok(true) => {
                    self.complete();
                    continue;
                }
                Ok(false) if !self.pieces.is_empty() || self.turn.is_over() => continue,
                Ok(false) => {}
                Err(malformed) => return Poll::Ready(Some(Err(self.fail(malformed.into())))),
            }
            let Some((conversation, _)) = &mut self.active else { return Poll::Ready(None) };
            match conversation.poll_more(cx) {
                Poll::Pending => {
                    self.turn.begin();
                    return Poll::Pending;
                }
                Poll::Ready(Ok(true)) => {}
                Poll::Ready(Ok(false)) if matches!(self.framing, Framing::Close) => {
                    self.active = None;
                }
                Poll::Ready(Ok(false)) => {
                    return Poll::Ready(Some(Err(self.fail(Failure::ServerClosed))));
                }
                Poll::Ready(Err(failure)) => {
                    return Poll::Ready(Some(Err(self.fail(failure))));
                }
            }
        }
    }

    fn len(&self) -> Option<u64> {
        match self.framing {
            Framing::Known(left) => {
                Some(left + self.pieces.iter().map(|p| p.len() as u64).sum::<u64>())
            }
            Framing::Chunked(_) | Framing::Close => None,
        }
    }
}
