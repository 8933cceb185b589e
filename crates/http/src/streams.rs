//! Requests on the streams of a connection: what HTTP/2 and HTTP/3 have in common.
//!
//! The protocols read heads and transfer bytes; they pass each stream as an [`Incoming`] and an
//! [`Outgoing`] direction. This module bounds the work that a client can cause, and answers:
//!
//! 1. A request becomes the text of an HTTP/1 head and is read by the same parser (`head`), so that
//!    limits, checks and the requests that handlers see are the same.
//! 2. The same [`Handler`](crate::exchange::Handler) answers each stream (`answer`), in a task of
//!    its own if it has to wait (`tasks`). The body and interim responses pass through its `carrier`.
//! 3. A response is sent piece by piece as the client takes it (`send`), so that a stalled stream
//!    holds one piece, for at most `send_timeout`. Of several streams the most urgent sends first
//!    (`turns`).
//! 4. The requests that are being answered count as memory in addition to their responses: for the
//!    client and, beyond a few of each connection, for the site. Requests without memory are
//!    refused (`admission`).
//! 5. Frames that only cost work exhaust the `budget` of a connection. A connection ends when it is
//!    idle or its client abandons too many requests (`lifetime`), and one without a complete request
//!    may be evicted (`phase`).

mod admission;
mod answer;
mod budget;
mod carrier;
mod direction;
mod head;
pub mod huffman;
mod lifetime;
mod phase;
mod send;
mod shared;
mod tasks;
mod turns;

#[cfg(test)]
pub(crate) use self::admission::FREE_STREAMS;
pub(crate) use self::admission::StreamMemory;
pub(crate) use self::answer::{Answer, Facts, body_length, discard_body};
pub(crate) use self::budget::{BYTES_PER_CREDIT, Budget, MAX_KINDS};
pub(crate) use self::direction::{Gone, Incoming, Outgoing, Reset, Room};
pub(crate) use self::head::{RawHead, read_head};
#[cfg(test)]
pub(crate) use self::lifetime::SHUTDOWN_IDLE_TIMEOUT;
pub(crate) use self::lifetime::{Lifetime, MAX_ABANDONED};
pub(crate) use self::phase::ConnectionPhase;
pub(crate) use self::send::{SEND_BUFFER_SIZE, is_of_connection, shown_status};
pub(crate) use self::shared::Shared;
pub(crate) use self::tasks::{StreamEnd, StreamTasks};
pub(crate) use self::turns::{Priority, Turns};

/// Reason of the end of a connection, for the log.
pub(crate) const TOO_MANY_CANCELS: &str = "the client cancels more requests than it lets complete";

/// Reason of the end of a connection, for the log; the costliest type of frames follows.
pub(crate) const TOO_MANY_FRAMES: &str = "too many frames that transfer no data";

/// Maximum number of requests of one connection that are answered at the same time.
pub(crate) const MAX_STREAMS: u32 = 100;
