//! The body of an answer, out of the records of its server.

use std::fmt;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use howdah_http::body::BodyStream;

use super::conversation::{Conversation, Part};
use super::{Attempt, Right};
use crate::thread::ProxyThread;
use crate::transfer::response_buffer;

/// What lives as long as an answer is read.
pub struct Home {
    /// The thread's connections.
    pub thread: Rc<ProxyThread>,
    /// Whose answer it is; for the log.
    pub attempt: Attempt,
    /// The right to the connection.
    pub _right: Right,
}

/// The body of an answer whose head has come.
pub struct Answer {
    /// `None` after the end.
    active: Option<(Conversation<Attempt>, Home)>,
    /// What came with the head.
    first: Bytes,
    /// Bytes that are left of what the script has announced.
    remaining: Option<u64>,
}

impl Answer {
    /// `first` is what has come of it, `length` what the script has announced.
    pub fn new(
        conversation: Conversation<Attempt>,
        first: Bytes,
        length: Option<u64>,
        home: Home,
    ) -> Self {
        Answer { active: Some((conversation, home)), first, remaining: length }
    }

    /// The answer has ended well: the connection may serve again.
    fn take_back(&mut self) {
        let Some((conversation, home)) = self.active.take() else { return };
        let Attempt { site, server, .. } = &home.attempt;
        let (idle, timer) = conversation.into_idle();
        home.thread.return_timer(timer);
        if let Some(stream) = idle {
            server.kept().keep(stream, site.keepalive, site.timeouts.idle);
        }
    }

    fn give(&mut self, bytes: Bytes) -> Poll<Option<io::Result<Bytes>>> {
        if let Some(remaining) = &mut self.remaining {
            *remaining = remaining.saturating_sub(bytes.len() as u64);
        }
        Poll::Ready(Some(Ok(bytes)))
    }
}

impl BodyStream for Answer {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if !self.first.is_empty() {
            let first = std::mem::take(&mut self.first);
            return self.give(first);
        }
        let Some((conversation, _)) = &mut self.active else { return Poll::Ready(None) };
        match conversation.poll_part(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(Part::Output(bytes))) => self.give(bytes),
            Poll::Ready(Ok(Part::End)) => {
                self.take_back();
                Poll::Ready(None)
            }
            Poll::Ready(Err(failure)) => {
                match failure.is_clients() {
                    true => self.active = None,
                    false => response_buffer::Answer::give_up(self, format_args!("{failure}")),
                }
                let error = io::Error::other("the answer of the FastCGI server was cut");
                Poll::Ready(Some(Err(error)))
            }
        }
    }

    fn len(&self) -> Option<u64> {
        self.remaining
    }
}

impl response_buffer::Answer for Answer {
    /// The connection is closed, and the client's will be cut.
    fn give_up(&mut self, problem: fmt::Arguments<'_>) {
        if let Some((_, home)) = self.active.take() {
            let attempt = &home.attempt;
            home.thread.complain(&attempt.site.log_limit, format_args!("{attempt}: {problem}"));
        }
    }
}
