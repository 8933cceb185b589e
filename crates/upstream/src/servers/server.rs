//! One server of an upstream, and the state that all threads share.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use howdah_config::{self as config, Address};

use crate::connections::idle_pool::PoolKey;
use crate::connections::shared_pool::SharedPool;
use crate::servers::balance::{self, Candidate};
use crate::servers::passive_health::PassiveHealth;

/// A server with the part of the configuration that names it.
#[derive(Debug)]
pub struct Server {
    /// Address that it listens on.
    pub address: Address,
    /// Key of its idle HTTP connections.
    pub pool_key: PoolKey,
    /// Address as the configuration has it, perhaps with a name.
    pub origin: Address,
    /// Name that its certificate must have unless the TLS settings have another.
    pub name: Box<str>,
    /// Value of the sticky cookie of its clients.
    pub sticky: Box<str>,
    config: config::UpstreamServer,
    /// Its part of a hash ([`balance::hash`]).
    key: Box<[u8]>,
    state: Arc<State>,
}

/// State of a server, kept when the configuration changes. Times count from the start of the
/// upstream.
#[derive(Debug, Default)]
struct State {
    active: AtomicU32,
    requests: AtomicU64,
    failures: AtomicU64,
    /// The last health checks have failed.
    is_unhealthy: AtomicBool,
    /// `passive_health` has something to forget; spares the lock.
    has_failures: AtomicBool,
    passive_health: Mutex<PassiveHealth>,
    /// Time in ms at which it recovered; 0 if its slow start is over.
    recovered: AtomicU64,
    fastcgi_connections: Arc<SharedPool>,
}

/// Status of a server, for the control API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerReport {
    /// Address that it listens on.
    pub address: String,
    /// `up`, `failing` (not used for a while after failed requests), `unhealthy` (health checks),
    /// `draining`, or `unknown` if its name has no address.
    pub state: &'static str,
    /// Number of active requests.
    pub active: u32,
    /// Number of requests that were passed to it.
    pub requests: u64,
    /// Number of requests that failed.
    pub failures: u64,
}

impl Server {
    /// Compiles a server. `tls` is the number of the TLS settings, 0 for plain HTTP.
    pub(super) fn new(config: &config::UpstreamServer, tls: u64) -> Self {
        let key = config.address.to_string().into_bytes();
        Server {
            address: config.address.clone(),
            pool_key: (config.address.clone(), tls),
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

    /// Returns true if both are the same server, known by the same name and TLS settings.
    pub(super) fn is_same(&self, other: &Server) -> bool {
        (&self.pool_key, &self.origin) == (&other.pool_key, &other.origin)
    }

    /// Shares the state of another server from now on.
    pub(super) fn share_state(&mut self, other: &Server) {
        self.state = Arc::clone(&other.state);
    }

    /// Returns its idle FastCGI connections.
    pub fn fastcgi_connections(&self) -> &Arc<SharedPool> {
        &self.state.fastcgi_connections
    }

    /// Counts a request that is passed to it.
    pub(super) fn begin_request(&self) {
        self.state.active.fetch_add(1, Relaxed);
        self.state.requests.fetch_add(1, Relaxed);
    }

    /// Counts a request as no longer active.
    pub(super) fn end_request(&self) {
        self.state.active.fetch_sub(1, Relaxed);
    }

    /// Counts a failed request. Returns for how long the server is not used from now on, if that
    /// begins now.
    pub(super) fn failed(&self, now: Duration, policy: &config::Failures) -> Option<Duration> {
        self.state.failures.fetch_add(1, Relaxed);
        if policy.max == 0 {
            return None;
        }
        let mut health = self.passive_health();
        let was_failing = health.is_failing(now);
        health.failed(now, policy);
        self.state.has_failures.store(true, Relaxed);
        (!was_failing).then(|| health.remaining(now)).filter(|remaining| !remaining.is_zero())
    }

    /// Forgets failures, as the server has answered. Returns true if it was not used for a while
    /// before.
    pub(super) fn answered(&self) -> bool {
        if !self.state.has_failures.load(Relaxed) {
            return false;
        }
        let has_recovered = self.passive_health().answered();
        self.state.has_failures.store(false, Relaxed);
        has_recovered
    }

    /// Takes the result of a health check. Returns true if it differs from the one before.
    pub(super) fn set_healthy(&self, is_healthy: bool) -> bool {
        self.state.is_unhealthy.swap(!is_healthy, Relaxed) == is_healthy
    }

    /// Begins a slow start.
    pub(super) fn set_recovered(&self, now: Duration) {
        let now = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        self.state.recovered.store(now.max(1), Relaxed);
    }

    /// Returns how much of a slow start of this length has passed, as a part of 1; `None` if there
    /// is none, or if it is over.
    pub(super) fn slow_start(&self, length: Duration, now: Duration) -> Option<f64> {
        let recovered = self.state.recovered.load(Relaxed);
        if recovered == 0 {
            return None;
        }
        let passed = now.saturating_sub(Duration::from_millis(recovered));
        let share = passed.as_secs_f64() / length.as_secs_f64();
        if share >= 1.0 {
            self.state.recovered.store(0, Relaxed);
            return None;
        }
        Some(share)
    }

    /// Describes the server for [`balance::choose`]. `hash_key` is empty if nothing is hashed.
    pub(super) fn candidate(&self, now: Duration, hash_key: &[u8]) -> Candidate {
        Candidate {
            weight: self.config.weight,
            active: self.state.active.load(Relaxed),
            max_active: self.config.max_connections,
            is_backup: self.config.backup,
            is_healthy: !self.state.is_unhealthy.load(Relaxed) && !self.is_failing(now),
            is_eligible: !self.config.drain,
            hash: match hash_key {
                [] => 0,
                key => balance::hash(key, &self.key),
            },
        }
    }

    /// Returns its status.
    pub(super) fn report(&self, now: Duration) -> ServerReport {
        ServerReport {
            address: self.address.to_string(),
            state: match () {
                () if matches!(self.address, Address::Name(..)) => "unknown",
                () if self.state.is_unhealthy.load(Relaxed) => "unhealthy",
                () if self.is_failing(now) => "failing",
                () if self.config.drain => "draining",
                () => "up",
            },
            active: self.state.active.load(Relaxed),
            requests: self.state.requests.load(Relaxed),
            failures: self.state.failures.load(Relaxed),
        }
    }

    fn is_failing(&self, now: Duration) -> bool {
        self.state.has_failures.load(Relaxed) && self.passive_health().is_failing(now)
    }

    fn passive_health(&self) -> MutexGuard<'_, PassiveHealth> {
        self.state.passive_health.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
