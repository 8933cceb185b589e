//! Selects the server of a request: by the sticky cookie, otherwise by the upstream's method; if
//! all are full, the request waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use howdah_config::{self as config, Variable};
use howdah_http::variables::VariableSource;
use tokio::time::timeout;

use crate::queue::QueueError;
use crate::servers::balance::{self, Choice, Method};
use crate::servers::selector::Selector;
use crate::servers::server::Server;
use crate::servers::upstream::Upstream;

/// Minimum share of its requests that a server gets in its slow start.
const MIN_SLOW_START_SHARE: f64 = 0.05;

/// Properties of a request that the selection depends on.
#[derive(Debug, Default)]
pub struct Affinity {
    /// Value that is hashed; empty without `hash`.
    pub hash_key: Vec<u8>,
    /// Value of the sticky cookie; empty if there is none.
    pub sticky: Vec<u8>,
}

impl Affinity {
    /// Reads the properties that the upstream's settings need.
    pub fn of(upstream: &Upstream, source: &VariableSource<'_>) -> Self {
        let mut affinity = Affinity::default();
        if let config::Balance::Hash(template) = &upstream.config.balance {
            affinity.hash_key = source.expand(template);
        }
        if let Some(sticky) = &upstream.config.sticky {
            source.write(&Variable::Cookie(sticky.cookie.clone()), &mut affinity.sticky);
        }
        affinity
    }

    /// Returns the value of `Set-Cookie` that sends the client to the same server again; `None` if
    /// the client has it already or the upstream sets none.
    pub fn sticky_cookie(
        &self,
        upstream: &Upstream,
        server: &Server,
        is_secure: bool,
    ) -> Option<String> {
        let sticky = upstream.config.sticky.as_ref()?;
        (self.sticky != server.sticky.as_bytes())
            .then(|| sticky.set_cookie(&server.sticky, is_secure))
    }
}

/// A request that a server is processing; counted as active until it is dropped.
#[derive(Debug)]
pub struct ActiveRequest {
    upstream: Arc<Upstream>,
    index: usize,
}

impl ActiveRequest {
    /// Counts a request of the server with this index; `None` if the server has become full.
    fn begin(upstream: &Arc<Upstream>, index: usize) -> Option<Self> {
        let has_begun = upstream.servers.get(index)?.try_begin_request();
        has_begun.then(|| ActiveRequest { upstream: Arc::clone(upstream), index })
    }

    /// Returns the index of the server in its upstream.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns the server.
    pub fn server(&self) -> Option<&Arc<Server>> {
        self.upstream.servers.get(self.index)
    }

    /// Counts a failure of the server. Returns the length of the pause if one begins now.
    pub fn failed(&self) -> Option<Duration> {
        let policy = &self.upstream.config.failures;
        let pause = self.server()?.failed(self.upstream.now(), policy)?;
        self.upstream.wake_all(); // those that wait for this server may go to a backup now
        Some(pause)
    }

    /// Resets the failures of the server, because it has responded. Returns true if there was a
    /// pause.
    pub fn answered(&self) -> bool {
        let Some(server) = self.server() else { return false };
        let has_recovered = server.answered();
        if has_recovered {
            self.upstream.recovered(server);
        }
        has_recovered
    }
}

/// Result of the selection of a server for a request.
enum Selection {
    /// The request is counted at its server.
    Begun(ActiveRequest),
    /// All eligible servers have their maximum number of requests.
    Full,
    /// No server is eligible.
    None,
}

/// Counts a waiting request that may not go to each server, until it is dropped.
struct Restricted<'c>(&'c AtomicU32);

impl<'c> Restricted<'c> {
    fn new(count: &'c AtomicU32) -> Self {
        count.fetch_add(1, SeqCst);
        Restricted(count)
    }
}

impl Drop for Restricted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        if let Some(server) = self.server() {
            server.end_request();
        }
        if self.upstream.may_have_waiting() {
            self.upstream.wake_waiting();
        }
    }
}

impl Upstream {
    /// Selects a server for a request, except those with an index in `tried`; waits until one has
    /// room. Returns `None` if there is none.
    pub async fn acquire(
        self: &Arc<Self>,
        selector: &Selector<Upstream>,
        tried: &[usize],
        affinity: &Affinity,
    ) -> Result<Option<ActiveRequest>, QueueError> {
        if self.queue.waiting() == 0 {
            match self.begin_request(selector, tried, affinity) {
                Selection::Begun(active) => return Ok(Some(active)),
                Selection::None => return Ok(None),
                Selection::Full => {}
            }
        }
        self.queue.wait(self.wait_for_room(selector, tried, affinity)).await
    }

    /// Selects a server for a request, except those with an index in `tried`, if one has room now.
    pub fn try_acquire(
        self: &Arc<Self>,
        selector: &Selector<Upstream>,
        tried: &[usize],
        affinity: &Affinity,
    ) -> Option<ActiveRequest> {
        match self.begin_request(selector, tried, affinity) {
            Selection::Begun(active) => Some(active),
            Selection::None | Selection::Full => None,
        }
    }

    async fn wait_for_room(
        self: &Arc<Self>,
        selector: &Selector<Upstream>,
        tried: &[usize],
        affinity: &Affinity,
    ) -> Option<ActiveRequest> {
        // A request that may not go to each server must not delay requests that may go to the
        // others.
        let (_restricted, _turn) = match tried {
            [] => (None, self.turn.acquire().await.ok()),
            _ => (Some(Restricted::new(&self.restricted)), None),
        };
        loop {
            let mut room = std::pin::pin!(self.room.notified());
            // Both are prepared before the selection, so that no notification and no end of a pause
            // is missed.
            room.as_mut().enable();
            let pause_end = self.next_pause_end();
            match self.begin_request(selector, tried, affinity) {
                Selection::Begun(active) => return Some(active),
                Selection::None => return None,
                Selection::Full => match pause_end {
                    None => room.await,
                    // Only the end of the pause tells that a server can be selected again.
                    Some(end) => drop(timeout(end, room).await),
                },
            }
        }
    }

    /// Selects a server and counts the request there, in one step for other threads.
    fn begin_request(
        self: &Arc<Self>,
        selector: &Selector<Upstream>,
        tried: &[usize],
        affinity: &Affinity,
    ) -> Selection {
        loop {
            match self.choose(selector, tried, affinity) {
                Choice::None => return Selection::None,
                Choice::Full => return Selection::Full,
                Choice::Server(index) => {
                    if let Some(active) = ActiveRequest::begin(self, index) {
                        return Selection::Begun(active);
                    }
                    // Another thread has taken the last place of the server since.
                }
            }
        }
    }

    fn choose(
        self: &Arc<Self>,
        selector: &Selector<Upstream>,
        tried: &[usize],
        affinity: &Affinity,
    ) -> Choice {
        let now = self.now();
        if let Some(index) = self.sticky_server(tried, affinity, now) {
            return Choice::Server(index);
        }
        if let [server] = &*self.servers {
            let mut only = server.candidate(now, &affinity.hash_key);
            only.is_eligible &= tried.is_empty();
            return balance::choose(&[only], Method::Hash); // all methods select it
        }
        let candidates: Vec<_> = self
            .servers
            .iter()
            .enumerate()
            .map(|(index, server)| {
                let mut candidate = server.candidate(now, &affinity.hash_key);
                candidate.is_eligible &= !tried.contains(&index);
                candidate.is_held_back =
                    candidate.is_eligible && self.is_held_back(server, now, selector);
                candidate
            })
            .collect();
        selector.choose(self, &self.config.balance, &candidates)
    }

    /// Returns the server that the sticky cookie names, if it is healthy and has room.
    fn sticky_server(&self, tried: &[usize], affinity: &Affinity, now: Duration) -> Option<usize> {
        self.config.sticky.as_ref().filter(|_| !affinity.sticky.is_empty())?;
        let index = self.servers.iter().position(|s| s.sticky.as_bytes() == affinity.sticky)?;
        let candidate = self.servers.get(index)?.candidate(now, &affinity.hash_key);
        (candidate.is_healthy && candidate.has_room() && !tried.contains(&index)).then_some(index)
    }

    /// Returns true if a server in its slow start leaves this request to others.
    fn is_held_back(&self, server: &Server, now: Duration, selector: &Selector<Self>) -> bool {
        let Some(length) = self.config.slow_start else { return false };
        let Some(share) = server.slow_start(length, now) else { return false };
        let chance = (selector.random() >> 11) as f64 / (1u64 << 53) as f64;
        chance >= share.max(MIN_SLOW_START_SHARE)
    }
}

#[cfg(test)]
mod tests;
