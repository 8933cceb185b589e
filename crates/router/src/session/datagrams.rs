//! Sessions of clients that send datagrams (UDP). One thread has all those of a listener.
//!
//! A datagram of a client that has no session begins one, within the limits of the listener and of
//! open files. At the end of the server sessions go on, and no others begin. If another server has
//! taken the socket over, it gets the datagrams, and answers that are on the way are still passed.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use howdah_http::drain::DrainRegistration;
use howdah_http::error_status::RequestError;
use howdah_http::forward::{End, Forwarded};
use howdah_http::message::ConnectionInfo;
use howdah_limits::sessions;
use howdah_pipeline::handler::RequestHandler;
use howdah_pipeline::listener::canonical;
use howdah_pipeline::thread::RouterThread;
use howdah_stream::connect::{answered, connect_datagrams, failed};
use howdah_stream::datagrams::session::Session;
use howdah_stream::datagrams::socket::{Batch, ClientSocket};
use howdah_stream::datagrams::table::{Client, Table};
use howdah_stream::hops::Ends;
use howdah_stream::steps::Hello;
use howdah_sys::clock;
use howdah_sys::log::Level;
use howdah_upstream::servers::upstream::Upstream;
use howdah_wire::proxy_protocol::{Header, Version};
use tokio::sync::Notify;
use tokio::task::spawn_local;

use super::{decide, describe, report};
use crate::descriptor_shortage;

/// Of the files that may be open, sessions of a listener are at most one in this many.
const DESCRIPTORS_DIVISOR: u64 = 4;

/// Maximum number of sessions of a listener.
const MAX_SESSIONS: u64 = 16 * 1024;

/// Status of a session that is ended for others, or with its listener.
const GAVE_WAY: u16 = 503;

/// Minimum interval between two lines about sessions for which there is no room.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// Pause after a failure to read.
const FAILURE_PAUSE: Duration = Duration::from_millis(100);

/// A listener for datagrams.
struct Datagrams {
    thread: Rc<RouterThread>,
    name: Arc<str>,
    socket: ClientSocket,
    /// A copy of the socket, to look for the shortage of files.
    probe: OwnedFd,
    table: RefCell<Table<Rc<Session>>>,
    /// Notified at the end of a session.
    ended: Notify,
    /// Time of the last line about sessions for which there is no room.
    logged_at: Cell<Option<Instant>>,
}

/// Takes the datagrams of a listener until `stop` is notified.
pub(crate) async fn serve(
    thread: Rc<RouterThread>,
    name: Arc<str>,
    socket: OwnedFd,
    stop: Rc<Notify>,
) {
    let opened = socket.try_clone().and_then(|probe| Ok((ClientSocket::new(socket)?, probe)));
    let (socket, probe) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            return thread.shared.log.write(Level::Alert, format_args!("listener {name}: {error}"));
        }
    };
    let (table, ended, logged_at) = (RefCell::default(), Notify::new(), Cell::new(None));
    let listener = Rc::new(Datagrams { thread, name, socket, probe, table, ended, logged_at });
    let drain = listener.thread.listeners.connection(&listener.name);
    let mut batch = Batch::default();
    let mut takes_new = true;
    loop {
        let read = tokio::select! {
            read = listener.socket.receive(&mut batch) => read,
            () = stop.notified(), if takes_new => {
                takes_new = false;
                let is_left = drain.handed_over().is_some_and(|handed| !handed.is_accepting);
                if !drain.is_draining() {
                    // The socket is to be closed.
                    listener.end_all().await;
                }
                if is_left || !drain.is_draining() {
                    return;
                }
                continue;
            }
            () = listener.all_ended(), if !takes_new => return,
        };
        match read {
            Ok(()) => batch.datagrams().for_each(|(client, datagram)| {
                listener.take(client, datagram, takes_new);
            }),
            Err(error) => {
                let problem = format_args!("listener {}: cannot read: {error}", listener.name);
                listener.thread.shared.log.write(Level::Error, problem);
                tokio::time::sleep(FAILURE_PAUSE).await;
            }
        }
    }
}

impl Datagrams {
    /// Passes a datagram to its session, or begins one.
    fn take(self: &Rc<Self>, client: Client, datagram: &[u8], takes_new: bool) {
        let mut table = self.table.borrow_mut();
        if let Some(session) = table.get(&client).filter(|one| !one.is_full() && !one.has_ended()) {
            let session = Rc::clone(session);
            if session.is_answered() {
                table.confirm(&client);
            }
            drop(table);
            return session.deliver(datagram);
        }
        drop(table);
        if takes_new {
            self.begin(client, datagram);
        }
    }

    /// Begins a session with its first datagram, if there is room and the limits permit it.
    fn begin(self: &Rc<Self>, client: Client, datagram: &[u8]) {
        let limit = self.thread.shortage.limit().get() / DESCRIPTORS_DIVISOR;
        let is_full = self.table.borrow().len() as u64 >= limit.clamp(1, MAX_SESSIONS)
            || descriptor_shortage::is_full(&self.thread, &self.probe);
        if is_full {
            self.log_shortage();
            let evicted = self.table.borrow_mut().evict();
            match evicted {
                Some(session) => session.end(End::Client),
                None => return,
            }
        }
        let info = Arc::new(ConnectionInfo {
            peer: Some(canonical(client.peer)),
            local: Some(canonical(self.socket.address_for(&client))),
            number: ConnectionInfo::next_number(),
            ..ConnectionInfo::default()
        });
        let permits = {
            let snapshot = self.thread.snapshot_for(&self.name);
            let Some(found) = snapshot.listeners.get(&*self.name) else { return };
            let now = clock::monotonic_us() * 1000;
            match sessions::begin(&found.limit, info.peer, now) {
                Ok(permits) => permits,
                Err(_) => return,
            }
        };
        self.thread.counters.accepted.fetch_add(1, Relaxed);
        let handler = RequestHandler::new(&self.thread, &self.name);
        let drain = self.thread.listeners.connection(&self.name);
        let chosen = decide(&handler, &info, Hello::None);
        let chosen = chosen.and_then(|upstream| upstream.ok_or(RequestError::NoResponse));
        let upstream = match chosen {
            Ok(upstream) => upstream,
            Err(error) => {
                handler.begin_session();
                let id = handler.thread().request_id();
                let request = describe(&info, id, ("CONNECT", "-", "UDP"));
                let nothing = Forwarded { from_client: 0, to_client: 0, end: End::Client };
                return report(&handler, &request, Instant::now(), error.status(), &nothing);
            }
        };
        let header = header(&upstream, info.peer, info.local);
        let session = Rc::new(Session::new(upstream.config.udp.clone(), header));
        session.deliver(datagram);
        let number = self.table.borrow_mut().insert(client, Rc::clone(&session));
        let listener = Rc::clone(self);
        spawn_local(async move {
            listener.run(&handler, &upstream, &session, &client, &info, &drain).await;
            listener.table.borrow_mut().remove(number);
            listener.ended.notify_one();
            drop(permits);
        });
    }

    /// Serves a session to its end, and logs it.
    async fn run(
        &self,
        handler: &RequestHandler,
        upstream: &Arc<Upstream>,
        session: &Session,
        client: &Client,
        info: &Arc<ConnectionInfo>,
        drain: &DrainRegistration,
    ) {
        let started_at = Instant::now();
        handler.begin_session();
        let id = handler.thread().request_id();
        let request = describe(info, id, ("CONNECT", &upstream.name, "UDP"));
        request.handling.set_site(Arc::clone(&upstream.name));
        let proxy = &self.thread.proxy;
        let came = Ends::new((client.peer, self.socket.address_for(client)));
        let connecting = connect_datagrams(proxy, upstream, &request, started_at, Some(came));
        let connected = tokio::select! {
            connected = connecting => Some(connected),
            _ = session.ended() => None,
        };
        let (status, end) = match connected {
            None => (GAVE_WAY, End::Client),
            Some(Err(error)) => (error.status(), End::Server),
            Some(Ok(((server, _hop), active))) => {
                let answer = || answered(proxy, upstream, &active);
                let end = session.run(server, &self.socket, client, drain, answer).await;
                let problem = match end {
                    End::Server => Some((RequestError::NoResponse, "takes no datagrams")),
                    End::TimedOut if session.is_unanswered() => {
                        Some((RequestError::TimedOut, "no answer (timeouts/tunnel)"))
                    }
                    _ => None,
                };
                if let Some((_, problem)) = problem {
                    failed(proxy, upstream, &active, &request, format_args!("{problem}"));
                }
                let usual = if end == End::Client { GAVE_WAY } else { 200 };
                (problem.map_or(usual, |(error, _)| error.status()), end)
            }
        };
        report(handler, &request, started_at, status, &session.forwarded(end));
    }

    /// Ends all sessions, which have copies of the socket.
    async fn end_all(&self) {
        self.table.borrow().sessions().for_each(|session| session.end(End::Client));
        self.all_ended().await;
    }

    async fn all_ended(&self) {
        while !self.table.borrow().is_empty() {
            self.ended.notified().await;
        }
    }

    /// Logs that there is no room for another session, at most once a second.
    fn log_shortage(&self) {
        let now = Instant::now();
        if self.logged_at.get().is_some_and(|last| now < last + LOG_INTERVAL) {
            return;
        }
        self.logged_at.set(Some(now));
        self.thread.shared.log.write(
            Level::Warn,
            format_args!(
                "listener {}: {} sessions are open, as many as the limit of open files allows; the \
                 oldest of clients that have not gone on after an answer give way",
                self.name,
                self.table.borrow().len()
            ),
        );
    }
}

/// Returns the header of the PROXY protocol for the datagrams of a client; empty if the upstream
/// gets none.
fn header(upstream: &Upstream, peer: Option<SocketAddr>, local: Option<SocketAddr>) -> Vec<u8> {
    let mut header = Vec::new();
    if upstream.config.proxy_protocol.is_some() {
        Header { addresses: peer.zip(local), tls: false }.write(Version::V2Datagram, &mut header);
    }
    header
}
