//! Commands of the control thread to the router threads, and the counters that it reads.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use howdah_http::drain::HandedOver;
use howdah_http::usage::Used;
use howdah_metrics::{Counts, Filter, KeptRequests};
use howdah_php_pool::queue::{Instance, Queue, RequestKey};
use howdah_quic::{Arrivals, FormerProcess, Inbox, Keys, Owner};
use howdah_routing::snapshot::Snapshot;
use howdah_upstream::servers::upstream::Upstream;
use howdah_wire::queue::WorkerId;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{oneshot, watch};

use crate::listener::{Accepted, ListeningSocket};

/// What a thread has counted since its last answer to a ping.
#[derive(Debug)]
pub struct Handover {
    /// Number of the thread.
    pub thread: u32,
    /// Time of the answer.
    pub at: Instant,
    /// Finished requests by site and listener; a pair may be there several times.
    pub requests: Vec<(Arc<str>, Arc<str>, Box<Counts>)>,
    /// Run times of scripts by application.
    pub scripts: Vec<(Arc<str>, Used)>,
}

/// The UDP socket of a listener, as one thread gets it.
#[derive(Debug)]
pub struct Http3Socket {
    /// The socket.
    pub fd: OwnedFd,
    /// Datagrams from other threads.
    pub arrivals: Arrivals,
    /// Inboxes of all threads.
    pub inboxes: Arc<[Inbox]>,
    /// Whether this process reads the socket; `None` if another thread does.
    pub reading: Option<watch::Receiver<Reading>>,
    /// The process that this one has replaced.
    pub former: Option<Arc<FormerProcess>>,
    /// Keys of the server.
    pub keys: Keys,
    /// This process and this thread.
    pub owner: Owner,
}

/// Whether a process reads its UDP sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// The former process does.
    NotYet,
    /// It does.
    Now,
    /// The new process does.
    NoMore,
}

/// A command to a router thread. `done` is sent when the thread has carried it out.
#[derive(Debug)]
pub enum ThreadCommand {
    /// Accept connections of a listener; ignored if the thread accepts them already.
    Listen {
        /// The listener's name.
        name: Arc<str>,
        /// Its socket.
        socket: ListeningSocket,
    },
    /// Serve HTTP/3 of a listener; ignored if the thread does already.
    ListenHttp3 {
        /// The listener's name.
        listener: Arc<str>,
        /// Name of its UDP socket.
        name: Arc<str>,
        /// The socket.
        socket: Http3Socket,
    },
    /// Close this thread's handle of a listening socket. Open connections continue.
    Pause {
        /// The listener's name.
        name: Arc<str>,
        /// Sent when the socket is closed.
        done: oneshot::Sender<()>,
    },
    /// Accept further connections, and close each with its response: the server is about to end.
    Leave(HandedOver),
    /// Keep the snapshot that routes requests on open connections of a listener which the next
    /// configuration does not have.
    AnnounceRemoval {
        /// The listener's name.
        name: Arc<str>,
        /// The last snapshot with this listener.
        last: Arc<Snapshot>,
        /// Sent when the snapshot is kept.
        done: oneshot::Sender<()>,
    },
    /// Close the connections of a removed listener as they become idle. All threads have paused it.
    RemoveListener {
        /// The listener's name.
        name: Arc<str>,
        /// Sent when the idle connections are closed.
        done: oneshot::Sender<()>,
    },
    /// Run the health checks of these upstreams.
    CheckHealth(Vec<Arc<Upstream>>),
    /// Forget merged directives of `.htaccess` files, as there is no memory for further ones.
    ForgetDirectives {
        /// Site that they belong to; `None` for all.
        site: Option<u64>,
    },
    /// Send the spans that wait, as the process that takes them is going to end.
    SendSpans(oneshot::Sender<()>),
    /// Show that the thread works, and hand over its counts.
    Ping(oneshot::Sender<Handover>),
    /// List the last requests of the thread.
    ListRequests {
        /// Which of them.
        filter: Arc<Filter>,
        /// Takes the list.
        done: oneshot::Sender<KeptRequests>,
    },
    /// Serve a connection that another thread has accepted.
    Serve(Accepted),
    /// Take responses of a new instance of an application.
    Attach {
        /// The instance.
        instance: Arc<Instance>,
        /// Queue of its application.
        queue: Arc<Queue>,
    },
    /// Fail the requests of an instance that has ended.
    Detach {
        /// Number of the instance.
        instance: u32,
        /// Reason of its end, for the log.
        reason: String,
    },
    /// A worker has started.
    WorkerStarted {
        /// Number of its instance.
        instance: u32,
        /// The worker.
        worker: WorkerId,
    },
    /// A worker has died.
    WorkerDied {
        /// Number of its instance.
        instance: u32,
        /// The worker.
        worker: WorkerId,
        /// Exit status or signal of the worker, for the log.
        how: Arc<str>,
    },
    /// Fail queued requests.
    Fail {
        /// The requests. Those of other threads are ignored.
        keys: Arc<[RequestKey]>,
        /// Reason, for the log.
        reason: String,
    },
    /// Stop serving.
    Quit {
        /// Finish the requests in progress; otherwise drop all connections.
        graceful: bool,
        /// Deadlines of a graceful end if another server accepts the new connections.
        handed_over: Option<HandedOver>,
        /// Sent when all connections are closed and the access log is written.
        finished: oneshot::Sender<()>,
    },
}

/// Another thread's handle of a router thread.
#[derive(Debug, Clone)]
pub struct ThreadHandle {
    commands: UnboundedSender<ThreadCommand>,
    counters: Arc<Counters>,
}

impl ThreadHandle {
    /// Creates the handle of a thread that is going to be started, and its receiver of commands.
    pub fn new() -> (Self, UnboundedReceiver<ThreadCommand>) {
        let (commands, receiver) = unbounded_channel();
        (ThreadHandle { commands, counters: Arc::default() }, receiver)
    }

    /// Sends a command. A thread that has ended ignores it.
    pub fn send(&self, command: ThreadCommand) {
        let _ = self.commands.send(command);
    }

    /// Returns the thread's counters.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }
}

/// Counters of a router thread since its start. Other threads read them, and count a connection in
/// [`Counters::accepted`] before they hand it over.
#[derive(Debug, Default)]
pub struct Counters {
    /// Accepted connections.
    pub accepted: AtomicU64,
    /// Closed connections.
    pub closed: AtomicU64,
    /// Requests in progress.
    pub active: AtomicU64,
    /// Requests received.
    pub requests: AtomicU64,
}

impl Counters {
    /// Returns the number of open connections.
    pub fn open(&self) -> u64 {
        self.accepted.load(Relaxed).saturating_sub(self.closed.load(Relaxed))
    }
}
