//! What a request and its answer are to a connection, whatever they mean: bytes that go and bytes
//! that come, and how long to wait for either.
//!
//! Both directions move at the same time: a server may answer before it has read all of the
//! request, and some only read on when their answer is taken.

use std::task::{Context, Poll, ready};
use std::time::Duration;

use howdah_config::Timeouts;
use howdah_http::input::Input;
use howdah_http::timer::Timer;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use crate::proxy::Failure;
use crate::transfer::upload::{State, Upload};

/// See the module.
pub struct Talk<S> {
    stream: S,
    /// What has come and is not used yet.
    pub input: Input,
    upload: Upload,
    timeouts: Timeouts,
    timer: Timer,
    /// When the wait that is going on ends.
    deadline: Option<Instant>,
    /// Some byte of an answer has come.
    answered: bool,
    /// The head of the answer has come.
    has_head: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Talk<S> {
    /// Begins; nothing is sent before the first poll.
    pub fn new(stream: S, upload: Upload, timeouts: &Timeouts, timer: Timer) -> Self {
        Talk {
            stream,
            input: Input::default(),
            upload,
            timeouts: timeouts.clone(),
            timer,
            deadline: None,
            answered: false,
            has_head: false,
        }
    }

    /// The head has come: from now on a pause is one within the body.
    pub fn has_head(&mut self) {
        self.has_head = true;
        self.deadline = None;
    }

    /// Whether any byte of an answer has come.
    pub fn answered(&self) -> bool {
        self.answered
    }

    /// Reads more of the answer. `false` at the end of the connection.
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
                self.answered = true;
                // A head must be there in time, however it comes.
                if self.has_head {
                    self.deadline = None;
                }
                return Poll::Ready(Ok(true));
            }
            Poll::Ready(Err(error)) => return Poll::Ready(Err(Failure::Read(error))),
            Poll::Pending => {}
        }
        let (patience, timeout) = match self.upload.state() {
            State::Going => (self.timeouts.send, Failure::SendTimeout),
            // It is the client's turn, whose time is limited by who speaks with it.
            State::Starved => {
                self.deadline = None;
                return Poll::Pending;
            }
            _ if self.has_head => (self.timeouts.read, Failure::ReadTimeout),
            _ => (self.timeouts.first_byte, Failure::HeadTimeout),
        };
        ready!(self.poll_deadline(cx, patience));
        Poll::Ready(Err(timeout))
    }

    /// The timer, for a wait of another kind between two polls.
    pub fn timer(&mut self) -> &mut Timer {
        &mut self.timer
    }

    /// Ready when `patience` has passed without progress.
    fn poll_deadline(&mut self, cx: &mut Context<'_>, patience: Duration) -> Poll<()> {
        let deadline = *self.deadline.get_or_insert_with(|| Instant::now() + patience);
        self.timer.poll(cx, deadline)
    }

    /// Why there is no more. A server that takes no more of a request may still have answered, so
    /// that counts only now.
    pub fn ended(&mut self) -> Failure {
        self.upload.take_failure().unwrap_or(Failure::Closed)
    }

    /// The connection, if the request was sent in full and nothing is left on it; and the timer.
    pub fn into_idle(self) -> (Option<S>, Timer) {
        let sent = matches!(self.upload.state(), State::Sent);
        ((sent && self.input.is_empty()).then_some(self.stream), self.timer)
    }

    /// The connection, and what has come on it, if the request was sent in full.
    pub fn into_parts(self) -> Option<(S, Input)> {
        let sent = matches!(self.upload.state(), State::Sent);
        sent.then_some((self.stream, self.input))
    }
}
