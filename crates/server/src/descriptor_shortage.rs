//! Makes room for new connections when descriptors run short.
//!
//! Each connection is an open file, and so are a file that is sent, a socket to another server and
//! a temporary file. Before a thread accepts a connection, it checks whether there is room
//! ([`is_full`]):
//!
//! 1. for the number of connections, of all threads;
//! 2. for the number of open files ([`crate::descriptors`]).
//!
//! If there is no room and a client waits in the backlog, the thread has connections closed that
//! wait for their clients ([`make`]). [`howdah_http::eviction`] chooses them among the connections
//! of all threads, as the connections of a client are not spread evenly: a thread may have only one
//! connection that waits, of an honest client, while another thread has those of a flood. One thread
//! at a time makes room:
//!
//! 1. It asks all threads for the tallies of their waiting connections ([`count`]).
//! 2. It divides the number of connections to close among clients and threads.
//! 3. It tells each thread how many of which client to close ([`close`]).
//!
//! A connection with a request in progress is never closed here.

use std::fmt;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use howdah_http::eviction::{self, Client, Quotas, Tallies};
use howdah_sys::log::Level;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::sync::{MutexGuard, oneshot};
use tokio::task::{spawn_local, yield_now};
use tokio::time::timeout_at;

use crate::thread::{RouterThread, ThreadCommand, ThreadHandle};

/// Interval between two checks for room while no connection can be closed.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Time within which all threads must have answered. The connections of a thread that has not are
/// left out: it may be blocked by a file, and new connections must not wait for that.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

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

/// Waits until there is room or no client waits in the backlog any more. Closes connections that
/// wait for their clients, if there are any.
pub async fn make(thread: &Rc<RouterThread>, listener: &str, socket: &OwnedFd) {
    let mut is_logged = false;
    while is_full(thread, socket) && has_pending_client(socket) {
        let turn = thread.shared.making_room.lock().await;
        // Another thread has had the turn before, and may have made room.
        if !is_full(thread, socket) {
            return;
        }
        let evicted = evict_in_turn(thread, listener, turn).await;
        if evicted.is_none() && !std::mem::replace(&mut is_logged, true) {
            log(thread, listener, None);
        }
        if evicted.unwrap_or_default() == 0 {
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
    }
}

/// Closes connections that wait for their clients. Returns true if there were any.
pub async fn evict(thread: &Rc<RouterThread>, listener: &str) -> bool {
    let turn = thread.shared.making_room.lock().await;
    evict_in_turn(thread, listener, turn).await.is_some()
}

/// Returns the number of connections that were closed; `None` if no connection waits for its client.
async fn evict_in_turn(
    thread: &RouterThread,
    listener: &str,
    _turn: MutexGuard<'_, ()>,
) -> Option<usize> {
    let excess = thread.shortage.excess();
    let (closed, client) = close_heaviest(&thread.handles, excess, ANSWER_TIMEOUT).await?;
    if closed > 0 {
        thread.shortage.reset();
        log(thread, listener, Some((closed, client)));
    }
    Some(closed)
}

/// Closes connections of the clients with most of them on all threads, at least `least` if so many
/// wait. Returns their number, and the client that most of them were of; `None` if none waits.
async fn close_heaviest(
    handles: &[ThreadHandle],
    least: usize,
    timeout: Duration,
) -> Option<(usize, Client)> {
    let tallies = ask(handles, timeout, ThreadCommand::CountWaiting).await;
    let tallies: Vec<_> = tallies.into_iter().map(Option::unwrap_or_default).collect();
    let waiting: usize = tallies.iter().map(Tallies::total).sum();
    let count = (waiting / BATCH_DIVISOR).clamp(1, MAX_BATCH).max(least);
    let quotas = eviction::divide(&tallies, count);
    let client = eviction::most_affected(&quotas)?;
    let affected = handles.iter().zip(&quotas).filter(|(_, quotas)| !quotas.is_empty());
    let (affected, mut quotas): (Vec<_>, Vec<_>) = affected.map(|(h, q)| (h, q.clone())).unzip();
    let mut quotas = quotas.drain(..);
    let closed = ask(affected, timeout, |closed| ThreadCommand::CloseWaiting {
        quotas: quotas.next().unwrap_or_default(),
        closed,
    });
    let closed = closed.await;
    Some((closed.into_iter().flatten().sum(), client))
}

/// Sends a command to each of these threads. Returns their answers; `None` for a thread that has ended or does
/// not answer in `timeout`.
async fn ask<'h, T>(
    handles: impl IntoIterator<Item = &'h ThreadHandle>,
    timeout: Duration,
    mut command: impl FnMut(oneshot::Sender<T>) -> ThreadCommand,
) -> Vec<Option<T>> {
    let mut answers = Vec::new();
    for handle in handles {
        let (answer, receiver) = oneshot::channel();
        handle.send(command(answer));
        answers.push(receiver);
    }
    let deadline = tokio::time::Instant::now() + timeout;
    let mut received = Vec::new();
    for answer in answers {
        received.push(timeout_at(deadline, answer).await.ok().and_then(Result::ok));
    }
    received
}

/// Counts the connections of this thread that wait for their clients.
pub async fn count(thread: Rc<RouterThread>, answer: oneshot::Sender<Tallies>) {
    // Connections whose requests have come meanwhile take them first.
    settle().await;
    let drains = thread.listeners.drains();
    let candidates: Vec<_> = drains.iter().flat_map(|drain| drain.waiting()).collect();
    let _ = answer.send(Tallies::of(&candidates));
}

/// Closes connections of this thread that wait for their clients, up to these quotas. The answer is
/// sent when they are closed.
pub async fn close(thread: Rc<RouterThread>, quotas: Quotas, closed: oneshot::Sender<usize>) {
    let drains = thread.listeners.drains();
    let candidates = drains.iter().flat_map(|drain| {
        let waiting = drain.waiting().into_iter();
        waiting.map(move |candidate| candidate.map(|place| (drain, place)))
    });
    let places = eviction::select(candidates.collect(), &quotas);
    places.iter().for_each(|(drain, place)| drain.evict(*place));
    settle().await;
    let _ = closed.send(places.len());
}

/// Lets the runtime poll its sockets, then lets all woken tasks run.
async fn settle() {
    yield_now().await;
    let _ = spawn_local(async {}).await;
}

/// Logs that there is no room, how many connections were closed, and which client had most of them.
/// [`crate::descriptors::Shortage`] limits the number of lines.
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

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use howdah_http::eviction::Candidate;
    use tokio::sync::mpsc::UnboundedReceiver;
    use tokio::time::sleep;

    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    fn client(n: u8) -> Client {
        Client::of(Some(SocketAddr::from(([192, 0, 2, n], 1))))
    }

    fn waiting(n: u8, connections: u64) -> Vec<Candidate<u64>> {
        let one = |key| Candidate { client: client(n), is_idle: false, since: key, key };
        (0..connections).map(one).collect()
    }

    /// Plays a thread with these connections. Returns its quotas.
    async fn play(
        mut commands: UnboundedReceiver<ThreadCommand>,
        candidates: Vec<Candidate<u64>>,
        delay: Option<Duration>,
    ) -> Quotas {
        let Some(ThreadCommand::CountWaiting(answer)) = commands.recv().await else {
            panic!("not asked")
        };
        if let Some(delay) = delay {
            sleep(delay).await;
        }
        answer.send(Tallies::of(&candidates)).unwrap();
        let Some(ThreadCommand::CloseWaiting { quotas, closed }) = commands.recv().await else {
            return Quotas::new();
        };
        closed.send(eviction::select(candidates, &quotas).len()).unwrap();
        quotas
    }

    fn run<T>(test: impl Future<Output = T>) -> T {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_time().build().unwrap().block_on(test)
    }

    #[test]
    fn the_only_connection_of_a_thread_waits_for_the_answer_of_one_with_a_flood() {
        run(async {
            let (first, first_commands) = ThreadHandle::new();
            let (second, second_commands) = ThreadHandle::new();
            let handles = [first, second];
            let (closed, honest, flood) = tokio::join!(
                async move { close_heaviest(&handles, 0, LONG).await },
                play(first_commands, waiting(1, 1), None),
                play(second_commands, waiting(2, 128), Some(Duration::from_millis(50))),
            );
            assert_eq!(closed, Some((2, client(2))));
            assert_eq!((honest, flood), (Quotas::new(), Quotas::from([(client(2), 2)])));
        });
    }

    #[test]
    fn a_thread_that_has_ended_or_is_blocked_does_not_keep_others_from_closing() {
        run(async {
            let (first, commands) = ThreadHandle::new();
            let (ended, _) = ThreadHandle::new();
            let (blocked, _kept) = ThreadHandle::new();
            let handles = [first, ended, blocked];
            let (closed, quotas) = tokio::join!(
                close_heaviest(&handles, 5, Duration::from_millis(50)),
                play(commands, waiting(1, 40), None),
            );
            assert_eq!(closed, Some((5, client(1))));
            assert_eq!(quotas, Quotas::from([(client(1), 5)]));
        });
    }

    #[test]
    fn nothing_is_closed_if_no_connection_waits() {
        run(async {
            let (ended, _) = ThreadHandle::new();
            assert_eq!(close_heaviest(&[ended], 3, LONG).await, None);
        });
    }
}
