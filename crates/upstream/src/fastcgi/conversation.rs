//! One request and its response on one connection to a FastCGI server.

use std::fmt::Display;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use howdah_config::Timeouts;
use howdah_dns::stream::Stream;
use howdah_http::spool::SMALL_PART_BYTES;
use howdah_http::timer::Timer;
use howdah_wire::fastcgi::{Answer, Answers, Protocol};

use super::messages::Messages;
use super::records::{REQUEST_ID, StdinRecords};
use crate::failure::{Failure, Malformed};
use crate::transfer::duplex::Duplex;
use crate::transfer::response_buffer::TurnLimit;
use crate::transfer::upload::Upload;

/// A part of a response.
#[derive(Debug)]
pub enum Part {
    /// Bytes of head or body.
    Output(Bytes),
    /// The response is complete.
    End,
}

/// A record that was decoded.
enum Record {
    /// Long output, which is not copied.
    Output(Bytes),
    /// Short output or a message, added to a buffer.
    Collected,
    /// The end of the request.
    End,
}

/// Sends a request and decodes the records of its response. Log messages of the server begin with
/// `P`.
pub struct Conversation<P: Display> {
    duplex: Duplex<Stream, StdinRecords>,
    answers: Answers,
    /// Collected short output.
    output: BytesMut,
    messages: Messages<P>,
    turn: TurnLimit,
    /// The end of the request has arrived.
    has_ended: bool,
    /// The server has reported a failure of the script.
    is_cut: bool,
    /// Result that follows the collected output.
    next: Option<Result<Part, Failure>>,
}

impl<P: Display> Conversation<P> {
    /// Creates a conversation on a connection that the runtime does not know to be writable yet.
    pub fn new(
        stream: Stream,
        mut upload: Upload<StdinRecords>,
        timeouts: &Timeouts,
        timer: Timer,
        messages: Messages<P>,
    ) -> Self {
        upload.send_at_once(&stream);
        let duplex = Duplex::new(stream, upload, timeouts, timer);
        let (answers, output) = (Answers::new(REQUEST_ID), BytesMut::new());
        Conversation {
            duplex,
            answers,
            output,
            messages,
            turn: TurnLimit::default(),
            has_ended: false,
            is_cut: false,
            next: None,
        }
    }

    /// Marks the head as complete; from now on the read timeout applies.
    pub fn set_has_head(&mut self) {
        self.duplex.set_has_head();
    }

    /// Returns true if any byte of a response has arrived.
    pub fn has_input(&self) -> bool {
        self.duplex.has_input()
    }

    /// Returns true if the server has reported that an error has ended the script: by its exit
    /// status, or, as PHP-FPM, which never sends one, by PHP's message.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Returns the next part of the response. Available short records become one part; after a
    /// limited number of them other connections get their turn.
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

    /// Collects output, and returns the result that follows it. `None`, or pending with collected
    /// output: the caller must take the output first.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Part>, Failure>> {
        loop {
            if self.has_ended {
                ready!(self.messages.poll_all(self.duplex.timer(), cx));
                return Poll::Ready(Ok(Some(Part::End)));
            }
            ready!(self.messages.poll_full(self.duplex.timer(), cx));
            if !self.output.is_empty()
                && (self.turn.is_over() || self.output.len() >= SMALL_PART_BYTES)
            {
                return Poll::Ready(Ok(None));
            }
            ready!(self.turn.poll(cx));
            self.turn.take();
            match self.decode()? {
                Some(Record::Output(bytes)) => return Poll::Ready(Ok(Some(Part::Output(bytes)))),
                Some(Record::Collected) => continue,
                Some(Record::End) => {
                    self.has_ended = true;
                    continue;
                }
                None => {}
            }
            match self.duplex.poll_more(cx) {
                Poll::Ready(Ok(true)) => {}
                Poll::Ready(Ok(false)) => return Poll::Ready(Err(self.duplex.ended())),
                Poll::Ready(Err(failure)) => return Poll::Ready(Err(failure)),
                Poll::Pending => {
                    self.turn.begin();
                    // If the log has no room, the timer wakes the task when it has.
                    let _ = self.messages.poll_lines(self.duplex.timer(), cx);
                    return Poll::Pending;
                }
            }
        }
    }

    /// Decodes a record, or a part of one, from the input.
    fn decode(&mut self) -> Result<Option<Record>, Malformed> {
        const NO_RECORD: Malformed = Malformed("it does not answer with FastCGI records");
        let all = self.duplex.input.as_bytes();
        let mut rest = all;
        let answer = self.answers.next(&mut rest).map_err(|_| NO_RECORD)?;
        let decoded = all.len() - rest.len();
        let record = match answer {
            None => None,
            // The output is at the end of the decoded bytes.
            Some(Answer::Stdout(bytes)) if bytes.len() >= SMALL_PART_BYTES => {
                let len = bytes.len();
                self.duplex.input.skip(decoded - len);
                return Ok(Some(Record::Output(self.duplex.input.take(len))));
            }
            Some(Answer::Stdout(bytes)) => {
                self.output.extend_from_slice(bytes);
                Some(Record::Collected)
            }
            Some(Answer::Stderr(bytes)) => {
                self.messages.push(bytes);
                self.is_cut |= self.messages.has_fatal_error();
                Some(Record::Collected)
            }
            Some(Answer::End(end)) => match end.protocol {
                Protocol::RequestComplete => {
                    self.is_cut |= end.status != 0;
                    Some(Record::End)
                }
                Protocol::Overloaded => {
                    return Err(Malformed("it is overloaded (FCGI_OVERLOADED)"));
                }
                Protocol::CannotMultiplex | Protocol::UnknownRole => {
                    return Err(Malformed(
                        "it refuses the request (FCGI_CANT_MPX_CONN or FCGI_UNKNOWN_ROLE)",
                    ));
                }
            },
        };
        self.duplex.input.skip(decoded);
        Ok(record)
    }

    /// Returns the connection if the request was sent in full and no input is left, and the timer.
    pub fn into_idle(mut self) -> (Option<Stream>, Timer) {
        let mut rest = self.duplex.input.as_bytes();
        let is_over = matches!(self.answers.next(&mut rest), Ok(None))
            && rest.is_empty()
            && self.answers.is_record_complete();
        // The rest after the end of the response is padding.
        self.duplex.input.clear();
        let (idle, timer) = self.duplex.into_idle();
        (idle.filter(|_| is_over), timer)
    }
}

#[cfg(test)]
mod tests;
