//! The body of an upstream's response, out of its framing.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use howdah_http::body::{Body, BodyStream};
use howdah_http::framing::{Chunked, Decoded};
use howdah_http::message::Trailer;
use howdah_http::spool::SMALL;

use super::conversation::Conversation;
use super::response::{Head, Length, Malformed};
use super::{Attempt, Failure, hop};
use crate::servers::upstream::Busy;
use crate::thread::ProxyThread;
use crate::transfer::response_buffer::{Answer, Taking, Turn};

/// What is needed to keep the connection when the body has ended.
pub struct Home {
    /// The thread's connections.
    pub thread: Rc<ProxyThread>,
    /// Whose request it was; for the log.
    pub attempt: Attempt,
    /// Whether the connection may be used again.
    pub keep: bool,
    /// The server has the request until then.
    pub _busy: Busy,
}

/// The body that follows a head.
pub fn body(
    mut conversation: Conversation,
    head: &Head,
    home: Home,
    taking: Taking<'_>,
    trailer: Option<&Trailer>,
) -> Result<Body, Malformed> {
    let framing = match head.length {
        Length::None(announced) => {
            home.take_back(conversation);
            return Ok(Body::unsent(announced));
        }
        Length::Known(len) => {
            if let Ok(len) = usize::try_from(len)
                && conversation.input().as_bytes().len() >= len
            {
                let bytes = conversation.input().take(len);
                home.take_back(conversation);
                return Ok(bytes.into());
            }
            Framing::Known(len)
        }
        Length::Chunked if trailer.is_some() => Framing::Chunked(Chunked::with_trailer()),
        Length::Chunked => Framing::Chunked(Chunked::new()),
        Length::Close => Framing::Close,
    };
    let active = Some((conversation, home));
    let (pieces, turn, trailer) = (VecDeque::new(), Turn::default(), trailer.cloned());
    let mut body = ResponseBody { active, framing, pieces, turn, trailer };
    // Nonsense that came along with the head can still be answered with an error.
    if let Framing::Chunked(_) = body.framing
        && body.decode()?
    {
        let whole = match body.pieces.len() {
            0 | 1 => body.pieces.pop_front().unwrap_or_default(),
            _ => body.pieces.iter().flatten().copied().collect(),
        };
        body.take_back();
        return Ok(whole.into());
    }
    Ok(taking.body(body, &head.fields))
}

impl Home {
    /// Keeps a connection on which nothing is left, or closes it.
    fn take_back(&self, conversation: Conversation) {
        let (idle, timer) = conversation.into_idle();
        self.thread.return_timer(timer);
        if self.keep
            && let Some(stream) = idle
        {
            let Attempt { upstream, server, .. } = &self.attempt;
            let config = &upstream.config;
            self.thread.keep(&server.place, stream, config.keepalive, config.timeouts.idle);
        }
    }
}

struct ResponseBody {
    /// `None` after the end.
    active: Option<(Conversation, Home)>,
    framing: Framing,
    /// Taken out of the chunks already.
    pieces: VecDeque<Bytes>,
    turn: Turn,
    /// Where the trailer is wanted.
    trailer: Option<Trailer>,
}

enum Framing {
    /// So many bytes are left.
    Known(u64),
    Chunked(Chunked),
    Close,
}

impl ResponseBody {
    /// Takes bytes of the body out of what has come, until the turn is over. Whether that was the
    /// end.
    fn decode(&mut self) -> Result<bool, Malformed> {
        let Some((conversation, _)) = &mut self.active else { return Ok(true) };
        let input = conversation.input();
        match &mut self.framing {
            Framing::Known(left) => {
                let bytes = input.take(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= bytes.len() as u64; // no more than that was taken
                self.pieces.extend((!bytes.is_empty()).then_some(bytes));
                Ok(*left == 0)
            }
            Framing::Close => {
                let bytes = input.take(usize::MAX);
                self.pieces.extend((!bytes.is_empty()).then_some(bytes));
                Ok(false)
            }
            Framing::Chunked(chunked) => {
                let mut gathered = BytesMut::new();
                let is_over = loop {
                    if !self.turn.take() {
                        break false;
                    }
                    match chunked.decode(input.as_bytes()) {
                        Ok(Decoded::Data { skip, len }) => {
                            input.skip(skip);
                            // Of itself it would keep all that came with it.
                            if len < SMALL {
                                let bytes = input.as_bytes();
                                gathered.extend_from_slice(bytes.get(..len).unwrap_or(bytes));
                                input.skip(len);
                                continue;
                            }
                            if !gathered.is_empty() {
                                self.pieces.push_back(gathered.split().freeze());
                            }
                            self.pieces.push_back(input.take(len));
                        }
                        Ok(Decoded::NeedMore) => {
                            input.clear();
                            break false;
                        }
                        Ok(Decoded::End(len)) => {
                            input.skip(len);
                            if let Some(trailer) = &self.trailer {
                                trailer.set(hop::trailer(chunked.trailer(), |_| false).into());
                            }
                            break true;
                        }
                        Err(_) => return Err(Malformed("the chunks of the body are no chunks")),
                    }
                };
                if !gathered.is_empty() {
                    self.pieces.push_back(gathered.freeze());
                }
                Ok(is_over)
            }
        }
    }

    /// The body has ended well.
    fn take_back(&mut self) {
        if let Some((conversation, home)) = self.active.take() {
            home.take_back(conversation);
        }
    }

    /// The body has ended badly.
    fn fail(&mut self, failure: Failure) -> io::Error {
        match failure.is_clients() {
            true => self.active = None,
            false => self.give_up(format_args!("{failure}")),
        }
        io::Error::other("the upstream's response was cut")
    }
}

impl Answer for ResponseBody {
    /// The connection is closed, and the client's will be cut.
    fn give_up(&mut self, problem: fmt::Arguments<'_>) {
        if let Some((_, home)) = self.active.take() {
            let attempt = &home.attempt;
            let limit = &attempt.upstream.log_limit;
            home.thread.complain(limit, format_args!("{attempt}: {problem}"));
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
                    self.take_back();
                    return Poll::Ready(None);
                }
                Ok(true) => {
                    self.take_back();
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
                    return Poll::Ready(Some(Err(self.fail(Failure::Closed))));
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
