//! The control stream of the server: SETTINGS, and GOAWAY in two steps (RFC 9114, 5.2).
//!
//! The first GOAWAY permits every id, so that requests which are on their way are answered. The
//! second one, after a round trip, names the first id that is rejected.

use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::frames::{kind, put_head};
use super::settings;
use super::transport::{SendStream, Transport};
use super::varint;
use crate::timer::Timer;

/// Largest id of a request stream.
const MAX_ID: u64 = varint::MAX - 3;

/// Limits of the time between the two GOAWAYs, which is two round trips otherwise.
const STEP: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// The server's control stream.
pub(super) struct ControlStream<T: Transport> {
    transport: T,
    stream: Option<T::Sender>,
    output: Bytes,
    /// Frames that follow the output.
    next: Vec<u8>,
    ending: Ending,
    timer: Timer,
}

/// Progress of the end of a connection.
enum Ending {
    No,
    /// The first GOAWAY was sent; the second one follows at that time.
    Announced(Instant),
    /// Requests from this id are rejected.
    Limited(u64),
}

impl<T: Transport> ControlStream<T> {
    /// Creates the stream. Heads of clients have at most `max_section` bytes.
    pub fn new(transport: &T, max_section: usize) -> Self {
        let mut output = vec![0]; // the type of the stream
        settings::put(max_section, &mut output);
        ControlStream {
            transport: transport.clone(),
            stream: None,
            output: output.into(),
            next: Vec::new(),
            ending: Ending::No,
            timer: Timer::default(),
        }
    }

    /// Announces the end of the connection.
    pub fn announce_end(&mut self) {
        if let Ending::No = self.ending {
            let time = (2 * self.transport.rtt()).clamp(STEP.0, STEP.1);
            self.ending = Ending::Announced(Instant::now() + time);
            self.put_goaway(MAX_ID);
        }
    }

    /// Sends what is due. `next_id` is the id of the first request that was not accepted.
    pub fn poll(&mut self, next_id: u64, cx: &mut Context<'_>) {
        if let Ending::Announced(at) = self.ending
            && self.timer.poll(cx, at).is_ready()
        {
            self.ending = Ending::Limited(next_id);
            self.put_goaway(next_id);
        }
        // An error ends the connection, which its driver sees.
        let _ = self.poll_send(cx);
    }

    /// Returns true if requests of this id are rejected.
    pub fn rejects(&self, id: u64) -> bool {
        matches!(self.ending, Ending::Limited(limit) if id >= limit)
    }

    /// Returns true if the connection ends with the requests that were accepted.
    pub fn is_limited(&self) -> bool {
        matches!(self.ending, Ending::Limited(_)) && self.output.is_empty() && self.next.is_empty()
    }

    fn put_goaway(&mut self, id: u64) {
        let mut payload = Vec::new();
        varint::put(id, &mut payload);
        put_head(kind::GOAWAY, payload.len(), &mut self.next);
        self.next.extend_from_slice(&payload);
    }

    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if self.output.is_empty() {
                self.output = std::mem::take(&mut self.next).into();
            }
            if self.output.is_empty() {
                return Poll::Ready(());
            }
            let stream = match &mut self.stream {
                Some(stream) => stream,
                None => match self.transport.poll_open_uni(cx) {
                    Poll::Ready(Ok(stream)) => {
                        let stream = self.stream.insert(stream);
                        stream.set_priority(1);
                        stream
                    }
                    _ => return Poll::Pending,
                },
            };
            match stream.poll_write(&mut self.output, cx) {
                Poll::Ready(Ok(())) => {}
                _ => return Poll::Pending,
            }
        }
    }
}
