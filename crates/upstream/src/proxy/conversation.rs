//! One request and its response on one connection to an HTTP server.

use std::task::{Context, Poll, ready};

use howdah_config::Timeouts;
use howdah_http::input::Input;
use howdah_http::timer::Timer;

use super::framing::Framing;
use super::response::{self, Head, Scan};
use crate::connections::connection::Connection;
use crate::failure::{Failure, Malformed};
use crate::transfer::duplex::Duplex;
use crate::transfer::upload::Upload;

/// Maximum number of interim responses to a request.
const MAX_INTERIM: u32 = 32;

/// Sends a request and parses the heads of its responses.
pub struct Conversation {
    duplex: Duplex<Connection, Framing>,
    scan: Scan,
    interim: u32,
    is_head: bool,
}

impl Conversation {
    /// Creates a conversation; bytes are sent from the first poll on. `is_head` is true for the
    /// method HEAD.
    pub fn new(
        stream: Connection,
        upload: Upload<Framing>,
        is_head: bool,
        timeouts: &Timeouts,
        timer: Timer,
    ) -> Self {
        let duplex = Duplex::new(stream, upload, timeouts, timer);
        Conversation { duplex, scan: Scan::default(), interim: 0, is_head }
    }

    /// Returns the next head, interim or final. The body follows in [`Self::input`].
    pub fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<Head, Failure>> {
        loop {
            let input = &mut self.duplex.input;
            let found =
                if input.is_empty() { None } else { self.scan.advance(input.as_bytes())? };
            if let Some(len) = found {
                self.scan = Scan::default();
                let bytes = input.as_bytes().get(..len).unwrap_or_default();
                let head = response::parse(bytes, self.is_head)?;
                input.skip(len);
                if head.status < 200 {
                    self.interim += 1;
                    if self.interim > MAX_INTERIM {
                        return Poll::Ready(Err(Malformed("too many interim responses").into()));
                    }
                } else {
                    self.duplex.set_has_head();
                }
                return Poll::Ready(Ok(head));
            }
            if !ready!(self.duplex.poll_more(cx))? {
                return Poll::Ready(Err(self.duplex.ended()));
            }
        }
    }

    /// Reads more of the body into [`Self::input`]. Returns false at the end of the connection.
    pub fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, Failure>> {
        self.duplex.poll_more(cx)
    }

    /// Returns the bytes that have arrived and are not used yet.
    pub fn input(&mut self) -> &mut Input {
        &mut self.duplex.input
    }

    /// Returns true if any byte of a response has arrived.
    pub fn has_input(&self) -> bool {
        self.duplex.has_input()
    }

    /// Returns the connection if the request was sent in full and no input is left, and the timer.
    pub fn into_idle(self) -> (Option<Connection>, Timer) {
        self.duplex.into_idle()
    }

    /// Returns the connection and the input after the head, if the request was sent in full.
    pub fn into_parts(self) -> Option<(Connection, Input)> {
        self.duplex.into_parts()
    }
}
