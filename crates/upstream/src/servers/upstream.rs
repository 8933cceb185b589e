//! Groups of servers that answer the same requests, compiled from the configuration.
//!
//! All threads share the state of the servers: active requests, failures, health. An upstream that
//! a new configuration does not change is reused. If it changes, or its names get other addresses,
//! the remaining servers keep their state.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed, Ordering::SeqCst};
use std::time::Duration;

use howdah_config::{self as config, Address};
use howdah_http::message::ConnectionInfo;
use howdah_questions::UpstreamStatus;
use howdah_tls::{ClientProtocol, TlsClient};
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;

use crate::connections::connection::{self, ConnectOptions, Connection};
use crate::failure::Failure;
use crate::log_limit::LogLimit;
use crate::queue::Queue;
use crate::servers::retry_budget::RetryBudget;
use crate::servers::server::Server;

/// One or more servers that answer the same requests.
#[derive(Debug)]
pub struct Upstream {
    /// Name for the log: `upstreams/NAME`, or the `proxy` of an action.
    pub name: Arc<str>,
    /// Settings of the upstream.
    pub config: config::Upstream,
    /// Servers in the order of the configuration.
    pub servers: Box<[Arc<Server>]>,
    /// TLS settings; `None` for plain HTTP.
    pub tls: Option<Arc<TlsClient>>,
    /// Maximum number of servers that one request is passed to.
    pub tries: usize,
    /// Share of requests that may be sent again.
    pub retry_budget: RetryBudget,
    /// Limit on the upstream's log messages.
    pub log_limit: Arc<LogLimit>,
    /// Queue of requests that wait for a server with room.
    pub(super) queue: Queue,
    /// Notified when a server has room. Shared with the previous and the next generation of the
    /// upstream, as they may have the same servers.
    pub(super) room: Arc<Notify>,
    /// The turn of the first request in the queue: no other one takes the place that was freed for
    /// it.
    pub(super) turn: Semaphore,
    /// Number of waiting requests that may not go to each server, because some have failed them.
    pub(super) restricted: AtomicU32,
    has_health_checks: AtomicBool,
    /// Start of the times in the servers' state.
    started: Instant,
}

impl Upstream {
    /// Compiles a member of `upstreams`.
    pub fn new(config: &config::Upstream, tls: Option<Arc<TlsClient>>) -> Self {
        Upstream::named(format!("upstreams/{}", config.name), config, tls)
    }

    /// Compiles the server of a `proxy` with these addresses.
    pub fn proxy(
        proxy: &config::Proxy,
        addresses: &[Address],
        tls: Option<Arc<TlsClient>>,
    ) -> Self {
        let scheme = if proxy.tls.is_some() { "https" } else { "http" };
        let plain = direct_config(&proxy.address, addresses);
        let (tls_settings, keepalive) = (proxy.tls.clone(), proxy.keepalive);
        let config = config::Upstream { tls: tls_settings, keepalive, ..plain };
        Upstream::named(format!("{scheme}://{}", proxy.address), &config, tls)
    }

    /// Compiles a server that decides about logins of mail, with these addresses.
    pub fn authentication(
        server: &config::MailAuthentication,
        addresses: &[Address],
        tls: Option<Arc<TlsClient>>,
    ) -> Self {
        let scheme = if server.is_https { "https" } else { "http" };
        let plain = direct_config(&server.address, addresses);
        let settings = server.is_https.then(config::UpstreamTls::default);
        let config = config::Upstream { tls: settings, ..plain };
        Upstream::named(format!("{scheme}://{}", server.address), &config, tls)
    }

    /// Compiles the server of an application of type `fastcgi` with these addresses.
    pub fn fastcgi(address: &Address, addresses: &[Address]) -> Self {
        Upstream::named(format!("fastcgi://{address}"), &direct_config(address, addresses), None)
    }

    /// Compiles the dashboard process as the server of an upstream. It is told who the client is.
    pub fn dashboard(address: Option<&Address>) -> Self {
        let servers = address.map(|one| config::UpstreamServer::new(one.clone(), 1.0));
        let config = config::Upstream {
            tries: Some(1),
            failures: config::Failures::NEVER,
            forwarded: config::ForwardedFields { x: true, standard: false },
            ..config::Upstream::new("", servers.into_iter().collect())
        };
        Upstream::named(DASHBOARD.to_owned(), &config, None)
    }

    /// Returns true if this is the dashboard process.
    pub fn is_dashboard(&self) -> bool {
        &*self.name == DASHBOARD
    }

    fn named(name: String, config: &config::Upstream, tls: Option<Arc<TlsClient>>) -> Self {
        let id = tls_id(tls.as_ref());
        let servers = config.servers.iter().map(|server| Arc::new(Server::new(server, id)));
        Upstream {
            name: name.into(),
            config: config.clone(),
            servers: servers.collect(),
            tls,
            tries: config.tries.unwrap_or(config.servers.len()),
            retry_budget: RetryBudget::default(),
            log_limit: Arc::default(),
            queue: Queue::new(config.queue, config.queue_timeout),
            room: Arc::default(),
            turn: Semaphore::new(1),
            restricted: AtomicU32::new(0),
            has_health_checks: AtomicBool::new(false),
            started: Instant::now(),
        }
    }

    /// Returns the id of the TLS settings; 0 for plain HTTP.
    pub fn tls_id(&self) -> u64 {
        tls_id(self.tls.as_ref())
    }

    /// Returns the upstream `before` a configuration change if it is unchanged; otherwise this one,
    /// with the state of the servers that both have.
    pub fn following(self, before: Option<&Arc<Upstream>>) -> Arc<Upstream> {
        match before {
            Some(before) if before.config == self.config && before.tls_id() == self.tls_id() => {
                Arc::clone(before)
            }
            Some(before) => Arc::new(self.with_state_of(before)),
            None => Arc::new(self),
        }
    }

    fn with_state_of(mut self, before: &Upstream) -> Self {
        self.log_limit = Arc::clone(&before.log_limit);
        // Other checks may have other results.
        let has_same_checks = self.config.health == before.config.health;
        (self.started, self.room) = (before.started, Arc::clone(&before.room));
        let mut known: Vec<_> = before.servers.iter().collect();
        for server in self.servers.iter_mut().filter_map(Arc::get_mut) {
            // Each state is used once: a configuration may name a server twice.
            if let Some(at) = known.iter().position(|old| old.is_same(server)) {
                let old = known.swap_remove(at);
                server.share_load(old);
                if has_same_checks {
                    server.share_health(old);
                }
            }
        }
        self
    }

    /// Connects to one of the servers, for a client or, with `None`, for a health check. The caller
    /// limits the time.
    pub async fn connect(
        &self,
        server: &Server,
        client: Option<&ConnectionInfo>,
    ) -> Result<Connection, Failure> {
        let is_http2 = self.config.http2;
        let protocol = if is_http2 { ClientProtocol::Http2 } else { ClientProtocol::Http1 };
        self.open(server, client, protocol).await
    }

    /// As [`Upstream::connect`], for another protocol than HTTP.
    pub async fn connect_session(
        &self,
        server: &Server,
        client: Option<&ConnectionInfo>,
    ) -> Result<Connection, Failure> {
        self.open(server, client, ClientProtocol::Other).await
    }

    async fn open(
        &self,
        server: &Server,
        client: Option<&ConnectionInfo>,
        protocol: ClientProtocol,
    ) -> Result<Connection, Failure> {
        let tls = match (&self.config.tls, &self.tls) {
            (None, _) => None,
            (Some(_), Some(tls)) => Some((&**tls, &*server.name)),
            (Some(_), None) => return Err(Failure::Tls("TLS is not ready".to_owned())),
        };
        let (address, proxy_protocol) = (&server.address, self.config.proxy_protocol);
        connection::open(&ConnectOptions { address, proxy_protocol, tls, protocol, client }).await
    }

    /// Returns true for the first caller, which starts the health checks.
    pub fn claim_health_checks(&self) -> bool {
        !self.has_health_checks.swap(true, Relaxed)
    }

    /// Stores the result of a health check. Returns true if it differs from the previous one.
    pub fn set_healthy(&self, server: &Server, is_healthy: bool) -> bool {
        let has_changed = server.set_healthy(is_healthy);
        match is_healthy {
            true if has_changed => self.recovered(server),
            false if has_changed => self.wake_all(),
            _ => {}
        }
        has_changed
    }

    /// Begins the slow start of a server that can be used again, and wakes waiting requests.
    pub(super) fn recovered(&self, server: &Server) {
        server.set_recovered(self.now());
        self.wake_all();
    }

    /// Wakes the requests that wait, because other servers can be selected now: as many of them may
    /// continue as these have room for.
    pub(super) fn wake_all(&self) {
        self.room.notify_waiters();
    }

    /// Wakes one waiting request, because a server has room for it; all of them if that one may not
    /// be for each: some wait at another generation of the upstream, which may have other servers,
    /// or servers have failed them.
    pub(super) fn wake_waiting(&self) {
        if Arc::strong_count(&self.room) == 1 && self.restricted.load(SeqCst) == 0 {
            self.room.notify_one();
        } else {
            self.room.notify_waiters();
        }
    }

    /// Returns the time after which the first pause of a server ends; `None` if there is none.
    pub(super) fn next_pause_end(&self) -> Option<Duration> {
        let now = self.now();
        self.servers.iter().filter_map(|server| server.pause(now)).min()
    }

    /// Returns true if a request may be waiting, here or at another generation of the upstream.
    pub(super) fn may_have_waiting(&self) -> bool {
        self.queue.waiting() > 0 || Arc::strong_count(&self.room) > 1
    }

    /// Returns the time since the start of the upstream.
    pub(super) fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Returns the status of all servers.
    pub fn report(&self) -> UpstreamStatus {
        let now = self.now();
        UpstreamStatus { servers: self.servers.iter().map(|server| server.report(now)).collect() }
    }
}

impl fmt::Display for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Name of the dashboard process, which no other upstream can have: theirs have a slash.
const DASHBOARD: &str = "dashboard";

/// Returns the settings of a directly named server. As in Unit a request is passed to it once. If
/// its name has several addresses, each may be tried, and a failing one is not used for some time.
fn direct_config(address: &Address, addresses: &[Address]) -> config::Upstream {
    let servers = addresses.iter().map(|resolved| config::UpstreamServer {
        named: (resolved != address).then(|| address.clone()),
        ..config::UpstreamServer::new(resolved.clone(), 1.0)
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

fn tls_id(tls: Option<&Arc<TlsClient>>) -> u64 {
    tls.map_or(0, |tls| tls.id)
}
