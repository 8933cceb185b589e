//! The two directions of a connection: a request that is sent, and the bytes of its response, each
//! with its timeout.
//!
//! Both directions are active at the same time. A server may answer before it has read the whole
//! request, and some servers continue reading only when their response is taken.

use std::task::{Context, Poll, ready};
use std::time::Duration;

use howdah_config::Timeouts;
use howdah_http::input::Input;
use howdah_http::timer::Timer;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use crate::failure::Failure;
use crate::transfer::upload::{BodyFraming, State, Upload};

/// One request and its response on a connection of type `S`, with the body framed by `F`.
pub struct Duplex<S, F> {
    stream: S,
    /// Bytes that have arrived and are not used yet.
    pub input: Input,
    upload: Upload<F>,
    timeouts: Timeouts,
    timer: Timer,
    /// End of the current wait.
    deadline: Option<Instant>,
    /// A byte of the response has arrived.
    has_input: bool,
    /// The head of the response is complete.
    has_head: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin, F: BodyFraming> Duplex<S, F> {
    /// Creates the state; bytes are sent from the first poll on.
    pub fn new(stream: S, upload: Upload<F>, timeouts: &Timeouts, timer: Timer) -> Self {
        Duplex {
            stream,
            input: Input::default(),
            upload,
            timeouts: timeouts.clone(),
            timer,
            deadline: None,
            has_input: false,
            has_head: false,
        }
    }

    /// Marks the head as complete; from now on the read timeout applies.
    pub fn set_has_head(&mut self) {
        self.has_head = true;
        self.deadline = None;
    }

    /// Returns true if any byte of the response has arrived.
    pub fn has_input(&self) -> bool {
        self.has_input
    }

    /// Reads more of the response. Returns false at the end of the connection.
    pub fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, Failure>> {
        if self.upload.poll_send(&mut self.stream, cx) {
            self.deadline = None;
        }
        if let State::Failed(Failure::Client(error)) = self.upload.state() {
            return Poll::Ready(Err(Failure::Client(*error)));
        }
        match self.input.poll_read(&mut self.stream, cx) {
            Poll::Ready(Ok(0)) => return Poll::Ready(Ok(false)),
            Poll::Ready(Ok(_)) => {
                self.has_input = true;
                // The timeout applies to the whole head, not to its parts.
                if self.has_head {
                    self.deadline = None;
                }
                return Poll::Ready(Ok(true));
            }
            Poll::Ready(Err(error)) => return Poll::Ready(Err(Failure::Read(error))),
            Poll::Pending => {}
        }
        let (limit, timeout) = match self.upload.state() {
            State::Sending => (self.timeouts.send, Failure::SendTimeout),
            // The client's connection has its own timeout.
            State::Starved => {
                self.deadline = None;
                return Poll::Pending;
            }
            _ if self.has_head => (self.timeouts.read, Failure::ReadTimeout),
            _ => (self.timeouts.first_byte, Failure::HeadTimeout),
        };
        ready!(self.poll_deadline(cx, limit));
        Poll::Ready(Err(timeout))
    }

    /// Returns the timer, for another wait between two polls.
    pub fn timer(&mut self) -> &mut Timer {
        &mut self.timer
    }

    /// Returns ready when `limit` has passed without progress.
    fn poll_deadline(&mut self, cx: &mut Context<'_>, limit: Duration) -> Poll<()> {
        let deadline = *self.deadline.get_or_insert_with(|| Instant::now() + limit);
        self.timer.poll(cx, deadline)
    }

    /// Returns the failure of a connection that ended early. A server that stops reading a request
    /// may still answer, so a failed upload counts only now.
    pub fn ended(&mut self) -> Failure {
        self.upload.take_failure().unwrap_or(Failure::ServerClosed)
    }

    /// Returns the connection if the request was sent in full and no input is left, and the timer.
    pub fn into_idle(self) -> (Option<S>, Timer) {
        let is_sent = matches!(self.upload.state(), State::Done);
        ((is_sent && self.input.is_empty()).then_some(self.stream), self.timer)
    }

    /// Returns the connection and the input that is left, if the request was sent in full.
    pub fn into_parts(self) -> Option<(S, Input)> {
        let is_sent = matches!(self.upload.state(), State::Done);
        is_sent.then_some((self.stream, self.input))
    }
}
