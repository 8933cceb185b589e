//! One request and its response on one connection to an upstream.

use std::task::{Context, Poll, ready};

use howdah_config::Timeouts;
use howdah_http::input::Input;
use howdah_http::timer::Timer;

use super::Failure;
use super::response::{self, Head, Malformed, Scan};
use crate::connections::connection::Connection;
use crate::transfer::duplex::Talk;
use crate::transfer::upload::Upload;

/// Interim responses that one request may bring.
const MOST_INTERIM: u32 = 32;

/// See the module.
pub struct Conversation {
    talk: Talk<Connection>,
    scan: Scan,
    interim: u32,
    to_head: bool,
}

impl Conversation {
    /// Begins; nothing is sent before the first poll. `to_head`: the request is HEAD.
    pub fn new(
        stream: Connection,
        upload: Upload,
        to_head: bool,
        timeouts: &Timeouts,
        timer: Timer,
    ) -> Self {
        let talk = Talk::new(stream, upload, timeouts, timer);
        Conversation { talk, scan: Scan::default(), interim: 0, to_head }
    }

    /// The next head, interim or final. The body, if it is final, follows in [`Self::input`].
    pub fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<Head, Failure>> {
        loop {
            let input = &mut self.talk.input;
            let found = match input.is_empty() {
                true => None,
                false => self.scan.advance(input.as_bytes())?,
            };
            if let Some(len) = found {
                self.scan = Scan::default();
                let bytes = input.as_bytes().get(..len).unwrap_or_default();
                let head = response::parse(bytes, self.to_head)?;
                input.skip(len);
                if head.status < 200 {
                    self.interim += 1;
                    if self.interim > MOST_INTERIM {
                        return Poll::Ready(Err(Malformed("too many interim responses").into()));
                    }
                } else {
                    self.talk.has_head();
                }
                return Poll::Ready(Ok(head));
            }
            if !ready!(self.talk.poll_more(cx))? {
                return Poll::Ready(Err(self.talk.ended()));
            }
        }
    }

    /// Reads more of the body into [`Self::input`]. `false` at the end of the connection.
    pub fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, Failure>> {
        self.talk.poll_more(cx)
    }

    /// What has come and is not used yet.
    pub fn input(&mut self) -> &mut Input {
        &mut self.talk.input
    }

    /// Whether any byte of a response has come.
    pub fn answered(&self) -> bool {
        self.talk.answered()
    }

    /// The connection, if the request was sent in full and nothing is left on it; and the timer.
    pub fn into_idle(self) -> (Option<Connection>, Timer) {
        self.talk.into_idle()
    }

    /// The connection, and what has come on it after the head, if the request was sent in full.
    pub fn into_parts(self) -> Option<(Connection, Input)> {
        self.talk.into_parts()
    }
}
