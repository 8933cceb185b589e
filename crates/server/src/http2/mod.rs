//! HTTP/2 (RFC 9113): one connection from its preface to its last stream.
//!
//! Frames, header compression and flow control are those of the crate `h2`. Here is what decides
//! how much a client can ask for:
//!
//! 1. A request becomes the text of an HTTP/1 head and is read by the same parser (`head`), so
//!    that limits, checks and what handlers see are the same.
//! 2. Each stream is answered by a task of its own (`stream`), through the same [`Handler`]. There
//!    are never more of them than [`STREAMS`], also if the client gives streams up and opens
//!    others: what it has started is counted until it has ended.
//! 3. A response is sent piece by piece as the client's windows have room (`send`), so that a
//!    stalled stream holds one piece, and that not longer than `send_timeout`.
//!    Of several streams the most urgent sends first (`turns`).
//! 4. A request for a WebSocket is answered as one of HTTP/1, and its stream is a tunnel from then
//!    on (`websocket`, `tunnel`).
//! 5. A client that gives up far more streams than it lets end is told to calm down and left.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use h2::server::{Builder, Connection, SendResponse};
use h2::{Reason, RecvStream};
use http::Request;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

mod head;
mod io;
mod link;
mod send;
mod stream;
mod tunnel;
mod turns;
mod websocket;

use self::io::Watched;
pub use self::io::{Io, PREFACE};
use self::stream::Ended;
use self::turns::Turns;
use crate::exchange::Handler;
use crate::http1::Draining;
use crate::http1::timer::Timer;
use crate::limits::Limits;
use crate::message::ConnectionInfo;

/// Requests that one connection may have answered at the same time.
const STREAMS: u32 = 100;

/// Bytes of a response that wait for a stream's turn.
const SEND_BUFFER: usize = 32 * 1024;

/// Bytes that a client may send of one request body, and of all, before somebody takes them.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 1024 * 1024;

/// So many more streams given up than ended are the end of a connection.
const STRIKES: u32 = 100;

/// How long a connection that was told to end may stay without a request.
const FAREWELL: Duration = Duration::from_secs(5);

/// Serves a connection to its end. `handler` makes a handler for each stream.
pub async fn serve<H: Handler + 'static>(
    io: Box<dyn Io>,
    info: Arc<ConnectionInfo>,
    handler: impl Fn() -> H,
    drain: Draining,
) {
    let limits = handler().limits();
    let blocked = Rc::new(Cell::new(None));
    let handshake = builder(&limits).handshake(Watched::new(io, Rc::clone(&blocked)));
    let Ok(Ok(connection)) = timeout(limits.header_timeout, handshake).await else { return };
    let turns = Turns::new(Rc::clone(&blocked));
    let mut driver = Driver {
        connection,
        tasks: JoinSet::new(),
        timer: Timer::default(),
        blocked,
        idle: limits.header_timeout.min(limits.idle_timeout),
        idle_since: Instant::now(),
        strikes: 0,
        ending: false,
    };
    while let Some((request, respond)) = driver.next(&limits, &drain).await {
        let connection = stream::Connection {
            handler: handler(),
            info: Arc::clone(&info),
            turns: Rc::clone(&turns),
            drain: drain.signal(),
        };
        driver.tasks.spawn_local(stream::answer(connection, request, respond));
        driver.idle = limits.idle_timeout;
    }
    // Handlers go on to their end, and learn that the client has left.
    driver.tasks.detach_all();
}

fn builder(limits: &Limits) -> Builder {
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(u32::try_from(limits.max_head).unwrap_or(u32::MAX))
        .max_send_buffer_size(SEND_BUFFER)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_pending_accept_reset_streams(STREAMS as usize)
        .max_local_error_reset_streams(Some(STRIKES as usize))
        .enable_connect_protocol();
    builder
}

/// What a connection does between two requests.
struct Driver {
    connection: Connection<Watched, Bytes>,
    tasks: JoinSet<Ended>,
    timer: Timer,
    /// Since when the client takes nothing of what is to be sent.
    blocked: Rc<Cell<Option<Instant>>>,
    /// How long the connection may be without a request.
    idle: Duration,
    idle_since: Instant,
    strikes: u32,
    ending: bool,
}

type Accepted = (Request<RecvStream>, SendResponse<Bytes>);

impl Driver {
    /// The next request; `None` at the end of the connection.
    async fn next(&mut self, limits: &Limits, drain: &Draining) -> Option<Accepted> {
        poll_fn(|cx| {
            while let Poll::Ready(Some(ended)) = self.tasks.poll_join_next(cx) {
                self.count(ended.unwrap_or(Ended::GivenUp));
            }
            if drain.poll(cx) && !self.ending {
                self.end();
            }
            // What drives the connection takes no requests while there are too many.
            let next = match self.tasks.len() < STREAMS as usize {
                true => self.connection.poll_accept(cx),
                false => self.connection.poll_closed(cx).map(|_| None),
            };
            match next {
                Poll::Ready(Some(Ok(accepted))) => return Poll::Ready(Some(accepted)),
                Poll::Ready(_) => return Poll::Ready(None),
                Poll::Pending => {}
            }
            loop {
                let blocked = self.blocked.get().map(|since| since + limits.send_timeout);
                let idle = self.tasks.is_empty().then(|| self.idle_since + self.idle);
                let Some(deadline) = blocked.into_iter().chain(idle).min() else {
                    return Poll::Pending;
                };
                if self.timer.poll(cx, deadline).is_pending() {
                    return Poll::Pending;
                }
                if self.ending || Some(deadline) == blocked {
                    return Poll::Ready(None);
                }
                self.end();
                cx.waker().wake_by_ref(); // to have the client told
            }
        })
        .await
    }

    /// Takes no more streams, and ends with the last one.
    fn end(&mut self) {
        self.connection.graceful_shutdown();
        self.ending = true;
        self.idle = FAREWELL;
        self.idle_since = Instant::now();
    }

    fn count(&mut self, ended: Ended) {
        self.idle_since = Instant::now();
        self.strikes = match ended {
            Ended::Answered => self.strikes.saturating_sub(1),
            Ended::GivenUp => self.strikes + 1,
        };
        if self.strikes > STRIKES {
            self.strikes = 0;
            self.connection.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
        }
    }
}
