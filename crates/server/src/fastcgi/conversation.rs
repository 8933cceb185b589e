//! One request and its answer on one connection to a FastCGI server.

use std::task::{Context, Poll, ready};

use bytes::Bytes;
use howdah_config::Timeouts;
use howdah_wire::fastcgi::{Answer, Answers, Protocol};

use super::REQUEST;
use crate::http1::timer::Timer;
use crate::proxy::Failure;
use crate::proxy::response::Malformed;
use crate::proxy::talk::Talk;
use crate::proxy::transport::Stream;
use crate::proxy::upload::Upload;

/// Bytes for the log that one request may bring.
const MOST_LOG: usize = 1 << 20;

/// A part of an answer.
#[derive(Debug)]
pub enum Part {
    /// Bytes of head or body.
    Output(Bytes),
    /// Bytes for the log.
    Log(Bytes),
    /// The answer is complete.
    End,
}

/// See the module.
pub struct Conversation {
    talk: Talk<Stream>,
    answers: Answers,
    /// Bytes that may still come for the log.
    log: usize,
}

impl Conversation {
    /// Begins, on a connection that the runtime has just been given.
    pub fn new(stream: Stream, mut upload: Upload, timeouts: &Timeouts, timer: Timer) -> Self {
        upload.send_at_once(&stream);
        let talk = Talk::new(stream, upload, timeouts, timer);
        Conversation { talk, answers: Answers::new(REQUEST), log: MOST_LOG }
    }

    /// The head has come: from now on a pause is one within the body.
    pub fn has_head(&mut self) {
        self.talk.has_head();
    }

    /// Whether any byte of an answer has come.
    pub fn answered(&self) -> bool {
        self.talk.answered()
    }

    /// The next part of the answer.
    pub fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Result<Part, Failure>> {
        loop {
            while let Some(part) = self.decode()? {
                match part {
                    Part::Log(bytes) if bytes.len() > self.log => {}
                    Part::Log(bytes) => {
                        self.log -= bytes.len();
                        return Poll::Ready(Ok(Part::Log(bytes)));
                    }
                    part => return Poll::Ready(Ok(part)),
                }
            }
            if !ready!(self.talk.poll_more(cx))? {
                return Poll::Ready(Err(self.talk.ended()));
            }
        }
    }

    /// Takes a part out of what has come.
    fn decode(&mut self) -> Result<Option<Part>, Malformed> {
        const NO_RECORD: Malformed = Malformed("it does not answer with FastCGI records");
        let all = self.talk.input.as_bytes();
        let mut rest = all;
        let answer = self.answers.next(&mut rest).map_err(|_| NO_RECORD)?;
        // Content is the last that was taken.
        let (taken, is_log) = (all.len() - rest.len(), matches!(answer, Some(Answer::Stderr(_))));
        let part = match answer {
            None => None,
            Some(Answer::Stdout(bytes) | Answer::Stderr(bytes)) => Some(bytes.len()),
            Some(Answer::End(end)) => {
                self.talk.input.skip(taken);
                return match end.protocol {
                    Protocol::RequestComplete => Ok(Some(Part::End)),
                    Protocol::Overloaded => Err(Malformed("it has no room for the request")),
                    Protocol::CannotMultiplex | Protocol::UnknownRole => {
                        Err(Malformed("it does not answer such requests"))
                    }
                };
            }
        };
        let len = part.unwrap_or(0);
        self.talk.input.skip(taken - len);
        Ok(part.map(|len| {
            let content = self.talk.input.take(len);
            if is_log { Part::Log(content) } else { Part::Output(content) }
        }))
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
