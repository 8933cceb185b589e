//! HTTP/3: the endpoint of a listener on a thread, and its connections.
//!
//! All threads have an endpoint for each listener with HTTP/3, and share its UDP socket. One of them
//! reads it. A datagram of a connection goes to the thread whose number is in its connection id, the
//! datagrams of a new client to one of the threads that accept connections.
//!
//! A router that replaces another one reads when that does not any more, and passes datagrams of its
//! connections on to it ([`howdah_quic::FormerProcess`]).
//!
//! In [`Listeners`](howdah_pipeline::thread::Listeners) and for the supervisor, the socket has the name
//! of its listener behind `udp:` ([`Http3::socket_name`]); so it can come and go while the listener stays.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use howdah_config::{Http3, Http3Retry};
use howdah_http::drain::DrainRegistration;
use howdah_http::eviction::Client;
use howdah_http::h3;
use howdah_http::handshake::Handshake;
use howdah_http::message::ConnectionInfo;
use howdah_pipeline::handler::RequestHandler;
use howdah_pipeline::listener::canonical;
use howdah_pipeline::thread::{Http3Socket, Reading, RouterThread, Shared};
use howdah_quic::{
    Choice, ChooseTls, Closed, Connection, Endpoint, FormerProcess, Inbox, Options, Owner, Refusal,
    Retry, Route, Settings, Target,
};
use howdah_routing::snapshot::Snapshot;
use howdah_sys::log::Level;
use howdah_tls::{Negotiated, TlsListener};
use rustls::server::ClientHello;
use tokio::sync::{Notify, watch};
use tokio::task::spawn_local;

use crate::connection::{count, spawn};
use crate::descriptor_shortage;
use crate::session::count_handshake;

/// The client gets no service for now (H3_EXCESSIVE_LOAD, RFC 9114, 8.1).
const EXCESSIVE_LOAD: u64 = 0x107;

/// The alert `internal_error` (RFC 8446, 6.2).
const INTERNAL_ERROR: u8 = 80;

/// Returns the listener of a UDP socket, if it is one with HTTP/3.
pub(crate) fn listener_of<'n>(snapshot: &Snapshot, socket: &'n str) -> Option<&'n str> {
    let name = Http3::listener_of(socket)?;
    settings(snapshot, name).map(|_| name)
}

fn settings<'s>(snapshot: &'s Snapshot, listener: &str) -> Option<&'s Http3> {
    snapshot.listeners.get(listener)?.http3.as_ref()
}

/// Serves HTTP/3 on a socket until `stop` is notified. Connections go on then; the last one closes the
/// socket.
pub(crate) async fn serve(
    thread: Rc<RouterThread>,
    listener: Arc<str>,
    socket: Http3Socket,
    stop: Rc<Notify>,
) {
    let Http3Socket { fd, arrivals, inboxes, reading, former, keys, owner } = socket;
    let name: Arc<str> = Http3::socket_name(&listener).into();
    let others = Arc::clone(&inboxes);
    let started = fd.try_clone().and_then(|probe| {
        let shared = Arc::clone(&thread.shared);
        let settings = Settings {
            keys,
            owner,
            tls: Arc::new(ListenerTls { shared, listener: Arc::clone(&listener) }),
            route: route(&thread, owner, inboxes, former, &name),
            arrivals,
            options: options(&thread, &listener),
        };
        Ok((Endpoint::new(fd, settings)?, probe))
    });
    let (endpoint, probe) = match started {
        Ok((endpoint, probe)) => (Rc::new(endpoint), probe),
        Err(error) => return log(&thread, &listener, &error),
    };
    let reader = reading.map(|reading| {
        let (thread, listener) = (Rc::clone(&thread), Arc::clone(&listener));
        spawn_local(read(thread, listener, Rc::clone(&endpoint), reading))
    });
    let stopped = stop.notified();
    tokio::pin!(stopped);
    loop {
        let connection = tokio::select! {
            Some(connection) = endpoint.accept() => connection,
            () = &mut stopped => break,
        };
        if descriptor_shortage::is_full(&thread, &probe) {
            descriptor_shortage::evict(&thread, &listener, 1).await;
            if descriptor_shortage::is_full(&thread, &probe) {
                connection.close(EXCESSIVE_LOAD, b"");
                continue;
            }
        }
        start(&thread, &listener, thread.listeners.connection(&name), connection);
    }
    endpoint.stop();
    // The thread does not end before what closes the last connection is sent.
    let last = thread.listeners.connection(&name);
    spawn_local(async move {
        // Connections whose handshake was in progress are served.
        while let Some(connection) = endpoint.accept().await {
            start(&thread, &listener, thread.listeners.connection(&name), connection);
        }
        endpoint.all_closed().await;
        drop(last);
        if let Some(reader) = reader.filter(|reader| !reader.is_finished()) {
            // The others have no reader but this one.
            for (number, other) in (0..).zip(&*others) {
                if number != usize::from(owner.thread) {
                    other.closed().await;
                }
            }
            reader.abort();
        }
    });
}

/// Reads the socket of an endpoint while this process does.
async fn read(
    thread: Rc<RouterThread>,
    listener: Arc<str>,
    endpoint: Rc<Endpoint>,
    mut reading: watch::Receiver<Reading>,
) {
    loop {
        let now = *reading.borrow_and_update();
        match now {
            Reading::NotYet => {}
            Reading::Now => {
                if let Err(error) = endpoint.start_reading() {
                    log(&thread, &listener, &error);
                }
            }
            Reading::NoMore => return endpoint.stop_reading(),
        }
        if reading.changed().await.is_err() {
            return;
        }
    }
}

fn log(thread: &RouterThread, listener: &str, error: &io::Error) {
    let problem = format_args!("listener {listener}: HTTP/3: {error}");
    thread.shared.log.write(Level::Alert, problem);
}

/// Starts the task that serves a connection to its end.
fn start(
    thread: &Rc<RouterThread>,
    listener: &Arc<str>,
    drain: DrainRegistration,
    connection: Connection,
) {
    let Some((handshake, tls)) = connection.handshake().and_then(facts) else { return };
    thread.counters.accepted.fetch_add(1, Relaxed);
    let handler = RequestHandler::of_http3(thread, listener);
    count_handshake(&tls, handshake.protocol, handshake.is_resumed);
    let info = ConnectionInfo {
        peer: Some(canonical(connection.remote())),
        local: Some(canonical(connection.local())),
        tls: true,
        handshake: Some(Arc::new(handshake)),
        number: ConnectionInfo::next_number(),
        ..ConnectionInfo::default()
    };
    drain.accepted_from(Client::of(info.peer));
    let snapshot = thread.snapshot_for(listener);
    let permits = snapshot.listeners.get(&**listener).map(|found| count(found, &info));
    let Ok(permits) = permits.unwrap_or_else(|| Ok(Vec::new())) else {
        return connection.close(EXCESSIVE_LOAD, b"");
    };
    let info = Arc::new(info);
    spawn(thread, permits, async move {
        h3::serve(connection.clone(), Arc::clone(&info), || handler.for_stream(), drain).await;
        if let Some(ended @ Closed::Violation { .. }) = connection.ended() {
            handler.log_client_error(&info, format_args!("HTTP/3 connection closed: {ended}"));
        }
    });
}

/// Returns the facts about a handshake, and the TLS of the listener.
fn facts(handshake: howdah_quic::Handshake) -> Option<(Handshake, Arc<TlsListener>)> {
    let chosen = handshake.context.downcast_ref::<Chosen>()?;
    let negotiated = Negotiated {
        server_name: &handshake.server_name,
        suite: handshake.suite,
        is_resumed: handshake.is_resumed,
        client: handshake.client.as_ref(),
    };
    let tls = Arc::clone(&chosen.tls);
    Some((negotiated.facts(Arc::clone(&tls), chosen.rule), tls))
}

/// What the TLS of a connection was chosen by.
struct Chosen {
    tls: Arc<TlsListener>,
    rule: Option<usize>,
}

/// The TLS of a listener, as it is at the time of a handshake.
struct ListenerTls {
    shared: Arc<Shared>,
    listener: Arc<str>,
}

impl ChooseTls for ListenerTls {
    fn choose(&self, hello: &ClientHello<'_>) -> Result<Choice, Refusal> {
        let snapshot = self.shared.snapshot.load();
        let found = snapshot.listeners.get(&*self.listener);
        let tls = found.and_then(|listener| listener.tls.as_ref());
        let tls = tls.ok_or(Refusal { alert: INTERNAL_ERROR })?;
        match tls.choose_http3(hello.server_name().unwrap_or_default()) {
            Ok(howdah_tls::Choice { config, rule }) => {
                let chosen = Chosen { tls: Arc::clone(tls), rule };
                Ok(Choice { config, context: Arc::new(chosen) })
            }
            Err(alert) => {
                tls.counters().failed.fetch_add(1, Relaxed);
                Err(Refusal { alert })
            }
        }
    }
}

/// Returns what passes the datagrams of a socket to the threads of their connections.
fn route(
    thread: &Rc<RouterThread>,
    own: Owner,
    inboxes: Arc<[Inbox]>,
    former: Option<Arc<FormerProcess>>,
    socket: &Arc<str>,
) -> Route {
    let (shared, socket) = (Arc::clone(&thread.shared), Arc::clone(socket));
    Rc::new(move |target, datagram| {
        let number = match target {
            Target::Owner(owner) if owner.process == own.process => usize::from(owner.thread),
            // Of an earlier process. If that has ended, the client gets a stateless reset.
            Target::Owner(_) => {
                return match &former {
                    Some(former) => former.pass(&socket, datagram),
                    None => Some(datagram),
                };
            }
            Target::New(number) => {
                let accepting = shared.threads.load(Relaxed).clamp(1, inboxes.len().max(1));
                (number % accepting as u64) as usize
            }
        };
        match inboxes.get(number).filter(|_| number != usize::from(own.thread)) {
            Some(inbox) => {
                inbox.deliver(datagram);
                None
            }
            None => Some(datagram),
        }
    })
}

/// Returns what returns the options of a listener, as the current configuration has them.
fn options(thread: &Rc<RouterThread>, listener: &Arc<str>) -> Rc<dyn Fn() -> Option<Options>> {
    let (thread, listener) = (Rc::downgrade(thread), Arc::clone(listener));
    Rc::new(move || {
        let thread = thread.upgrade()?;
        let snapshot = thread.snapshot_for(&listener);
        let http3 = settings(&snapshot, &listener)?;
        Some(Options {
            retry: match http3.retry {
                Http3Retry::Always => Retry::Always,
                Http3Retry::Auto => Retry::Auto,
                Http3Retry::Never => Retry::Never,
            },
            max_streams: http3.max_streams,
            idle_timeout: http3.idle_timeout,
            handshake_timeout: thread.limits().header_timeout,
        })
    })
}
