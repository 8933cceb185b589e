//! One request and its answer on one connection to a FastCGI server.

use std::fmt::Display;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use howdah_config::Timeouts;
use howdah_http::spool::SMALL;
use howdah_http::timer::Timer;
use howdah_wire::fastcgi::{Answer, Answers, Protocol};

use super::REQUEST;
use super::messages::Messages;
use crate::connections::stream::Stream;
use crate::proxy::Failure;
use crate::proxy::response::Malformed;
use crate::transfer::duplex::Talk;
use crate::transfer::response_buffer::Turn;
use crate::transfer::upload::Upload;

/// A part of an answer.
#[derive(Debug)]
pub enum Part {
    /// Bytes of head or body.
    Output(Bytes),
    /// The answer is complete.
    End,
}

/// What a record was.
enum Record {
    /// Much output.
    Output(Bytes),
    /// What is gathered.
    Taken,
    /// The last one.
    End,
}

/// See the module. What the server has for the log begins with `W`.
pub struct Conversation<W: Display> {
    talk: Talk<Stream>,
    answers: Answers,
    /// Short output that is gathered.
    output: BytesMut,
    messages: Messages<W>,
    turn: Turn,
    /// The last record has come.
    ended: bool,
    /// What comes after the output that was gathered.
    next: Option<Result<Part, Failure>>,
}

impl<W: Display> Conversation<W> {
    /// Begins, on a connection that the runtime has just been given.
    pub fn new(
        stream: Stream,
        mut upload: Upload,
        timeouts: &Timeouts,
        timer: Timer,
        messages: Messages<W>,
    ) -> Self {
        upload.send_at_once(&stream);
        let talk = Talk::new(stream, upload, timeouts, timer);
        let (answers, output) = (Answers::new(REQUEST), BytesMut::new());
        Conversation {
            talk,
            answers,
            output,
            messages,
            turn: Turn::default(),
            ended: false,
            next: None,
        }
    }

    /// The head has come: from now on a pause is one within the body.
    pub fn has_head(&mut self) {
        self.talk.has_head();
    }

    /// Whether any byte of an answer has come.
    pub fn answered(&self) -> bool {
        self.talk.answered()
    }

    /// The next part of the answer. Records with little output are taken together as far as they
    /// are there, and after some of them it is the turn of other connections.
    pub fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Result<Part, Failure>> {
        if let Some(next) = self.next.take() {
            return Poll::Ready(next);
        }
        let next = match self.poll_next(cx) {
            Poll::Ready(Ok(next)) => next.map(Ok),
            Poll::Ready(Err(failure)) => Some(Err(failure)),
            Poll::Pending if self.output.is_empty() => return Poll::Pending,
            Poll::Pending => None,
        };
        if let Some(next) = next {
            if self.output.is_empty() {
                return Poll::Ready(next);
            }
            self.next = Some(next);
        }
        Poll::Ready(Ok(Part::Output(std::mem::take(&mut self.output).freeze())))
    }

    /// What comes after the output that was gathered. `None`, or pending with output gathered: that
    /// is to be taken first.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Part>, Failure>> {
        loop {
            if self.ended {
                ready!(self.messages.poll_all(self.talk.timer(), cx));
                return Poll::Ready(Ok(Some(Part::End)));
            }
            ready!(self.messages.poll_full(self.talk.timer(), cx));
            if !self.output.is_empty() && (self.turn.is_over() || self.output.len() >= SMALL) {
                return Poll::Ready(Ok(None));
            }
            ready!(self.turn.poll(cx));
            self.turn.take();
            match self.decode()? {
                Some(Record::Output(bytes)) => return Poll::Ready(Ok(Some(Part::Output(bytes)))),
                Some(Record::Taken) => continue,
                Some(Record::End) => {
                    self.ended = true;
                    continue;
                }
                None => {}
            }
            match self.talk.poll_more(cx) {
                Poll::Ready(Ok(true)) => {}
                Poll::Ready(Ok(false)) => return Poll::Ready(Err(self.talk.ended())),
                Poll::Ready(Err(failure)) => return Poll::Ready(Err(failure)),
                Poll::Pending => {
                    self.turn.begin();
                    // If there is no room for them, the timer wakes us when there is.
                    let _ = self.messages.poll_lines(self.talk.timer(), cx);
                    return Poll::Pending;
                }
            }
        }
    }

    /// Takes a record, or a part of one, out of what has come.
    fn decode(&mut self) -> Result<Option<Record>, Malformed> {
        const NO_RECORD: Malformed = Malformed("it does not answer with FastCGI records");
        let all = self.talk.input.as_bytes();
        let mut rest = all;
        let answer = self.answers.next(&mut rest).map_err(|_| NO_RECORD)?;
        let taken = all.len() - rest.len();
        let record = match answer {
            None => None,
            // Content is the last that was taken.
            Some(Answer::Stdout(bytes)) if bytes.len() >= SMALL => {
                let len = bytes.len();
                self.talk.input.skip(taken - len);
                return Ok(Some(Record::Output(self.talk.input.take(len))));
            }
            Some(Answer::Stdout(bytes)) => {
                self.output.extend_from_slice(bytes);
                Some(Record::Taken)
            }
            Some(Answer::Stderr(bytes)) => {
                self.messages.push(bytes);
                Some(Record::Taken)
            }
            Some(Answer::End(end)) => match end.protocol {
                Protocol::RequestComplete => Some(Record::End),
                Protocol::Overloaded => return Err(Malformed("it has no room for the request")),
                Protocol::CannotMultiplex | Protocol::UnknownRole => {
                    return Err(Malformed("it does not answer such requests"));
                }
            },
        };
        self.talk.input.skip(taken);
        Ok(record)
    }

    /// The connection, if the request was sent in full and nothing is left on it; and the timer.
    pub fn into_idle(mut self) -> (Option<Stream>, Timer) {
        let mut rest = self.talk.input.as_bytes();
        let is_over = matches!(self.answers.next(&mut rest), Ok(None))
            && rest.is_empty()
            && self.answers.is_between();
        // What is left after the end of the answer is padding.
        self.talk.input.clear();
        let (idle, timer) = self.talk.into_idle();
        (idle.filter(|_| is_over), timer)
    }
}

#[cfg(test)]
#[path = "conversation_tests.rs"]
mod tests;
