//! HTTP/2 (RFC 9113): one connection from its preface to its last stream.
//!
//! Frames, header compression and flow control are those of the crate `h2`. Here is what decides
//! how much a client can ask for:
//!
//! 1. A request becomes the text of an HTTP/1 head and is read by the same parser (`head`), so
//!    that limits, checks and what handlers see are the same.
//! 2. Each stream is answered through the same [`Handler`] (`stream`), by a task of its own if it has to
//!    wait for anything (`answers`). There are never more of them than [`STREAMS`], also if the client
//!    gives streams up and opens others: what it has started is counted until it has ended.
//! 3. A response is sent piece by piece as the client's windows have room (`send`), so that a
//!    stalled stream holds one piece, and that not longer than `send_timeout`.
//!    Of several streams the most urgent sends first (`turns`).
//! 4. A request for a WebSocket is answered as one of HTTP/1, and its stream is a tunnel from then
//!    on (`websocket`, `tunnel`).
//! 5. `h2` passes over a fragment in `:path` and pseudo-header fields in a trailer. The frames are
//!    looked at on their way to it (`frames`, `blocks`, `hpack`), so that such requests are refused.
//! 6. A client that gives up far more streams than it lets end, or has frames read and answered that
//!    serve nothing (`budget`), is told to calm down and left.

use std::cell::Cell;
use std::fmt::Display;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use h2::server::{Builder, Connection, SendResponse};
use h2::{Reason, RecvStream};
use http::Request;
use tokio::task::yield_now;
use tokio::time::{Instant, timeout};

mod answers;
pub mod blocks;
mod budget;
pub mod frames;
mod head;
pub mod hpack;
pub mod huffman;
mod io;
mod link;
mod send;
mod stream;
mod tunnel;
mod turns;
mod waiting;
mod websocket;

use self::answers::Answers;
use self::blocks::Flaws;
use self::budget::Budget;
use self::io::Watched;
pub use self::io::{Io, PREFACE};
use self::stream::Ended;
use self::turns::Turns;
use self::waiting::Waiting;
use crate::drain::Draining;
use crate::exchange::Handler;
use crate::limits::Limits;
use crate::message::ConnectionInfo;
use crate::timer::Timer;

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
///
/// Boxed, so that a connection that could have spoken HTTP/2 and does not is a small task.
pub fn serve<H: Handler + 'static>(
    io: Box<dyn Io>,
    info: Arc<ConnectionInfo>,
    handler: impl Fn() -> H,
    drain: Draining,
) -> impl Future<Output = ()> {
    Box::pin(run(io, info, handler, drain))
}

async fn run<H: Handler + 'static>(
    io: Box<dyn Io>,
    info: Arc<ConnectionInfo>,
    handler: impl Fn() -> H,
    drain: Draining,
) {
    let limits = handler().limits();
    let blocked = Rc::new(Cell::new(None));
    let budget = Rc::new(Budget::new(Instant::now()));
    let flaws = Rc::new(Flaws::default());
    let io = Watched::new(io, Rc::clone(&blocked), Rc::clone(&budget), Rc::clone(&flaws));
    let handshake = builder(&limits).handshake(io);
    let cut_off = |why: &dyn Display| handler().cut_off(&info, why);
    let handshake = pin!(timeout(limits.header_timeout, handshake));
    let connection = match drain.unless_evicted(handshake).await {
        Some(Ok(Ok(connection))) => connection,
        Some(Ok(Err(error))) => return broken(&error, &budget, &cut_off),
        Some(Err(_)) | None => return,
    };
    let waiting = Rc::new(Waiting::new(drain));
    let turns = Turns::new(Rc::clone(&blocked));
    let mut driver = Driver {
        connection,
        came: Vec::new(),
        over: false,
        timer: Timer::default(),
        blocked,
        budget: Rc::clone(&budget),
        idle: limits.header_timeout.min(limits.idle_timeout),
        idle_since: Instant::now(),
        strikes: 0,
        ending: false,
        is_cut_off: false,
    };
    let mut answers = Answers::default();
    while driver.next(&mut answers, &limits, &waiting, &cut_off).await {
        poll_fn(|cx| {
            for (request, respond) in driver.came.drain(..) {
                let connection = stream::Connection {
                    handler: handler(),
                    info: Arc::clone(&info),
                    turns: Rc::clone(&turns),
                    budget: Rc::clone(&budget),
                    waiting: Rc::clone(&waiting),
                    flaws: Rc::clone(&flaws),
                };
                answers.begin(stream::answer(connection, request, respond), cx);
            }
            Poll::Ready(())
        })
        .await;
        answers.rest();
        driver.idle = limits.idle_timeout;
    }
    waiting.end();
    // Handlers go on to their end, and learn that the client has left.
    answers.detach();
}

/// Who is told that a connection is ended for what its client does.
type CutOff<'a> = &'a dyn Fn(&dyn Display);

/// A connection has ended with an error; the client's are told.
fn broken(error: &h2::Error, budget: &Budget, cut_off: CutOff<'_>) {
    match error.reason() {
        Some(reason @ Reason::ENHANCE_YOUR_CALM) if error.is_library() => {
            cut_off(&format_args!("{reason}, mostly {} frames", budget.mostly()));
        }
        Some(reason) if error.is_library() => cut_off(&reason),
        _ => {}
    }
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
    /// Requests that are to be answered now.
    came: Vec<Accepted>,
    /// No more will come.
    over: bool,
    timer: Timer,
    /// Since when the client takes nothing of what is to be sent.
    blocked: Rc<Cell<Option<Instant>>>,
    /// What the client may still have read.
    budget: Rc<Budget>,
    /// How long the connection may be without a request.
    idle: Duration,
    idle_since: Instant,
    strikes: u32,
    ending: bool,
    /// It is ended for what the client does.
    is_cut_off: bool,
}

type Accepted = (Request<RecvStream>, SendResponse<Bytes>);

impl Driver {
    /// Waits for requests, those that come together at once: their answers leave together then.
    /// `false` at the end of the connection.
    async fn next<F>(
        &mut self,
        answers: &mut Answers<F>,
        limits: &Limits,
        waiting: &Waiting,
        cut_off: CutOff<'_>,
    ) -> bool
    where
        F: Future<Output = Ended> + 'static,
    {
        if self.over {
            return false;
        }
        let mut waited = false;
        let goes_on = poll_fn(|cx| {
            while let Some(ended) = answers.poll_ended(cx) {
                self.count(ended);
            }
            if waiting.poll_draining(cx) && !self.ending {
                self.end();
            }
            if self.strikes > STRIKES || self.budget.is_spent(Instant::now) {
                self.calm(cut_off);
            }
            // What drives the connection takes no requests while there are too many.
            let next = loop {
                let next = match answers.waiting() + self.came.len() < STREAMS as usize {
                    true => self.connection.poll_accept(cx),
                    false => self.connection.poll_closed(cx).map(|end| end.err().map(Err)),
                };
                match next {
                    Poll::Ready(Some(Ok(accepted))) => {
                        self.budget.earn_request(accepted.0.headers());
                        self.came.push(accepted);
                    }
                    Poll::Ready(Some(Err(error))) => {
                        if !std::mem::replace(&mut self.is_cut_off, true) {
                            broken(&error, &self.budget, cut_off);
                        }
                        break Poll::Ready(());
                    }
                    next => break next.map(drop),
                }
            };
            self.over = next.is_ready();
            if !self.came.is_empty() {
                waiting.begin();
                return Poll::Ready(true);
            }
            waiting.wait(answers.waiting(), self.blocked.get().is_some());
            // Handlers that wait for bodies learn of it when the connection is dropped.
            if self.over || waiting.poll_evicted(cx) {
                return Poll::Ready(false);
            }
            waited = true;
            loop {
                let blocked = self.blocked.get().map(|since| since + limits.send_timeout);
                let idle = answers.is_empty().then(|| self.idle_since + self.idle);
                let Some(deadline) = blocked.into_iter().chain(idle).min() else {
                    return Poll::Pending;
                };
                if self.timer.poll(cx, deadline).is_pending() {
                    return Poll::Pending;
                }
                if self.ending || Some(deadline) == blocked {
                    return Poll::Ready(false);
                }
                self.end();
                cx.waker().wake_by_ref(); // to have the client told
            }
        })
        .await;
        if goes_on && !waited {
            yield_now().await; // other connections have their turn
        }
        goes_on
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
    }

    /// Ends the connection with all its streams.
    fn calm(&mut self, cut_off: CutOff<'_>) {
        if std::mem::replace(&mut self.is_cut_off, true) {
            return;
        }
        self.connection.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
        match self.strikes > STRIKES {
            true => cut_off(&"it gives up more requests than it lets end"),
            false => {
                let kind = self.budget.mostly();
                cut_off(&format_args!("it sends frames that serve nothing, mostly {kind} frames"));
            }
        }
    }
}
