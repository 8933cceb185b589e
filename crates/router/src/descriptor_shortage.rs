//! Makes room for new connections when descriptors run short.
//!
//! Each connection is an open file, and so are a file that is sent, a socket to another server and
//! a temporary file. Before a thread accepts a connection, it checks whether there is room
//! ([`is_full`]):
//!
//! 1. for the number of connections, of all threads;
//! 2. for the number of open files ([`howdah_pipeline::descriptors`]).
//!
//! If there is no room and a client waits in the backlog, the thread closes connections that wait
//! for their clients ([`make`]). [`howdah_http::eviction`] chooses them among the connections of
//! this thread. Connections are spread evenly over the threads, so each thread has about the same
//! mixture.
//!
//! A connection with a request in progress is never closed here.

use std::fmt;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use howdah_http::eviction::{self, Client, Selection};
use howdah_pipeline::thread::RouterThread;
use howdah_sys::log::Level;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::task::{spawn_local, yield_now};

/// Interval between two checks for room while no connection can be closed.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// One of this many waiting connections is closed at a time, at most [`MAX_BATCH`]. A choice takes
/// time in proportion to all of them, so a flood of connections must not cause a choice for each.
const BATCH_DIVISOR: usize = 64;
const MAX_BATCH: usize = 1024;

/// Returns true if there is no room for another connection from this listening socket.
pub fn is_full(thread: &RouterThread, socket: &OwnedFd) -> bool {
    thread.shortage.is_full(open_connections(thread), socket)
}

fn open_connections(thread: &RouterThread) -> u64 {
    thread.handles.iter().map(|handle| handle.counters().open()).sum()
}

/// Returns true if a client waits in the backlog.
pub fn has_pending_client(socket: &OwnedFd) -> bool {
    let mut socket = [PollFd::new(socket, PollFlags::IN)];
    poll(&mut socket, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

/// Waits until there is room or the backlog is empty. Closes connections that wait for their
/// clients, if there are any.
pub async fn make(thread: &Rc<RouterThread>, listener: &str, socket: &OwnedFd) {
    // At first only of clients with more than one: another thread may have a heavier client.
    let mut least = 2;
    let mut is_logged = false;
    while is_full(thread, socket) && has_pending_client(socket) {
        let has_closed = evict(thread, listener, least).await;
        if !has_closed && least == 1 && !std::mem::replace(&mut is_logged, true) {
            log(thread, listener, None);
        }
        if !has_closed {
            tokio::time::sleep(CHECK_INTERVAL).await;
            least = 1;
        }
    }
}

/// Closes connections that wait for their clients, of clients with at least `least` waiting
/// connections. Returns true if there were any.
pub async fn evict(thread: &Rc<RouterThread>, listener: &str, least: usize) -> bool {
    // Connections whose requests have come meanwhile take them first.
    settle().await;
    let drains = thread.listeners.drains();
    let candidates = drains.iter().flat_map(|drain| {
        let waiting = drain.waiting().into_iter();
        waiting.map(move |candidate| candidate.map(|place| (drain, place)))
    });
    let candidates: Vec<_> = candidates.collect();
    let count =
        (candidates.len() / BATCH_DIVISOR).clamp(1, MAX_BATCH).max(thread.shortage.excess());
    let chosen = eviction::choose(candidates, count, least);
    if let Some(Selection { places, client }) = &chosen {
        places.iter().for_each(|(drain, place)| drain.evict(*place));
        thread.shortage.reset();
        log(thread, listener, Some((places.len(), *client)));
        settle().await;
    }
    chosen.is_some()
}

/// Lets the runtime poll its sockets, then lets all woken tasks run.
async fn settle() {
    yield_now().await;
    let _ = spawn_local(async {}).await;
}

/// Logs that there is no room, how many connections were closed, and which client had most of them.
/// [`howdah_pipeline::descriptors::Shortage`] limits the number of lines.
fn log(thread: &RouterThread, listener: &str, closed: Option<(usize, Client)>) {
    let count = closed.map_or(0, |(count, _)| count);
    let Some(all) = thread.shortage.count_closed(count, Instant::now()) else { return };
    let (open, limit) = (open_connections(thread), thread.shortage.limit().get());
    let write = |level, what: fmt::Arguments<'_>| {
        let full = format_args!(
            "listener {listener}: {open} connections are open, as many as the limit of open files \
             allows ({limit})"
        );
        thread.shared.log.write(level, format_args!("{full}; {what}"));
    };
    match closed {
        Some((_, client)) => write(
            Level::Warn,
            format_args!("closed {all} without a request, most of them from {client}"),
        ),
        None => write(
            Level::Error,
            format_args!("all of them have a request, so new ones wait until a request ends"),
        ),
    }
}
