//! One server of an upstream, and the state that all threads share.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use howdah_config::{self as config, Address};

use crate::connections::idle_pool::PoolKey;
use crate::connections::shared_pool::SharedPool;
use crate::servers::balance::{self, Candidate};
use crate::servers::passive_health::PassiveHealth;

/// A server and its settings.
#[derive(Debug)]
pub struct Server {
    /// Address that the server listens on.
    pub address: Address,
    /// Key of the server's idle HTTP connections.
    pub pool_key: PoolKey,
    /// Address in the configuration; may have a name instead of an IP address.
    pub origin: Address,
    /// Name for the verification of its certificate, unless the TLS settings have another.
    pub name: Box<str>,
    /// Value of the sticky cookie for this server.
    pub sticky: Box<str>,
    config: config::UpstreamServer,
    /// The server's part of a hash ([`balance::hash`]).
    key: Box<[u8]>,
    state: Arc<State>,
}

/// State of a server, kept when the configuration changes. Times are measured from the start of the
/// upstream.
#[derive(Debug, Default)]
struct State {
    active: AtomicU32,
    requests: AtomicU64,
    failures: AtomicU64,
    /// The last health checks have failed.
    is_unhealthy: AtomicBool,
    /// `passive_health` is not empty; avoids the lock.
    has_failures: AtomicBool,
    passive_health: Mutex<PassiveHealth>,
    /// Time in ms of the server's recovery; 0 if its slow start is over.
    recovered: AtomicU64,
    fastcgi_connections: Arc<SharedPool>,
}

/// Status of a server, for the control API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerReport {
    /// Address that the server listens on.
    pub address: String,
    /// `up`, `failing` (in a pause after failed requests), `unhealthy` (health checks), `draining`,
    /// or `unknown` if its name has no address.
    pub state: &'static str,
    /// Number of active requests.
    pub active: u32,
    /// Number of requests that were passed to the server.
    pub requests: u64,
    /// Number of requests that failed.
    pub failures: u64,
}

impl Server {
    /// Compiles a server. `tls` is the id of the TLS settings, 0 for plain HTTP.
    pub(super) fn new(config: &config::UpstreamServer, tls: u64) -> Self {
        let key = config.address.to_string().into_bytes();
        Server {
            address: config.address.clone(),
            pool_key: (config.address.clone(), tls),
            origin: config.named.clone().unwrap_or_else(|| config.address.clone()),
            name: match config.named.as_ref().unwrap_or(&config.address) {
                named @ (Address::Name(..) | Address::Service(_)) => {
                    named.host_name().unwrap_or_default().into()
                }
                Address::Inet(inet) => inet.ip().to_canonical().to_string().into(),
                // Either the settings have a name, or the server is not verified.
                Address::Unix(_) | Address::Abstract(_) => "localhost".into(),
            },
            sticky: format!("{:016x}", balance::hash(b"sticky", &key)).into(),
            config: config.clone(),
            key: key.into(),
            state: Arc::default(),
        }
    }

    /// Returns true if both are the same server, with the same name and TLS settings.
    pub(super) fn is_same(&self, other: &Server) -> bool {
        (&self.pool_key, &self.origin) == (&other.pool_key, &other.origin)
    }

    /// Shares the state of another server from now on.
    pub(super) fn share_state(&mut self, other: &Server) {
        self.state = Arc::clone(&other.state);
    }

    /// Returns the server's idle FastCGI connections.
    pub fn fastcgi_connections(&self) -> &Arc<SharedPool> {
        &self.state.fastcgi_connections
    }

    /// Counts a request that is passed to the server. Returns false if the server has its maximum
    /// number of requests: other threads may have passed some to it since it was selected.
    #[must_use]
    pub(super) fn try_begin_request(&self) -> bool {
        let max = self.config.max_connections.unwrap_or(u32::MAX);
        let one_more = |active: u32| (active < max).then(|| active + 1);
        let has_room = self.state.active.fetch_update(Relaxed, Relaxed, one_more).is_ok();
        if has_room {
            self.state.requests.fetch_add(1, Relaxed);
        }
        has_room
    }

    /// Counts a request as no longer active.
    pub(super) fn end_request(&self) {
        self.state.active.fetch_sub(1, Relaxed);
    }

    /// Counts a failed request. Returns the length of the pause if one begins now.
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

    /// Resets failures, because the server has responded. Returns true if there was a pause.
    pub(super) fn answered(&self) -> bool {
        if !self.state.has_failures.load(Relaxed) {
            return false;
        }
        let has_recovered = self.passive_health().answered();
        self.state.has_failures.store(false, Relaxed);
        has_recovered
    }

    /// Stores the result of a health check. Returns true if it differs from the previous one.
    pub(super) fn set_healthy(&self, is_healthy: bool) -> bool {
        self.state.is_unhealthy.swap(!is_healthy, Relaxed) == is_healthy
    }

    /// Begins a slow start.
    pub(super) fn set_recovered(&self, now: Duration) {
        let now = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        self.state.recovered.store(now.max(1), Relaxed);
    }

    /// Returns the elapsed part (0 to 1) of a slow start of this length; `None` if there is none or
    /// it is over.
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

    /// Returns the server's state for [`balance::choose`]. `hash_key` is empty without `hash`.
    pub(super) fn candidate(&self, now: Duration, hash_key: &[u8]) -> Candidate {
        Candidate {
            weight: self.config.weight,
            active: self.state.active.load(Relaxed),
            max_active: self.config.max_connections,
            is_backup: self.config.backup,
            is_healthy: !self.state.is_unhealthy.load(Relaxed) && !self.is_failing(now),
            is_eligible: !self.config.drain,
            is_held_back: false,
            hash: match hash_key {
                [] => 0,
                key => balance::hash(key, &self.key),
            },
        }
    }

    /// Returns the status of the server.
    pub(super) fn report(&self, now: Duration) -> ServerReport {
        ServerReport {
            address: self.address.to_string(),
            state: match () {
                () if self.address.name().is_some() => "unknown",
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
