//! Zones: the counters of one rule, or of all rules that name the same zone.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use howdah_config::{Config, LimitRule, Template};
use howdah_questions::{LimitStatus, RefusedKey};

use crate::Nanos;
use crate::at_once::AtOnce;
use crate::gcra::{Conformance, Rate};
use crate::key::KeyHash;
use crate::penalty::{Penalty, Punishment};
use crate::ranking::{Ranked, Ranking};
use crate::table::Table;

/// Number of keys with refusals in a report.
const MAX_REPORTED_KEYS: usize = 20;

/// Counters by key.
#[derive(Debug)]
pub struct Zone {
    /// Name of the zone, or path of the only rule.
    pub name: String,
    /// Rule that it was made for.
    key: Option<Template>,
    keys: u32,
    /// Rates and penalties.
    pub table: Table,
    /// Requests at once.
    pub at_once: Arc<AtOnce>,
    /// Connections at once.
    pub connections: Arc<AtOnce>,
    /// Bytes of responses.
    pub bytes: Arc<Table>,
    /// Keys with the most refusals.
    pub ranking: Ranking,
    /// Numbers of requests.
    pub counters: Counters,
}

/// Numbers of requests since the zone was made.
#[derive(Debug, Default)]
pub struct Counters {
    /// Requests with a key, of rules of the zone.
    pub requests: AtomicU64,
    /// Requests that had to wait.
    pub delayed: AtomicU64,
    /// Refused requests.
    pub refused: AtomicU64,
    /// Refused requests that were not answered.
    pub closed: AtomicU64,
    /// Requests that a dry run would have refused.
    pub dry_run: AtomicU64,
    /// Blocks that began.
    pub blocks: AtomicU64,
}

/// A refusal by the rate of a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exceeded {
    /// Time until a request of this key conforms.
    pub wait: Nanos,
    /// Its penalty.
    pub punishment: Punishment,
}

/// Result of a request that conforms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conforming {
    /// Time by which the request is ahead of the rate.
    pub ahead: Nanos,
    /// Number of further requests that conform at once.
    pub remaining: u64,
}

impl Zone {
    /// Creates the zone of a rule.
    pub fn new(rule: &LimitRule) -> Zone {
        Zone {
            name: rule.name().to_owned(),
            key: rule.key.clone(),
            keys: rule.keys,
            table: Table::new(usize::try_from(rule.keys).unwrap_or(usize::MAX)),
            at_once: Arc::default(),
            connections: Arc::default(),
            bytes: Arc::new(Table::new(usize::try_from(rule.keys).unwrap_or(usize::MAX))),
            ranking: Ranking::default(),
            counters: Counters::default(),
        }
    }

    /// Checks a request against a rate, and counts it if it conforms.
    pub fn request(
        &self,
        key: KeyHash,
        rate: &Rate,
        penalty: Option<&Penalty>,
        now: Nanos,
    ) -> Result<Conforming, Exceeded> {
        self.table.update(key, now, |state| match rate.request(&mut state.due, now) {
            Conformance::Conforms { ahead } => {
                state.forgotten_at = state.forgotten_at.max(rate.forgotten_at(state.due));
                Ok(Conforming { ahead, remaining: rate.remaining(state.due, now) })
            }
            Conformance::Exceeds { wait } => {
                let punished = penalty.map(|penalty| penalty.refuse(state, rate, now));
                let punishment = punished.unwrap_or_default();
                let wait = match punishment.block {
                    Some(block) => block.max(wait),
                    None => wait,
                };
                Err(Exceeded { wait, punishment })
            }
        })
    }

    /// Counts a refusal by the counter that several servers share. `wait` is the time until a
    /// request conforms there.
    pub fn exceed(
        &self,
        key: KeyHash,
        rate: &Rate,
        penalty: Option<&Penalty>,
        wait: Nanos,
        now: Nanos,
    ) -> Exceeded {
        self.table.update(key, now, |state| {
            let punished = penalty.map(|penalty| penalty.refuse(state, rate, now));
            let punishment = punished.unwrap_or_default();
            Exceeded { wait: punishment.block.map_or(wait, |block| block.max(wait)), punishment }
        })
    }

    /// Takes over a due time, unless a later one is known.
    pub fn learn(&self, key: KeyHash, rate: &Rate, due: Nanos, now: Nanos) {
        self.table.update(key, now, |state| {
            state.due = state.due.max(due);
            state.forgotten_at = state.forgotten_at.max(rate.forgotten_at(state.due));
        });
    }

    /// Takes back a request that conformed, and was refused for another reason.
    pub fn take_back(&self, key: KeyHash, rate: &Rate, now: Nanos) {
        self.table.update(key, now, |state| rate.take_back(&mut state.due));
    }

    /// Returns the counters, and the keys with the most refusals.
    pub fn report(&self, now: Nanos) -> LimitStatus {
        let counters = &self.counters;
        let refused = |ranked: Ranked| RefusedKey {
            key: ranked.key,
            refused: ranked.refused,
            error: ranked.error,
            seconds: now.saturating_sub(ranked.last) / 1_000_000_000,
        };
        LimitStatus {
            requests: counters.requests.load(Relaxed),
            delayed: counters.delayed.load(Relaxed),
            refused: counters.refused.load(Relaxed),
            closed: counters.closed.load(Relaxed),
            dry_run: counters.dry_run.load(Relaxed),
            penalties: counters.blocks.load(Relaxed),
            keys: self.table.len(now) as u64,
            untracked: self.table.untracked(),
            top: self.ranking.top(MAX_REPORTED_KEYS).into_iter().map(refused).collect(),
        }
    }
}

/// The zones of a configuration.
#[derive(Debug, Default)]
pub struct Zones {
    by_name: HashMap<String, Arc<Zone>>,
    are_shared: bool,
}

impl Zones {
    /// Creates the zones of a document. A zone that `previous` has with the same key and size keeps
    /// its counters: a change of the configuration keeps all penalties.
    pub fn new(config: &Config, previous: Option<&Zones>) -> Zones {
        let mut zones = HashMap::new();
        for rule in config.limit_rules() {
            let known = previous.and_then(|previous| previous.by_name.get(rule.name()));
            let same = known.filter(|zone| zone.key == rule.key && zone.keys == rule.keys);
            let zone = || same.cloned().unwrap_or_else(|| Arc::new(Zone::new(rule)));
            zones.entry(rule.name().to_owned()).or_insert_with(zone);
        }
        Zones { by_name: zones, are_shared: config.settings.cluster.is_some() }
    }

    /// Returns the zone of a rule of the document.
    pub fn of(&self, rule: &LimitRule) -> Arc<Zone> {
        let zone = self.by_name.get(rule.name()).cloned();
        zone.unwrap_or_else(|| Arc::new(Zone::new(rule)))
    }

    /// Returns true if several servers share the rates of rules, unless a rule says otherwise.
    pub fn are_shared(&self) -> bool {
        self.are_shared
    }

    /// Returns all zones, sorted by name.
    pub fn all(&self) -> Vec<&Arc<Zone>> {
        let mut all: Vec<_> = self.by_name.values().collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }
}
