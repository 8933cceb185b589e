//! An endpoint: one UDP socket of one thread, with its connections.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use quinn_proto::crypto::HandshakeTokenKey;
use quinn_proto::{
    EcnCodepoint, EndpointConfig, IdleTimeout, MtuDiscoveryConfig, ServerConfig, TransportConfig,
    ValidationTokenConfig, VarInt,
};
use tokio::task::spawn_local;

mod connection;
mod driver;
mod stream;
mod transport;

pub use self::connection::Connection;
use self::connection::State;
use self::driver::Core;
pub use self::stream::{Recv, Send};
use crate::datagram::{Arrivals, Datagram, MAX_DATAGRAM};
use crate::ids::{Ids, Owner, Target};
use crate::keys::Keys;
use crate::options::Options;
use crate::socket::Socket;
use crate::tls::{ChooseTls, Tls, VERSION};

/// Flow-control window of a stream in bytes.
const STREAM_WINDOW: u32 = 256 * 1024;

/// Flow-control window of all streams of a connection in bytes.
const CONNECTION_WINDOW: u32 = 1024 * 1024;

/// Bytes that are written and not acknowledged, of a connection whose path is not known yet. It grows
/// with the path (`connection`).
pub(crate) const SEND_WINDOW: u64 = 128 * 1024;

/// Number of streams in one direction that a peer may have open.
const MAX_UNIDIRECTIONAL: u32 = 8;

/// Bytes of handshake messages that arrive out of order, which are kept.
const CRYPTO_BUFFER: usize = 16 * 1024;

/// Clients whose first datagram is being looked at. They are decided on at once, so more than one of
/// them means that the library has failed.
const MAX_INCOMING: usize = 64;

/// Maximum datagrams of one path's MTU search: the largest payload on Ethernet.
const MAX_MTU: u16 = 1452;

/// Time within which the handshakes that are in progress have to be complete when an endpoint stops.
pub(crate) const STOPPING: Duration = Duration::from_secs(3);

/// Passes a datagram to the thread or the process of its target. Returns it if that is this endpoint.
pub type Route = Rc<dyn Fn(Target, Datagram) -> Option<Datagram>>;

/// Returns the options of an endpoint as they are now.
pub type GetOptions = Rc<dyn Fn() -> Option<Options>>;

/// Settings of an endpoint.
pub struct Settings {
    /// Keys of the server.
    pub keys: Keys,
    /// This process and this thread.
    pub owner: Owner,
    /// Chooses the TLS configuration of each connection.
    pub tls: Arc<dyn ChooseTls>,
    /// Passes datagrams to other threads and processes.
    pub route: Route,
    /// Datagrams from these.
    pub arrivals: Arrivals,
    /// Returns the options for a new client; `None` if there are to be no more.
    pub options: GetOptions,
}

/// Counters of an endpoint since its start.
#[derive(Debug, Default)]
pub struct Counters {
    /// Datagrams that were received.
    pub received: Cell<u64>,
    /// Datagrams that were passed to other threads and processes.
    pub forwarded: Cell<u64>,
    /// New clients that had to prove their addresses.
    pub retried: Cell<u64>,
    /// New clients that were ignored, because too many handshakes were not complete.
    pub ignored: Cell<u64>,
    /// Handshakes that have failed.
    pub failed: Cell<u64>,
    /// Panics of the library.
    pub panics: Cell<u64>,
}

pub(crate) fn count(counter: &Cell<u64>) {
    counter.set(counter.get() + 1);
}

/// An endpoint of this thread. It ends when this is dropped: its connections are closed then.
pub struct Endpoint {
    shared: Rc<Shared>,
}

/// State that the endpoint, its driver and its connections share.
pub(crate) struct Shared {
    pub(crate) socket: Socket,
    pub(crate) keys: Keys,
    pub(crate) route: Route,
    pub(crate) options: GetOptions,
    pub(crate) counters: Counters,
    pub(crate) core: RefCell<Core>,
    /// Connections that the driver has to look at.
    pub(crate) dirty: RefCell<VecDeque<Rc<State>>>,
    /// Connections whose handshake is complete.
    pub(crate) accepted: RefCell<VecDeque<Connection>>,
    pub(crate) acceptor: Cell<Option<Waker>>,
    pub(crate) driver: Cell<Option<Waker>>,
    /// The driver is having a turn.
    pub(crate) is_running: Cell<bool>,
    /// Time at which the last handshakes end, if the endpoint is stopped.
    pub(crate) stops_at: Cell<Option<Instant>>,
    /// Time until which clients may come back that were asked to prove their addresses.
    pub(crate) proofs_until: Cell<Option<Instant>>,
    /// The endpoint was dropped.
    pub(crate) is_over: Cell<bool>,
    /// Wakes a task that waits until there is no connection.
    pub(crate) idle: Cell<Option<Waker>>,
}

impl Shared {
    /// Lets the driver have a turn.
    pub(crate) fn wake(&self) {
        if self.is_running.get() {
            return; // it is having one
        }
        if let Some(waker) = self.driver.take() {
            waker.wake();
        }
    }

    /// Returns true if no new clients are accepted.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stops_at.get().is_some()
    }

    fn awaits_proofs(&self) -> bool {
        self.proofs_until.get().is_some_and(|until| Instant::now() < until)
    }

    /// Wakes the task that accepts connections.
    pub(crate) fn wake_acceptor(&self) {
        if let Some(waker) = self.acceptor.take() {
            waker.wake();
        }
    }
}

impl Endpoint {
    /// Starts an endpoint on a bound socket, as a task of this thread. It does not read the socket yet.
    /// Error: the socket cannot be used.
    pub fn new(socket: OwnedFd, settings: Settings) -> io::Result<Endpoint> {
        let Settings { keys, owner, tls, route, arrivals, options } = settings;
        let socket = Socket::new(socket)?;
        let mut config = EndpointConfig::new(Arc::clone(&keys.reset));
        let key = Arc::clone(&keys.ids);
        config.supported_versions(vec![VERSION]);
        config.max_udp_payload_size(MAX_DATAGRAM).map_err(io::Error::other)?;
        config.cid_generator(move || Box::new(Ids { key: Arc::clone(&key), owner }));
        let tls = Arc::new(Tls::new(tls)?);
        let server = NewConnections::new(&keys, tls);
        let first = server.library(&Options::default())?;
        let may_find_mtu = !socket.may_fragment();
        let library = quinn_proto::Endpoint::new(Arc::new(config), Some(first), may_find_mtu, None);
        let shared = Rc::new(Shared {
            socket,
            keys,
            route,
            options,
            counters: Counters::default(),
            core: RefCell::new(Core::new(library, server)),
            dirty: RefCell::default(),
            accepted: RefCell::default(),
            acceptor: Cell::default(),
            driver: Cell::default(),
            is_running: Cell::new(false),
            stops_at: Cell::default(),
            proofs_until: Cell::default(),
            is_over: Cell::new(false),
            idle: Cell::default(),
        });
        spawn_local(driver::run(Rc::clone(&shared), arrivals));
        Ok(Endpoint { shared })
    }

    /// Reads the socket from now on: one endpoint of all those that share one. Error: the process has
    /// too many descriptors.
    pub fn start_reading(&self) -> io::Result<()> {
        self.shared.socket.start_reading()?;
        self.shared.wake();
        Ok(())
    }

    /// Leaves the socket to another endpoint, or another process. Datagrams still come from those.
    pub fn stop_reading(&self) {
        self.shared.socket.stop_reading();
    }

    /// Returns the next connection whose handshake is complete; `None` after [`Endpoint::stop`], when no
    /// handshake is in progress any more.
    pub async fn accept(&self) -> Option<Connection> {
        poll_fn(|cx| self.poll_accept(cx)).await
    }

    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<Option<Connection>> {
        if let Some(connection) = self.shared.accepted.borrow_mut().pop_front() {
            return Poll::Ready(Some(connection));
        }
        if self.shared.is_stopped() && self.half_open() == 0 && !self.shared.awaits_proofs() {
            return Poll::Ready(None);
        }
        self.shared.acceptor.set(Some(cx.waker().clone()));
        Poll::Pending
    }

    /// Accepts no more clients, except those that were asked to prove their addresses. Handshakes have a
    /// few seconds to be complete; connections go on.
    pub fn stop(&self) {
        if self.shared.is_stopped() {
            return;
        }
        let end = Instant::now() + STOPPING;
        self.shared.stops_at.set(Some(end));
        self.shared.core.borrow_mut().half_open.shorten(end);
        self.shared.wake_acceptor();
        self.shared.wake();
    }

    /// Waits until all connections are closed and what closes them is sent.
    pub async fn all_closed(&self) {
        poll_fn(|cx| {
            if self.connections() == 0 && self.shared.dirty.borrow().is_empty() {
                return Poll::Ready(());
            }
            self.shared.idle.set(Some(cx.waker().clone()));
            Poll::Pending
        })
        .await;
    }

    /// Returns the number of connections, half-open ones included, that are not closed.
    pub fn connections(&self) -> usize {
        self.shared.core.borrow().open()
    }

    /// Returns the number of connections whose handshake is not complete.
    pub fn half_open(&self) -> usize {
        self.shared.core.borrow().half_open.count()
    }

    /// Returns the counters.
    pub fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    /// Returns the address that the socket is bound to.
    pub fn local(&self) -> SocketAddr {
        self.shared.socket.local()
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.stop();
        self.shared.is_over.set(true);
        self.shared.wake();
    }
}

/// The library's configuration of new connections.
pub(crate) struct NewConnections {
    tls: Arc<Tls>,
    token_key: Arc<dyn HandshakeTokenKey>,
    /// The configuration for the options of the last new client.
    last: RefCell<Option<(Options, Arc<ServerConfig>)>>,
}

impl NewConnections {
    fn new(keys: &Keys, tls: Arc<Tls>) -> NewConnections {
        NewConnections { tls, token_key: Arc::clone(&keys.token), last: RefCell::default() }
    }

    /// Returns the configuration for these options.
    pub(crate) fn library(&self, options: &Options) -> io::Result<Arc<ServerConfig>> {
        let mut last = self.last.borrow_mut();
        if let Some((known, config)) = &*last
            && known == options
        {
            return Ok(Arc::clone(config));
        }
        let mut mtu = MtuDiscoveryConfig::default();
        mtu.upper_bound(MAX_MTU);
        let idle = IdleTimeout::try_from(options.idle_timeout).map_err(io::Error::other)?;
        let mut transport = TransportConfig::default();
        transport
            .max_concurrent_bidi_streams(VarInt::from_u32(options.max_streams))
            .max_concurrent_uni_streams(VarInt::from_u32(MAX_UNIDIRECTIONAL))
            .max_idle_timeout(Some(idle))
            .stream_receive_window(VarInt::from_u32(STREAM_WINDOW))
            .receive_window(VarInt::from_u32(CONNECTION_WINDOW))
            .send_window(SEND_WINDOW)
            .crypto_buffer_size(CRYPTO_BUFFER)
            .mtu_discovery_config(Some(mtu))
            .datagram_receive_buffer_size(None);
        let mut tokens = ValidationTokenConfig::default();
        tokens.sent(0);
        let mut config = ServerConfig::new(Arc::clone(&self.tls) as _, Arc::clone(&self.token_key));
        config
            .transport_config(Arc::new(transport))
            .validation_token_config(tokens)
            .max_incoming(MAX_INCOMING)
            .incoming_buffer_size(0)
            .incoming_buffer_size_total(0);
        let config = Arc::new(config);
        *last = Some((options.clone(), Arc::clone(&config)));
        Ok(config)
    }
}

/// Returns the mark of congestion of a datagram, for the library.
pub(crate) fn ecn(bits: Option<u8>) -> Option<EcnCodepoint> {
    EcnCodepoint::from_bits(bits?)
}
