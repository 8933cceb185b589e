//! Servers that requests are passed to, compiled from the configuration, and what is known of them.
//!
//! All threads share what is known: how many requests a server has, whether it fails. A
//! configuration that leaves an upstream as it was leaves this as it was too. Of one that has changed,
//! or whose names have other addresses now, the servers that stay keep what is known of them.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use howdah_config::{self as config, Address};
use howdah_tls::TlsClient;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::connections::connection::Place;
use crate::connections::shared_pool::Kept;
use crate::log_limit::LogLimit;
use crate::queue::{Queue, Refused};
use crate::servers::balance::{self, Candidate, Choice, Method};
use crate::servers::passive_health::Marks;
use crate::servers::retry_budget::Budget;
use crate::thread::ProxyThread;

/// A server that is back after a failure gets at least this part of its share.
const LEAST_SHARE: f64 = 0.05;

/// One or more servers that answer the same requests.
#[derive(Debug)]
pub struct Upstream {
    /// For the log: `upstreams/NAME`, or the `proxy` of an action.
    pub name: Box<str>,
    /// Its part of the configuration.
    pub config: config::Upstream,
    /// The servers in the order of the document.
    pub servers: Box<[Arc<Server>]>,
    /// How TLS is spoken with them; `None` for plain HTTP.
    pub tls: Option<Arc<TlsClient>>,
    /// Servers that one request may be tried on.
    pub tries: usize,
    /// Requests that are sent a second time, in relation to all.
    pub budget: Budget,
    /// What is said of it in the log.
    pub log_limit: Arc<LogLimit>,
    queue: Queue,
    /// A server has room again; for the one before and the one after as well, as they may have
    /// the same servers.
    room: Arc<Notify>,
    /// Health checks have begun.
    watched: AtomicBool,
    /// The moment that times count from.
    begun: Instant,
}

/// One server.
#[derive(Debug)]
pub struct Server {
    /// Where it listens.
    pub address: Address,
    /// What its connections are kept under.
    pub place: Place,
    /// The address as the document has it.
    pub origin: Address,
    /// What its certificate must be for, unless the settings say otherwise.
    pub name: Box<str>,
    /// What clients that belong to it have in their cookie.
    pub sticky: Box<str>,
    config: config::UpstreamServer,
    key: Box<[u8]>,
    state: Arc<State>,
}

/// What is known of a server.
#[derive(Debug, Default)]
struct State {
    active: AtomicU32,
    requests: AtomicU64,
    failures: AtomicU64,
    /// Its health checks have failed.
    unhealthy: AtomicBool,
    /// It has failures to forget.
    marked: AtomicBool,
    marks: Mutex<Marks>,
    /// Milliseconds since the upstream's beginning at which it came back; 0 if that is long ago.
    back: AtomicU64,
    /// Idle connections of FastCGI.
    kept: Arc<Kept>,
}

/// What a status page says of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerReport {
    /// Where it listens.
    pub address: String,
    /// `up`, `failing` (left alone after failures), `unhealthy` (health checks), `draining`, or `unknown`
    /// if it has a name that has no address.
    pub state: &'static str,
    /// Requests that it has.
    pub active: u32,
    /// Requests that it was sent.
    pub requests: u64,
    /// How often it failed.
    pub failures: u64,
}

/// A request that a server has; for as long as it lives.
#[derive(Debug)]
pub struct Busy {
    upstream: Arc<Upstream>,
    index: usize,
}

/// What a request says about who should answer it.
#[derive(Debug, Default)]
pub struct Wish {
    /// The value of the upstream's hash.
    pub key: Vec<u8>,
    /// The value of its cookie.
    pub sticky: Vec<u8>,
}

impl Upstream {
    /// The servers of a member of `upstreams`.
    pub fn new(config: &config::Upstream, tls: Option<Arc<TlsClient>>) -> Self {
        Upstream::named(format!("upstreams/{}", config.name), config, tls)
    }

    /// The server of a `proxy`, at these addresses.
    pub fn proxy(
        proxy: &config::Proxy,
        addresses: &[Address],
        tls: Option<Arc<TlsClient>>,
    ) -> Self {
        let scheme = if proxy.tls.is_some() { "https" } else { "http" };
        let plain = config_of(&proxy.address, addresses);
        let config = config::Upstream { tls: proxy.tls.clone(), ..plain };
        Upstream::named(format!("{scheme}://{}", proxy.address), &config, tls)
    }

    /// The server of an application of type `fastcgi`, at these addresses.
    pub fn fastcgi(address: &Address, addresses: &[Address]) -> Self {
        Upstream::named(format!("fastcgi://{address}"), &config_of(address, addresses), None)
    }

    fn named(name: String, config: &config::Upstream, tls: Option<Arc<TlsClient>>) -> Self {
        let id = number(tls.as_ref());
        let servers = config.servers.iter().map(|server| Arc::new(Server::new(server, id)));
        Upstream {
            name: name.into(),
            config: config.clone(),
            servers: servers.collect(),
            tls,
            tries: config.tries.unwrap_or(config.servers.len()),
            budget: Budget::default(),
            log_limit: Arc::default(),
            queue: Queue::new(config.queue, config.queue_timeout),
            room: Arc::default(),
            watched: AtomicBool::new(false),
            begun: Instant::now(),
        }
    }

    /// The number of what its servers are known by over TLS; 0 without.
    pub fn tls_id(&self) -> u64 {
        number(self.tls.as_ref())
    }

    /// The one before, if that is the same; otherwise this one, which knows what the one before
    /// knows.
    pub fn following(self, before: Option<&Arc<Upstream>>) -> Arc<Upstream> {
        match before {
            Some(before) if before.config == self.config && before.tls_id() == self.tls_id() => {
                Arc::clone(before)
            }
            Some(before) => Arc::new(self.after(before)),
            None => Arc::new(self),
        }
    }

    /// Takes over what the one before knows of servers that both have.
    fn after(mut self, before: &Upstream) -> Self {
        self.log_limit = Arc::clone(&before.log_limit);
        // Whether one is unhealthy means something for the same checks only.
        if self.config.health != before.config.health {
            return self;
        }
        (self.begun, self.room) = (before.begun, Arc::clone(&before.room));
        let mut known: Vec<_> = before.servers.iter().collect();
        for server in self.servers.iter_mut().filter_map(Arc::get_mut) {
            let is_same =
                |old: &&Arc<Server>| (&old.place, &old.origin) == (&server.place, &server.origin);
            // Each but once: a document may name a server twice.
            if let Some(at) = known.iter().position(is_same) {
                server.state = Arc::clone(&known.swap_remove(at).state);
            }
        }
        self
    }

    /// A server for a request, but for those that were `tried`; waits until one has room. `None`
    /// if there is none.
    pub async fn server(
        self: &Arc<Self>,
        thread: &ProxyThread,
        tried: &[usize],
        wish: &Wish,
    ) -> Result<Option<Busy>, Refused> {
        if self.queue.waiting() == 0 {
            match self.choose(thread, tried, wish) {
                Choice::Server(index) => return Ok(Some(Busy::new(self, index))),
                Choice::None => return Ok(None),
                Choice::Full => {}
            }
        }
        self.queue.wait(self.wait(thread, tried, wish)).await
    }

    async fn wait(
        self: &Arc<Self>,
        thread: &ProxyThread,
        tried: &[usize],
        wish: &Wish,
    ) -> Option<Busy> {
        loop {
            let mut room = std::pin::pin!(self.room.notified());
            room.as_mut().enable(); // before the look, so that nothing is missed between
            match self.choose(thread, tried, wish) {
                Choice::Server(index) => return Some(Busy::new(self, index)),
                Choice::None => return None,
                Choice::Full => room.await,
            }
        }
    }

    fn choose(self: &Arc<Self>, thread: &ProxyThread, tried: &[usize], wish: &Wish) -> Choice {
        let now = self.begun.elapsed();
        if let Some(index) = self.stuck_to(tried, wish, now) {
            return Choice::Server(index);
        }
        if let [server] = &*self.servers {
            let mut only = server.candidate(now, wish);
            only.open &= tried.is_empty();
            return balance::choose(&[only], Method::Hash); // all methods agree
        }
        let mut slow = false;
        let mut candidates: Vec<_> = { self.servers.iter().enumerate() }
            .map(|(index, server)| {
                let mut candidate = server.candidate(now, wish);
                candidate.open &= !tried.contains(&index);
                if candidate.open && self.starts_slowly(server, now, thread) {
                    (candidate.open, slow) = (false, true);
                }
                candidate
            })
            .collect();
        let choice = thread.choose(self, &candidates);
        if choice != Choice::None || !slow {
            return choice;
        }
        // Nobody else is there.
        for (index, candidate) in candidates.iter_mut().enumerate() {
            candidate.open = !tried.contains(&index) && candidate.weight > 0.0;
        }
        thread.choose(self, &candidates)
    }

    /// The server that the client belongs to, if it is well and has room.
    fn stuck_to(&self, tried: &[usize], wish: &Wish, now: Duration) -> Option<usize> {
        self.config.sticky.as_ref().filter(|_| !wish.sticky.is_empty())?;
        let index = self.servers.iter().position(|s| s.sticky.as_bytes() == wish.sticky)?;
        let candidate = self.servers.get(index)?.candidate(now, wish);
        let has_room = candidate.most.is_none_or(|most| candidate.active < most);
        (candidate.well && has_room && !tried.contains(&index)).then_some(index)
    }

    /// Whether a server that is back leaves this request to others.
    fn starts_slowly(&self, server: &Server, now: Duration, thread: &ProxyThread) -> bool {
        let Some(time) = self.config.slow_start else { return false };
        let back = server.state.back.load(Relaxed);
        if back == 0 {
            return false;
        }
        let share =
            now.saturating_sub(Duration::from_millis(back)).as_secs_f64() / time.as_secs_f64();
        if share >= 1.0 {
            server.state.back.store(0, Relaxed);
            return false;
        }
        let chance = (thread.random() >> 11) as f64 / (1u64 << 53) as f64;
        chance >= share.max(LEAST_SHARE)
    }

    /// How one of the candidates is chosen.
    pub fn method<'m>(
        &self,
        turns: &'m mut crate::servers::round_robin::Balance,
        random: impl Fn() -> u64,
    ) -> Method<'m> {
        match &self.config.balance {
            config::Balance::RoundRobin => Method::RoundRobin(turns),
            config::Balance::LeastConnections => Method::LeastConnections(turns),
            config::Balance::TwoChoices => Method::TwoChoices(random(), random()),
            config::Balance::Hash(_) => Method::Hash,
        }
    }

    /// Whether health checks have begun; they have from now on.
    pub fn is_watched(&self) -> bool {
        self.watched.swap(true, Relaxed)
    }

    /// A health check has shown whether a server is well. Whether that is news.
    pub fn checked(&self, server: &Server, well: bool) -> bool {
        let news = server.state.unhealthy.swap(!well, Relaxed) == well;
        if news && well {
            self.is_back(server);
        }
        news
    }

    /// A server is back: it starts slowly, and who waits may ask it.
    fn is_back(&self, server: &Server) {
        let now = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        server.state.back.store(now.max(1), Relaxed);
        self.has_room();
    }

    /// Who waits may ask again: one, but all if some of them have other servers than the rest.
    fn has_room(&self) {
        match Arc::strong_count(&self.room) {
            1 => self.room.notify_one(),
            _ => self.room.notify_waiters(),
        }
    }

    /// What a status page says.
    pub fn report(&self) -> Vec<ServerReport> {
        let now = self.begun.elapsed();
        self.servers.iter().map(|server| server.report(now)).collect()
    }
}

/// One server that is asked once, over a connection of its own, as Unit does. If it has a name, each
/// of its addresses may be tried, and one that fails is left alone.
fn config_of(address: &Address, addresses: &[Address]) -> config::Upstream {
    let servers = addresses.iter().map(|one| config::UpstreamServer {
        named: (one != address).then(|| address.clone()),
        ..config::UpstreamServer::new(one.clone(), 1.0)
    });
    let usual = config::Upstream::new("", servers.collect());
    match addresses {
        [] | [_] => config::Upstream { tries: Some(1), failures: config::Failures::NEVER, ..usual },
        several => config::Upstream {
            tries: Some(several.len()),
            failures: config::Failures::default(),
            ..usual
        },
    }
}

fn number(tls: Option<&Arc<TlsClient>>) -> u64 {
    tls.map_or(0, |tls| tls.id)
}

impl Server {
    /// `tls` is the number of what it is known by.
    fn new(config: &config::UpstreamServer, tls: u64) -> Self {
        let key = config.address.to_string().into_bytes();
        Server {
            address: config.address.clone(),
            place: (config.address.clone(), tls),
            origin: config.named.clone().unwrap_or_else(|| config.address.clone()),
            name: match config.named.as_ref().unwrap_or(&config.address) {
                Address::Name(name, _) => name.strip_suffix('.').unwrap_or(name).into(),
                Address::Inet(inet) => inet.ip().to_canonical().to_string().into(),
                // The settings have a name, or it is not verified.
                Address::Unix(_) | Address::Abstract(_) => "localhost".into(),
            },
            sticky: format!("{:016x}", balance::hash(b"sticky", &key)).into(),
            config: config.clone(),
            key: key.into(),
            state: Arc::default(),
        }
    }

    /// Its idle connections of FastCGI.
    pub fn kept(&self) -> &Arc<Kept> {
        &self.state.kept
    }

    fn marks(&self) -> std::sync::MutexGuard<'_, Marks> {
        self.state.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_marked(&self, now: Duration) -> bool {
        self.state.marked.load(Relaxed) && self.marks().is_marked(now)
    }

    fn candidate(&self, now: Duration, wish: &Wish) -> Candidate {
        Candidate {
            weight: self.config.weight,
            active: self.state.active.load(Relaxed),
            most: self.config.max_connections,
            backup: self.config.backup,
            well: !self.state.unhealthy.load(Relaxed) && !self.is_marked(now),
            open: !self.config.drain,
            hash: match wish.key.as_slice() {
                [] => 0,
                key => balance::hash(key, &self.key),
            },
        }
    }

    fn report(&self, now: Duration) -> ServerReport {
        ServerReport {
            address: self.address.to_string(),
            state: match () {
                () if matches!(self.address, Address::Name(..)) => "unknown",
                () if self.state.unhealthy.load(Relaxed) => "unhealthy",
                () if self.is_marked(now) => "failing",
                () if self.config.drain => "draining",
                () => "up",
            },
            active: self.state.active.load(Relaxed),
            requests: self.state.requests.load(Relaxed),
            failures: self.state.failures.load(Relaxed),
        }
    }
}

impl Busy {
    fn new(upstream: &Arc<Upstream>, index: usize) -> Self {
        let busy = Busy { upstream: Arc::clone(upstream), index };
        if let Some(server) = busy.server() {
            server.state.active.fetch_add(1, Relaxed);
            server.state.requests.fetch_add(1, Relaxed);
        }
        busy
    }

    /// Number of the server in its upstream.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The server.
    pub fn server(&self) -> Option<&Arc<Server>> {
        self.upstream.servers.get(self.index)
    }

    /// The server has failed. For how long it is left alone from now on, if it is.
    pub fn failed(&self) -> Option<Duration> {
        let (server, now) = (self.server()?, self.upstream.begun.elapsed());
        server.state.failures.fetch_add(1, Relaxed);
        if self.upstream.config.failures.max == 0 {
            return None;
        }
        let mut marks = server.marks();
        let was_marked = marks.is_marked(now);
        marks.failed(now, &self.upstream.config.failures);
        server.state.marked.store(true, Relaxed);
        (!was_marked).then(|| marks.left(now)).filter(|left| !left.is_zero())
    }

    /// The server has answered. Whether it was left alone before.
    pub fn answered(&self) -> bool {
        let Some(server) = self.server() else { return false };
        if !server.state.marked.load(Relaxed) {
            return false;
        }
        let was_marked = server.marks().answered();
        server.state.marked.store(false, Relaxed);
        if was_marked {
            self.upstream.is_back(server);
        }
        was_marked
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        if let Some(server) = self.server() {
            server.state.active.fetch_sub(1, Relaxed);
        }
        if self.upstream.queue.waiting() > 0 || Arc::strong_count(&self.upstream.room) > 1 {
            self.upstream.has_room();
        }
    }
}

impl fmt::Display for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}
