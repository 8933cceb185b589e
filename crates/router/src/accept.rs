//! Accepting connections, and spreading them over the router threads.
//!
//! Every thread accepts from every listening socket. A thread that has accepted a connection
//! although another one has clearly fewer hands it over, so that few connections are spread as
//! evenly as many.

use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use howdah_pipeline::listener::{Accepted, Family};
use howdah_pipeline::thread::{RouterThread, ThreadCommand, ThreadHandle};
use howdah_sys::log::Level;
use howdah_sys::reactor;
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::sync::Notify;

use crate::connection;
use crate::descriptor_shortage;

/// Maximum number of connections that a thread takes from the backlog after it was told to stop.
const MAX_LAST_CONNECTIONS: usize = 4096;

/// Pause after connections were closed because the machine is short of files.
const SHORTAGE_PAUSE: Duration = Duration::from_millis(20);

/// Pause after a failure to accept.
const FAILURE_PAUSE: Duration = Duration::from_millis(500);

/// Accepts connections until `stop` is notified. Connections in the backlog are served, too. A new
/// connection is not registered with this thread's reactor, since another thread may get it.
pub async fn accept_connections(
    thread: Rc<RouterThread>,
    name: Arc<str>,
    (socket, family): (OwnedFd, Family),
    stop: Rc<Notify>,
) {
    let (thread, name) = (&thread, &name);
    let socket = match reactor::readable(socket) {
        Ok(socket) => socket,
        Err(error) => {
            return thread.shared.log.write(Level::Alert, format_args!("listener {name}: {error}"));
        }
    };
    let accept = |socket: &OwnedFd| {
        let (stream, info) = family.accept(socket)?;
        thread.shortage.note(&stream);
        io::Result::Ok((stream, info))
    };
    let accept_if_room = |socket: &OwnedFd| {
        let is_full = descriptor_shortage::is_full(thread, socket);
        if is_full && descriptor_shortage::has_pending_client(socket) {
            return Ok(None);
        }
        accept(socket).map(Some)
    };
    let next = async || loop {
        match socket.async_io(Interest::READABLE, accept_if_room).await {
            Ok(Some(accepted)) => return accepted,
            Ok(None) => descriptor_shortage::make(thread, name, socket.get_ref()).await,
            Err(error) => pause_after(thread, name, &error).await,
        }
    };
    let stopped = stop.notified();
    tokio::pin!(stopped);
    loop {
        let (stream, info) = tokio::select! {
            accepted = next() => accepted,
            () = &mut stopped => break,
        };
        let accepted = Accepted { stream, info: Arc::new(info), listener: Arc::clone(name) };
        // Counted before the connection is served, so that the limit holds in between.
        match less_loaded(thread) {
            Some(other) => {
                other.counters().accepted.fetch_add(1, Relaxed);
                other.send(ThreadCommand::Serve(accepted));
            }
            None => {
                thread.counters.accepted.fetch_add(1, Relaxed);
                connection::start(thread, accepted);
            }
        }
    }
    // Closing the socket would make the kernel reset the connections in its backlog. Other threads
    // may have ended, so this one takes them.
    for _ in 0..MAX_LAST_CONNECTIONS {
        let Ok((stream, info)) = accept(socket.get_ref()) else { break };
        thread.counters.accepted.fetch_add(1, Relaxed);
        let accepted = Accepted { stream, info: Arc::new(info), listener: Arc::clone(name) };
        connection::start(thread, accepted);
    }
}

/// Waits after a failure to accept. Without descriptors or memory the connection stays in the
/// backlog, and the next try would fail like this one.
async fn pause_after(thread: &Rc<RouterThread>, name: &Arc<str>, error: &io::Error) {
    use std::io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    if matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted)
        || thread.shortage.note_failure(error)
    {
        return;
    }
    // The whole machine may be short of files, not only this process.
    let is_short = error.raw_os_error() == Some(Errno::NFILE.raw_os_error());
    if is_short && descriptor_shortage::evict(thread, name, 1).await {
        tokio::time::sleep(SHORTAGE_PAUSE).await;
        return;
    }
    thread.shared.log.write(
        Level::Error,
        format_args!("listener {name}: cannot accept: {error}; the next try is in 0.5 s"),
    );
    tokio::time::sleep(FAILURE_PAUSE).await;
}

/// Returns a thread that has clearly fewer connections than this one: to hand one over costs a
/// system call and wakes the other thread.
fn less_loaded(thread: &RouterThread) -> Option<&ThreadHandle> {
    let serving = thread.handles.iter().take(thread.shared.threads.load(Relaxed));
    let least = serving.min_by_key(|handle| handle.counters().open())?;
    let own = thread.counters.open();
    (least.counters().open() + own / 8 < own).then_some(least)
}
