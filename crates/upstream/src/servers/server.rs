//! One server of an upstream, and the state that all threads share.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use howdah_config::{self as config, Address};
use howdah_questions::{ServerRequests, ServerStatus};

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
    pub name: Arc<str>,
    /// Value of the sticky cookie for this server.
    pub sticky: Box<str>,
    config: config::UpstreamServer,
    /// The server's part of a hash ([`balance::hash`]).
    key: Box<[u8]>,
    load: Arc<Load>,
    health: Arc<Health>,
}

/// Requests and connections of a server, kept when the configuration changes.
#[derive(Debug, Default)]
struct Load {
    /// `SeqCst`, as is the number of waiting requests: of a request that ends and one that begins
    /// to wait at the same moment, one sees the other.
    active: AtomicU32,
    requests: AtomicU64,
    failures: AtomicU64,
    fastcgi_connections: Arc<SharedPool>,
}

/// Health of a server, kept while its health checks stay the same. Times are measured from the
/// start of the upstream.
#[derive(Debug, Default)]
struct Health {
    /// The last health checks have failed.
    is_unhealthy: AtomicBool,
    /// `passive_health` is not empty; avoids the lock. Written while that is locked.
    has_failures: AtomicBool,
    passive_health: Mutex<PassiveHealth>,
    /// Time in ms of the server's recovery; 0 if its slow start is over.
    recovered: AtomicU64,
}

impl Server {
    /// Compiles a server. `tls` is the id of the TLS settings, 0 for plain HTTP.
    pub(super) fn new(config: &config::UpstreamServer, tls: u64) -> Self {
        let key = config.address.to_string().into_bytes();
        let name: Arc<str> = match config.named.as_ref().unwrap_or(&config.address) {
            named @ (Address::Name(..) | Address::Service(_)) => {
                named.host_name().unwrap_or_default().into()
            }
            Address::Inet(inet) => inet.ip().to_canonical().to_string().into(),
            // Either the settings have a name, or the server is not verified.
            Address::Unix(_) | Address::Abstract(_) => "localhost".into(),
        };
        let verified = if tls == 0 { Arc::from("") } else { Arc::clone(&name) };
        Server {
            address: config.address.clone(),
            pool_key: (config.address.clone(), tls, verified),
            origin: config.named.clone().unwrap_or_else(|| config.address.clone()),
            name,
            sticky: format!("{:016x}", balance::hash(b"sticky", &key)).into(),
            config: config.clone(),
            key: key.into(),
            load: Arc::default(),
            health: Arc::default(),
        }
    }

    /// Returns true if both are the same server, with the same name and TLS settings.
    pub(super) fn is_same(&self, other: &Server) -> bool {
        (&self.pool_key, &self.origin) == (&other.pool_key, &other.origin)
    }

    /// Shares the requests and connections of another server from now on.
    pub(super) fn share_load(&mut self, other: &Server) {
        self.load = Arc::clone(&other.load);
    }

    /// Shares the health of another server from now on.
    pub(super) fn share_health(&mut self, other: &Server) {
        self.health = Arc::clone(&other.health);
    }

    /// Returns the server's idle FastCGI connections.
    pub fn fastcgi_connections(&self) -> &Arc<SharedPool> {
        &self.load.fastcgi_connections
    }

    /// Counts a request that is passed to the server. Returns false if the server has its maximum
    /// number of requests: other threads may have passed some to it since it was selected.
    #[must_use]
    pub(super) fn try_begin_request(&self) -> bool {
        let max = self.config.max_connections.unwrap_or(u32::MAX);
        let one_more = |active: u32| (active < max).then(|| active + 1);
        let has_room = self.load.active.fetch_update(SeqCst, SeqCst, one_more).is_ok();
        if has_room {
            self.load.requests.fetch_add(1, Relaxed);
        }
        has_room
    }

    /// Counts the end of an active request.
    pub(super) fn end_request(&self) {
        self.load.active.fetch_sub(1, SeqCst);
    }

    /// Counts a failed request. Returns the length of the pause if one begins now.
    pub(super) fn failed(&self, now: Duration, policy: &config::Failures) -> Option<Duration> {
        self.load.failures.fetch_add(1, Relaxed);
        if policy.max == 0 {
            return None;
        }
        let mut health = self.passive_health();
        let was_failing = health.is_failing(now);
        health.failed(now, policy);
        self.health.has_failures.store(true, Relaxed);
        (!was_failing).then(|| health.remaining(now)).filter(|remaining| !remaining.is_zero())
    }

    /// Resets failures, because the server has responded. Returns true if there was a pause.
    pub(super) fn answered(&self) -> bool {
        if !self.health.has_failures.load(Relaxed) {
            return false;
        }
        let mut health = self.passive_health();
        let has_recovered = health.answered();
        // Under the lock: a failure that another thread counts meanwhile must not be forgotten.
        self.health.has_failures.store(false, Relaxed);
        has_recovered
    }

    /// Stores the result of a health check. Returns true if it differs from the previous one.
    pub(super) fn set_healthy(&self, is_healthy: bool) -> bool {
        self.health.is_unhealthy.swap(!is_healthy, Relaxed) == is_healthy
    }

    /// Begins a slow start.
    pub(super) fn set_recovered(&self, now: Duration) {
        let now = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        self.health.recovered.store(now.max(1), Relaxed);
    }

    /// Returns the elapsed part (0 to 1) of a slow start of this length; `None` if there is none or
    /// it is over.
    pub(super) fn slow_start(&self, length: Duration, now: Duration) -> Option<f64> {
        let recovered = self.health.recovered.load(Relaxed);
        if recovered == 0 {
            return None;
        }
        let passed = now.saturating_sub(Duration::from_millis(recovered));
        let share = passed.as_secs_f64() / length.as_secs_f64();
        if share >= 1.0 {
            // Unless the server has recovered again meanwhile.
            let _ = self.health.recovered.compare_exchange(recovered, 0, Relaxed, Relaxed);
            return None;
        }
        Some(share)
    }

    /// Returns the server's state for [`balance::choose`]. `hash_key` is empty without `hash`.
    pub(super) fn candidate(&self, now: Duration, hash_key: &[u8]) -> Candidate {
        Candidate {
            weight: self.config.weight,
            active: self.load.active.load(SeqCst),
            max_active: self.config.max_connections,
            is_backup: self.config.backup,
            is_healthy: !self.health.is_unhealthy.load(Relaxed) && !self.is_failing(now),
            is_eligible: !self.config.drain,
            is_held_back: false,
            hash: match hash_key {
                [] => 0,
                key => balance::hash(key, &self.key),
            },
        }
    }

    /// Returns the address and the status of the server.
    pub(super) fn report(&self, now: Duration) -> (String, ServerStatus) {
        let state = match () {
            () if self.address.name().is_some() => "unknown",
            () if self.health.is_unhealthy.load(Relaxed) => "unhealthy",
            () if self.is_failing(now) => "failing",
            () if self.config.drain => "draining",
            () => "up",
        };
        let requests = ServerRequests {
            active: self.load.active.load(SeqCst).into(),
            total: self.load.requests.load(Relaxed),
        };
        let failures = self.load.failures.load(Relaxed);
        (self.address.to_string(), ServerStatus { state: state.into(), requests, failures })
    }

    /// Returns the time after which a pause of the server ends; `None` if it has none.
    pub(super) fn pause(&self, now: Duration) -> Option<Duration> {
        if !self.health.has_failures.load(Relaxed) {
            return None;
        }
        Some(self.passive_health().remaining(now)).filter(|remaining| !remaining.is_zero())
    }

    fn is_failing(&self, now: Duration) -> bool {
        self.health.has_failures.load(Relaxed) && self.passive_health().is_failing(now)
    }

    fn passive_health(&self) -> MutexGuard<'_, PassiveHealth> {
        self.health.passive_health.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn server() -> Server {
        let address = Address::Inet(([127, 0, 0, 1], 1).into());
        Server::new(&config::UpstreamServer::new(address, 1.0), 0)
    }

    #[test]
    fn an_answer_forgets_no_failure_that_another_thread_counts_at_the_same_time() {
        let (server, now) = (server(), Duration::from_secs(1));
        let policy = config::Failures { max: 1, time: Duration::from_secs(10) };
        let is_over = AtomicBool::new(false);
        let forgotten = thread::scope(|scope| {
            // More than there are processors: threads are interrupted where others can see it.
            for _ in 0..8 {
                scope.spawn(|| {
                    while !is_over.load(Relaxed) {
                        server.answered();
                    }
                });
            }
            let is_forgotten = |_: &u32| {
                server.failed(now, &policy);
                let health = server.passive_health();
                health.is_failing(now) && !server.health.has_failures.load(Relaxed)
            };
            let forgotten = (0..200_000).filter(is_forgotten).count();
            is_over.store(true, Relaxed);
            forgotten
        });
        assert_eq!(forgotten, 0);
    }

    #[test]
    fn the_end_of_a_slow_start_is_not_that_of_the_next_one() {
        let (server, length) = (server(), Duration::from_secs(1));
        let (before, now) = (Duration::from_secs(1), Duration::from_secs(100));
        let is_over = AtomicBool::new(false);
        let lost = thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Relaxed) {
                    server.slow_start(length, now);
                }
            });
            let is_lost = |_: &u32| {
                server.set_recovered(before);
                server.set_recovered(now);
                // Another thread may be about to end the slow start that has just been replaced.
                (0..20).any(|_| server.slow_start(length, now).is_none())
            };
            let lost = (0..200_000).filter(is_lost).count();
            is_over.store(true, Relaxed);
            lost
        });
        assert_eq!(lost, 0);
    }
}
