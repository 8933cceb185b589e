//! The rules of a listener or action, and the decision of each about a request.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use howdah_config::{LimitRule, Match, UNANSWERED};
use howdah_http::error_status::RequestError;
use howdah_http::message::{FieldBlock, Request, Response};
use howdah_http::respond;

use crate::at_once::Permit;
use crate::bandwidth::Bandwidth;
use crate::gcra::Rate;
use crate::key::{self, KeyHash};
use crate::penalty::Penalty;
use crate::zone::{Exceeded, Zone, Zones};
use crate::{Nanos, SECOND};

/// A compiled rule.
#[derive(Debug)]
pub struct Rule {
    pub(crate) settings: LimitRule,
    pub(crate) rate: Option<Rate>,
    /// Time by which a request may be ahead of the rate without waiting.
    undelayed: Option<Nanos>,
    penalty: Option<Penalty>,
    pub(crate) zone: Arc<Zone>,
    /// The rate is that of all servers of the cluster.
    pub(crate) is_shared: bool,
}

/// Evaluates conditions with paths of a request.
pub type Holds<'h> = dyn FnMut(&Match, Paths) -> bool + 'h;

/// The paths of a request that conditions are compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paths {
    /// The path after rewrites.
    Routed,
    /// The path as sent by the client.
    Sent,
    /// The sent and the routed path, if they differ: at least one must match, and neither may be
    /// excluded. Equal paths never match, as the routed path has been compared already.
    Either,
}

/// Result of a request that is admitted.
#[derive(Debug, Default)]
pub struct Admission {
    /// Time that the request has to wait.
    pub delay: Nanos,
    /// Held until the response has been sent.
    pub permits: Vec<Permit>,
    /// Values of the `RateLimit` fields, if the client is to be told.
    pub announcement: Option<Announcement>,
    /// Bandwidths of the response.
    pub bandwidths: Vec<Bandwidth>,
    /// Key of the request, and the number of its requests that may run in PHP at once.
    pub processes: Option<(KeyHash, u32)>,
}

/// Result of a request that is refused.
#[derive(Debug)]
pub struct Refusal {
    /// Status of the response.
    pub status: u16,
    /// Time after which the client may try again.
    pub wait: Nanos,
    /// Values of the `RateLimit` fields, if a rate was exceeded.
    pub announcement: Option<Announcement>,
    /// The connection is closed without a response.
    pub close: bool,
    /// Time of the block that this refusal begins.
    pub block: Option<Nanos>,
    /// The block, if other servers are to carry it out too.
    pub shared_block: Option<SharedBlock>,
    /// Name of the zone.
    pub zone: String,
    /// The key, for people.
    pub key: String,
    /// The limit that was exceeded, with its path in the document, for the log.
    pub reason: String,
}

/// A key that is to be blocked on all servers of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedBlock {
    /// Name of the zone.
    pub zone: String,
    /// The key.
    pub key: Box<[u8]>,
    /// Time by which its due time is ahead.
    pub debt: Nanos,
    /// Longest possible debt of a key.
    pub longest_debt: Nanos,
}

/// Values of the fields `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announcement {
    /// Name of the policy.
    name: String,
    /// Requests that a client without debt may send at once.
    quota: u64,
    /// Seconds after which it has all of them again.
    window: u64,
    /// Requests that it may send now.
    remaining: u64,
    /// Seconds until it may send one more.
    reset: u64,
}

impl Rule {
    /// Compiles rules of the document that `zones` was made for.
    pub fn compile(rules: &[LimitRule], zones: &Zones) -> Vec<Rule> {
        rules.iter().map(|rule| Rule::new(rule, zones.of(rule), zones.are_shared())).collect()
    }

    fn new(rule: &LimitRule, zone: Arc<Zone>, are_shared: bool) -> Rule {
        let period = |rate: howdah_config::LimitRate| {
            u64::try_from(rate.period.as_nanos()).unwrap_or(u64::MAX)
        };
        let rate = rule.rate.map(|rate| Rate::new(rate.requests, period(rate), rate.burst));
        let undelayed = rule.rate.zip(rate).and_then(|(configured, rate)| {
            Some(rate.interval().saturating_mul(u64::from(configured.undelayed?)))
        });
        let penalty = rule.penalty.as_ref().map(Penalty::new);
        let is_shared = are_shared && rule.shared && rate.is_some();
        Rule { settings: rule.clone(), rate, undelayed, penalty, zone, is_shared }
    }

    /// Returns true if the rule counts a request. It is about the path that routes have made of the
    /// request's, and also about the one that the client has sent if the rule names that: a
    /// `rewrite` leads all pages of an application to one script, while rules are about pages. The
    /// second comparison only adds requests, so no choice of a path evades a rule; and it adds none
    /// that an exception for either of the paths leaves out.
    pub(crate) fn is_about(
        &self,
        request: &Request,
        name: Option<&str>,
        holds: &mut Holds<'_>,
    ) -> bool {
        let LimitRule { conditions, except, .. } = &self.settings;
        let is_named = name.zip(except.names.as_ref());
        if except.addresses.matches(request.connection.peer)
            || is_named.is_some_and(|(name, names)| names.matches(name.as_bytes()))
        {
            return false;
        }
        let is_excepted =
            |paths, holds: &mut Holds<'_>| except.conditions.iter().any(|met| holds(met, paths));
        if holds(conditions, Paths::Routed) && !is_excepted(Paths::Routed, holds) {
            return true;
        }
        conditions.uri.is_some()
            && holds(conditions, Paths::Either)
            && !is_excepted(Paths::Routed, holds)
            && !is_excepted(Paths::Sent, holds)
    }

    /// Returns true if the rule is about more than connections.
    pub(crate) fn limits_requests(&self) -> bool {
        let LimitRule { concurrency, processes, bandwidth, .. } = &self.settings;
        self.rate.is_some() || concurrency.is_some() || processes.is_some() || bandwidth.is_some()
    }

    /// Counts a request of a key.
    pub(crate) fn count(
        &self,
        hash: KeyHash,
        text: &[u8],
        now: Nanos,
        admission: &mut Admission,
    ) -> Result<(), Box<Refusal>> {
        let permit = self.enter(hash, text)?;
        self.count_rate(hash, text, now, admission)?;
        admission.permits.extend(permit);
        admission.bandwidths.extend(self.bandwidth(hash));
        if let (Some(max), false) = (self.settings.processes, self.settings.dry_run) {
            admission.processes = Some((hash, max));
        }
        Ok(())
    }

    /// Counts one more of a key at once; `None` if the rule does not limit that.
    pub(crate) fn enter(&self, hash: KeyHash, text: &[u8]) -> Result<Option<Permit>, Box<Refusal>> {
        let Some(max) = self.settings.concurrency else { return Ok(None) };
        self.zone.at_once.enter(hash, max).map(Some).ok_or_else(|| {
            let reason = self.reason("more requests at once", "concurrency");
            Box::new(self.refusal(SECOND, text, reason))
        })
    }

    /// Counts a request of a key by the rate, if the rule has one.
    pub(crate) fn count_rate(
        &self,
        hash: KeyHash,
        text: &[u8],
        now: Nanos,
        admission: &mut Admission,
    ) -> Result<(), Box<Refusal>> {
        let Some(rate) = &self.rate else { return Ok(()) };
        match self.zone.request(hash, rate, self.penalty.as_ref(), now) {
            Ok(conforming) => {
                let wait = self.undelayed.map(|free| conforming.ahead.saturating_sub(free));
                admission.delay = admission.delay.max(wait.unwrap_or(0));
                self.announce_remaining(rate, conforming.remaining, admission);
                Ok(())
            }
            Err(exceeded) => Err(Box::new(self.refusal_of_rate(rate, exceeded, text, now))),
        }
    }

    /// Returns the bandwidth of a key, if the rule limits it.
    pub(crate) fn bandwidth(&self, hash: KeyHash) -> Option<Bandwidth> {
        let limit = self.settings.bandwidth.filter(|_| !self.settings.dry_run)?;
        Some(Bandwidth::new(&self.zone.bytes, hash, limit))
    }

    /// Returns the reason of a refusal by a key of the rule.
    fn reason(&self, excess: &str, key: &str) -> String {
        format!("{excess} than {}/{key} allows", self.settings.place)
    }

    fn refusal(&self, wait: Nanos, key: &[u8], reason: String) -> Refusal {
        Refusal {
            status: self.settings.status,
            wait,
            announcement: None,
            close: false,
            block: None,
            shared_block: None,
            zone: self.zone.name.clone(),
            key: key::shown(key),
            reason,
        }
    }

    fn refusal_of_rate(&self, rate: &Rate, exceeded: Exceeded, text: &[u8], now: Nanos) -> Refusal {
        let block = exceeded.punishment.block;
        let is_shared = self.is_shared && !self.settings.dry_run;
        let shared_block = block.filter(|_| is_shared).map(|block| SharedBlock {
            zone: self.zone.name.clone(),
            key: text.into(),
            debt: rate.blocked_until(now.saturating_add(block)).saturating_sub(now),
            longest_debt: self.longest_debt(rate),
        });
        let reason = self.reason("more requests", "rate");
        Refusal {
            announcement: Some(self.announcement(rate, 0, exceeded.wait)),
            close: exceeded.punishment.close,
            block,
            shared_block,
            ..self.refusal(exceeded.wait, text, reason)
        }
    }

    /// Announces the rest of the rate to the client, if the rule says so and no other rule leaves
    /// less.
    fn announce_remaining(&self, rate: &Rate, remaining: u64, admission: &mut Admission) {
        if self.settings.announce && !self.settings.dry_run {
            let own = self.announcement(rate, remaining, rate.interval());
            match &mut admission.announcement {
                Some(other) if other.remaining <= own.remaining => {}
                other => *other = Some(own),
            }
        }
    }

    fn announcement(&self, rate: &Rate, remaining: u64, reset: Nanos) -> Announcement {
        let name = self.settings.zone.clone().unwrap_or_else(|| "limit".to_owned());
        let (quota, window) = (rate.quota(), rate.window());
        Announcement { name, quota, window, remaining, reset: reset.div_ceil(SECOND) }
    }

    /// Counts a refusal. Returns true if it is to be carried out.
    pub(crate) fn refuse(&self, refusal: &Refusal, hash: KeyHash, text: &[u8], now: Nanos) -> bool {
        let counters = &self.zone.counters;
        self.zone.ranking.count(hash, text, now);
        if self.settings.dry_run {
            counters.dry_run.fetch_add(1, Relaxed);
            return false;
        }
        counters.refused.fetch_add(1, Relaxed);
        counters.closed.fetch_add(u64::from(refusal.close), Relaxed);
        counters.blocks.fetch_add(u64::from(refusal.block.is_some()), Relaxed);
        true
    }
}

/// Effects of the counter that several servers share.
impl Rule {
    pub(crate) fn zone_name(&self) -> &str {
        &self.zone.name
    }

    pub(crate) fn is_dry_run(&self) -> bool {
        self.settings.dry_run
    }

    /// Returns the longest possible debt of a key.
    pub(crate) fn longest_debt(&self, rate: &Rate) -> Nanos {
        let block = self.penalty.map_or(0, |penalty| penalty.max_time.max(penalty.time));
        rate.blocked_until(block).saturating_add(rate.interval())
    }

    /// Takes back a request that another rule or server has refused.
    pub(crate) fn take_back(&self, key: KeyHash, now: Nanos) {
        if let Some(rate) = &self.rate {
            self.zone.take_back(key, rate, now);
        }
    }

    /// Takes over a due time that the shared counter knows.
    pub(crate) fn learn(&self, rate: &Rate, key: KeyHash, due: Nanos, now: Nanos) {
        self.zone.learn(key, rate, due, now);
    }

    /// Delays a request of a key with this debt that conforms, and announces the rest of the rate
    /// to its client.
    pub(crate) fn admit_shared(&self, rate: &Rate, debt: Nanos, admission: &mut Admission) {
        if self.settings.dry_run {
            return;
        }
        if let Some(wait) = self.undelayed.map(|free| debt.saturating_sub(free)) {
            admission.delay = admission.delay.max(wait);
        }
        let due = debt.saturating_add(rate.interval());
        self.announce_remaining(rate, rate.remaining(due, 0), admission);
    }

    /// Counts a refusal of a key with this debt by the shared counter.
    pub(crate) fn refuse_shared(
        &self,
        rate: &Rate,
        key: KeyHash,
        text: &[u8],
        debt: Nanos,
        now: Nanos,
    ) -> Box<Refusal> {
        let wait = rate.wait(debt);
        let exceeded = self.zone.exceed(key, rate, self.penalty.as_ref(), wait, now);
        let refusal = self.refusal_of_rate(rate, exceeded, text, now);
        self.refuse(&refusal, key, text, now);
        Box::new(refusal)
    }
}

/// Returns true if rules that are about a request need the host name of its client.
pub fn need_name(rules: &[Rule], request: &Request, holds: &mut Holds<'_>) -> bool {
    let needs = |rule: &Rule| rule.settings.except.names.is_some();
    rules.iter().any(|rule| needs(rule) && rule.is_about(request, None, holds))
}

/// A client has as many connections as it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooManyConnections;

/// Counts a connection of a client by the rules of a listener.
pub fn connect<'r>(
    rules: impl IntoIterator<Item = &'r Rule>,
    peer: Option<SocketAddr>,
    now: Nanos,
) -> Result<Vec<Permit>, TooManyConnections> {
    let mut permits = Vec::new();
    for rule in rules {
        let Some(max) = rule.settings.connections else { continue };
        if rule.settings.except.addresses.matches(peer) {
            continue;
        }
        let mut text = Vec::new();
        key::write_client(peer.map(|peer| peer.ip()), &mut text);
        let key = key::hash(&text);
        match rule.zone.connections.enter(key, max) {
            Some(permit) => permits.push(permit),
            None => {
                let reason = rule.reason("more connections", "connections");
                let refusal = rule.refusal(SECOND, &text, reason);
                if rule.refuse(&refusal, key, &text, now) {
                    return Err(TooManyConnections);
                }
            }
        }
    }
    Ok(permits)
}

impl Admission {
    /// Adds the admission by the rules of another place on the way of the same request.
    pub fn add(&mut self, other: Admission) {
        self.delay = self.delay.max(other.delay);
        self.permits.extend(other.permits);
        self.bandwidths.extend(other.bandwidths);
        self.announcement = other.announcement.or(self.announcement.take());
        self.processes = other.processes.or(self.processes);
    }
}

impl Refusal {
    /// Returns the response: the status, and when to come again. If the connection is to be closed,
    /// it is not sent.
    pub fn response(&self) -> Response {
        if self.close {
            return Response::unsent(UNANSWERED);
        }
        let mut response = respond::refuse(RequestError::Stated(self.status));
        // The page's own fields: a 503 of the server itself has another `Retry-After`.
        response.fields = FieldBlock::default();
        response.fields.push("Content-Type", "text/html");
        let seconds = self.wait.div_ceil(SECOND).max(1);
        response.fields.push("Retry-After", seconds.to_string());
        if let Some(announcement) = &self.announcement {
            announcement.put(&mut response);
        }
        response
    }
}

impl Announcement {
    /// Adds the fields to a response.
    pub fn put(&self, response: &mut Response) {
        let Announcement { name, quota, window, remaining, reset } = self;
        response.fields.push("RateLimit-Policy", format!("\"{name}\";q={quota};w={window}"));
        response.fields.push("RateLimit", format!("\"{name}\";r={remaining};t={reset}"));
    }
}
