//! Room for new connections when descriptors run short.
//!
//! Each connection is an open file, and so are a file that is sent, a socket to another server and a
//! temporary file. Before a thread accepts a connection, it checks whether there is room ([`is_full`]):
//!
//! 1. for the number of connections, of all threads;
//! 2. for the number of open files. No thread counts them. The kernel gives out the lowest descriptor that
//!    is free, so at least as many files are open as the number of the newest descriptor says.
//!
//! If there is no room and a client waits in the backlog, the thread closes connections that wait for
//! their clients ([`make`]). [`howdah_http::eviction`] chooses them among the connections of this thread.
//! Connections are spread evenly over the threads, so each thread has about the same mixture.
//!
//! A connection with a request in hand is never closed here.

use std::cell::Cell;
use std::fmt;
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

use howdah_http::eviction::{self, Chosen, Client};
use howdah_sys::log::Level;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::process::{Resource, getrlimit};
use tokio::task::{spawn_local, yield_now};

use crate::thread::Shard;

/// Limit of open files of the process, and its division between connections and all else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// `RLIMIT_NOFILE`; `u64::MAX` without a limit.
    limit: u64,
}

impl Capacity {
    /// Reads the limit of this process.
    pub fn of_process() -> Self {
        Capacity { limit: getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX) }
    }

    /// Maximum number of connections. A quarter of the limit is for other files.
    fn connections(self) -> u64 {
        (self.limit - self.limit / 4).max(1)
    }

    /// Number of open files from which on no connection is accepted. The last eighth of the limit is
    /// for requests in hand, the control API and the log.
    fn files(self) -> u64 {
        (self.limit - self.limit / 8).max(1)
    }

    /// Maximum number of files that the cache of each of `threads` threads keeps open. All caches
    /// together have a sixteenth of the limit.
    pub fn cached_files(self, threads: u64) -> usize {
        usize::try_from(self.limit / 16 / threads.max(1)).unwrap_or(usize::MAX)
    }
}

/// State of a router thread: how short of descriptors the process is, and when the log was told.
#[derive(Debug)]
pub struct Shortage {
    capacity: Cell<Capacity>,
    /// Open files beyond [`Capacity::files`], as the newest descriptor shows; 0 for none.
    excess: Cell<usize>,
    /// Time of the last line in the log.
    logged: Cell<Option<Instant>>,
    /// Connections closed since then.
    closed: Cell<usize>,
}

impl Shortage {
    /// No shortage.
    pub fn new(capacity: Capacity) -> Self {
        Shortage {
            capacity: Cell::new(capacity),
            excess: Cell::new(0),
            logged: Cell::new(None),
            closed: Cell::new(0),
        }
    }
}

/// Interval between two checks for room while no connection can be closed.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Minimum interval between two lines of a thread about closed connections.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// One of this many waiting connections is closed at a time, at most [`MAX_BATCH`]. A choice takes time
/// in proportion to all of them, so a flood of connections must not cause a choice for each.
const BATCH_DIVISOR: usize = 64;
const MAX_BATCH: usize = 1024;

/// Records the number of a new descriptor. All lower numbers are in use.
pub fn note(shard: &Shard, fd: &OwnedFd) {
    let number = u64::try_from(fd.as_raw_fd()).unwrap_or_default();
    let excess = (number + 1).saturating_sub(shard.shortage.capacity.get().files());
    if excess > 0 {
        shard.shortage.excess.set(excess as usize);
    }
}

/// Records a failure to accept. Returns true if the process has run out of descriptors (`EMFILE`).
pub fn note_failure(shard: &Shard, error: &std::io::Error) -> bool {
    let is_short = Errno::from_io_error(error) == Some(Errno::MFILE);
    if is_short {
        // The limit may have been lowered since the start.
        let capacity = Capacity::of_process();
        shard.shortage.capacity.set(capacity);
        let excess = capacity.limit.saturating_sub(capacity.files());
        shard.shortage.excess.set(usize::try_from(excess).unwrap_or(usize::MAX).max(1));
    }
    is_short
}

/// Returns true if there is no room for another connection from this listening socket.
pub fn is_full(shard: &Shard, socket: &OwnedFd) -> bool {
    open(shard) >= shard.shortage.capacity.get().connections() || is_short(shard, socket)
}

fn open(shard: &Shard) -> u64 {
    shard.handles.iter().map(|handle| handle.counters().open()).sum()
}

/// Returns true if [`Capacity::files`] are open. Costs system calls only after a descriptor has shown
/// that.
fn is_short(shard: &Shard, socket: &OwnedFd) -> bool {
    let excess = shard.shortage.excess.take();
    if excess == 0 {
        return false;
    }
    match fcntl_dupfd_cloexec(socket, 0) {
        Ok(fd) => note(shard, &fd),
        Err(_) => shard.shortage.excess.set(excess),
    }
    shard.shortage.excess.get() > 0
}

/// Returns true if a client waits in the backlog.
pub fn is_wanted(socket: &OwnedFd) -> bool {
    let mut socket = [PollFd::new(socket, PollFlags::IN)];
    poll(&mut socket, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

/// Waits until there is room or no client waits in the backlog any more. Closes connections that wait
/// for their clients, if there are any.
pub async fn make(shard: &Rc<Shard>, listener: &str, socket: &OwnedFd) {
    // At first only of clients with more than one: another thread may have a heavier client.
    let mut least = 2;
    let mut is_logged = false;
    while is_full(shard, socket) && is_wanted(socket) {
        let has_closed = evict(shard, listener, least).await;
        if !has_closed && least == 1 && !std::mem::replace(&mut is_logged, true) {
            log(shard, listener, None);
        }
        if !has_closed {
            tokio::time::sleep(CHECK_INTERVAL).await;
            least = 1;
        }
    }
}

/// Closes connections that wait for their clients, of clients with at least `least` such connections.
/// Returns true if there were any.
pub async fn evict(shard: &Rc<Shard>, listener: &str, least: usize) -> bool {
    // Connections whose requests have come meanwhile take them first.
    settle().await;
    let drains = shard.drains();
    let candidates = drains.iter().flat_map(|drain| {
        let waiting = drain.waiting().into_iter();
        waiting.map(move |candidate| candidate.map(|place| (drain, place)))
    });
    let candidates: Vec<_> = candidates.collect();
    let count =
        (candidates.len() / BATCH_DIVISOR).clamp(1, MAX_BATCH).max(shard.shortage.excess.get());
    let chosen = eviction::choose(candidates, count, least);
    if let Some(Chosen { places, client }) = &chosen {
        places.iter().for_each(|(drain, place)| drain.evict(*place));
        shard.shortage.excess.set(0); // the next descriptor shows whether it was enough
        log(shard, listener, Some((places.len(), *client)));
        settle().await;
    }
    chosen.is_some()
}

/// Lets the runtime poll its sockets, then lets all woken tasks run.
async fn settle() {
    yield_now().await;
    let _ = spawn_local(async {}).await;
}

/// Logs that there is no room, and how many connections of which client were closed; at most once in
/// [`LOG_INTERVAL`].
fn log(shard: &Shard, listener: &str, closed: Option<(usize, Client)>) {
    let shortage = &shard.shortage;
    let all = shortage.closed.get() + closed.map_or(0, |(count, _)| count);
    shortage.closed.set(all);
    let now = Instant::now();
    if shortage.logged.get().is_some_and(|then| now.duration_since(then) < LOG_INTERVAL) {
        return;
    }
    shortage.logged.set(Some(now));
    shortage.closed.set(0);
    let (open, limit) = (open(shard), shard.shortage.capacity.get().limit);
    let write = |level, what: fmt::Arguments<'_>| {
        let full = format_args!(
            "listener {listener}: {open} connections are open, as many as the limit of open files \
             allows ({limit})"
        );
        shard.shared.log.write(level, format_args!("{full}; {what}"));
    };
    match closed {
        Some((_, client)) => write(
            Level::Warn,
            format_args!("closed {all} without a request in hand, most of them of {client}"),
        ),
        None => write(
            Level::Error,
            format_args!("all have a request in hand, so others wait until one ends"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_left_for_what_requests_need() {
        let shared = |limit| {
            let capacity = Capacity { limit };
            (capacity.connections(), capacity.files(), capacity.cached_files(2))
        };
        assert_eq!(shared(1024), (768, 896, 32));
        assert_eq!(shared(3), (3, 3, 0));
        assert_eq!(shared(0), (1, 1, 0));
        let (connections, files, cached) = shared(u64::MAX);
        assert!(connections > u64::MAX / 2 && files > connections && cached > 1 << 50);
    }
}
