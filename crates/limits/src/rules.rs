//! The rules of a listener or action, and the verdict about a request.
//!
//! All rules that are about a request must admit it. A request that one of them refuses counts for
//! none. The longest of several delays counts, as in nginx.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use howdah_config::{LimitRule, Match};
use howdah_http::message::{FieldBlock, Request, Response};
use howdah_http::respond;

use crate::at_once::Permit;
use crate::bandwidth::Bandwidth;
use crate::gcra::Rate;
use crate::key::{self, KeyHash};
use crate::penalty::Penalty;
use crate::zone::{Zone, Zones};
use crate::{Nanos, SECOND};

/// A compiled rule.
#[derive(Debug)]
pub struct Rule {
    settings: LimitRule,
    rate: Option<Rate>,
    /// Time by which a request may be ahead of the rate without waiting.
    undelayed: Option<Nanos>,
    penalty: Option<Penalty>,
    zone: Arc<Zone>,
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
    /// Name of the zone.
    pub zone: String,
    /// The key, for people.
    pub key: String,
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

/// Status in the log of requests that are not answered: nginx's 444.
const UNANSWERED: u16 = 444;

/// A request that a rule has counted.
struct Counted<'r> {
    rule: &'r Rule,
    key: KeyHash,
}

impl Rule {
    /// Compiles rules of the document that `zones` was made for.
    pub fn compile(rules: &[LimitRule], zones: &Zones) -> Vec<Rule> {
        rules.iter().map(|rule| Rule::new(rule, zones.of(rule))).collect()
    }

    fn new(rule: &LimitRule, zone: Arc<Zone>) -> Rule {
        let period = |rate: howdah_config::LimitRate| {
            u64::try_from(rate.period.as_nanos()).unwrap_or(u64::MAX)
        };
        let rate = rule.rate.map(|rate| Rate::new(rate.requests, period(rate), rate.burst));
        let undelayed = rule.rate.zip(rate).and_then(|(configured, rate)| {
            Some(rate.interval().saturating_mul(u64::from(configured.undelayed?)))
        });
        let penalty = rule.penalty.as_ref().map(Penalty::new);
        Rule { settings: rule.clone(), rate, undelayed, penalty, zone }
    }

    fn is_about(
        &self,
        request: &Request,
        name: Option<&str>,
        holds: &mut dyn FnMut(&Match) -> bool,
    ) -> bool {
        let LimitRule { conditions, except, .. } = &self.settings;
        let is_named = name.zip(except.names.as_ref());
        !except.addresses.matches(request.connection.peer)
            && !is_named.is_some_and(|(name, names)| names.matches(name.as_bytes()))
            && holds(conditions)
            && !except.conditions.iter().any(holds)
    }

    /// Returns true if the rule is about more than connections.
    fn limits_requests(&self) -> bool {
        let LimitRule { concurrency, processes, bandwidth, .. } = &self.settings;
        self.rate.is_some() || concurrency.is_some() || processes.is_some() || bandwidth.is_some()
    }

    /// Counts a request of a key.
    fn count(
        &self,
        hash: KeyHash,
        text: &[u8],
        now: Nanos,
        admission: &mut Admission,
    ) -> Result<(), Box<Refusal>> {
        let permit = match self.settings.concurrency {
            None => None,
            Some(max) => match self.zone.at_once.enter(hash, max) {
                None => return Err(Box::new(self.refusal(SECOND, text))),
                permit => permit,
            },
        };
        if let Some(rate) = &self.rate {
            match self.zone.request(hash, rate, self.penalty.as_ref(), now) {
                Ok(conforming) => {
                    let wait = self.undelayed.map(|free| conforming.ahead.saturating_sub(free));
                    admission.delay = admission.delay.max(wait.unwrap_or(0));
                    if self.settings.announce && !self.settings.dry_run {
                        let own = self.announcement(rate, conforming.remaining, rate.interval());
                        match &mut admission.announcement {
                            Some(other) if other.remaining <= own.remaining => {}
                            other => *other = Some(own),
                        }
                    }
                }
                Err(exceeded) => {
                    return Err(Box::new(Refusal {
                        announcement: Some(self.announcement(rate, 0, exceeded.wait)),
                        close: exceeded.punishment.close,
                        block: exceeded.punishment.block,
                        ..self.refusal(exceeded.wait, text)
                    }));
                }
            }
        }
        admission.permits.extend(permit);
        if let (Some(limit), false) = (self.settings.bandwidth, self.settings.dry_run) {
            admission.bandwidths.push(Bandwidth::new(&self.zone.bytes, hash, limit));
        }
        if let (Some(max), false) = (self.settings.processes, self.settings.dry_run) {
            admission.processes = Some((hash, max));
        }
        Ok(())
    }

    fn refusal(&self, wait: Nanos, key: &[u8]) -> Refusal {
        Refusal {
            status: self.settings.status,
            wait,
            announcement: None,
            close: false,
            block: None,
            zone: self.zone.name.clone(),
            key: key::shown(key),
        }
    }

    fn announcement(&self, rate: &Rate, remaining: u64, reset: Nanos) -> Announcement {
        let name = self.settings.zone.clone().unwrap_or_else(|| "limit".to_owned());
        let (quota, window) = (rate.quota(), rate.window());
        Announcement { name, quota, window, remaining, reset: reset.div_ceil(SECOND) }
    }

    /// Counts a refusal. Returns true if it is to be carried out.
    fn refuse(&self, refusal: &Refusal, hash: KeyHash, text: &[u8], now: Nanos) -> bool {
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

/// Returns true if rules that are about a request need the host name of its client.
pub fn need_name(rules: &[Rule], request: &Request, holds: &mut dyn FnMut(&Match) -> bool) -> bool {
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
                let refusal = rule.refusal(SECOND, &text);
                if rule.refuse(&refusal, key, &text, now) {
                    return Err(TooManyConnections);
                }
            }
        }
    }
    Ok(permits)
}

/// Takes a request through rules. `name` is the client's host name, if the rules need it; `holds`
/// evaluates conditions.
pub fn check(
    rules: &[Rule],
    request: &Request,
    name: Option<&str>,
    started_at: Instant,
    now: Nanos,
    holds: &mut dyn FnMut(&Match) -> bool,
) -> Result<Admission, Box<Refusal>> {
    let mut admission = Admission::default();
    let mut counted: Vec<Counted<'_>> = Vec::new();
    let mut text = Vec::new();
    for rule in rules {
        if !rule.limits_requests() || !rule.is_about(request, name, holds) {
            continue;
        }
        key::write(rule.settings.key.as_ref(), request, started_at, &mut text);
        if text.is_empty() {
            continue;
        }
        let key = key::hash(&text);
        rule.zone.counters.requests.fetch_add(1, Relaxed);
        let delay = admission.delay;
        match rule.count(key, &text, now, &mut admission) {
            Ok(()) if rule.settings.dry_run => admission.delay = delay,
            Ok(()) => {
                if admission.delay > delay {
                    rule.zone.counters.delayed.fetch_add(1, Relaxed);
                }
                counted.push(Counted { rule, key });
            }
            Err(refusal) => {
                if rule.refuse(&refusal, key, &text, now) {
                    for Counted { rule, key } in counted {
                        if let Some(rate) = &rule.rate {
                            rule.zone.take_back(key, rate, now);
                        }
                    }
                    return Err(refusal);
                }
            }
        }
    }
    Ok(admission)
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
    /// Returns the response: the status, and when to come again. If the connection is to be closed, it
    /// is not sent.
    pub fn response(&self) -> Response {
        if self.close {
            return Response::unsent(UNANSWERED);
        }
        let mut response = respond::error(self.status);
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

#[cfg(test)]
mod tests;
