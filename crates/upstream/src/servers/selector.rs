//! State of one thread for the selection of servers: round-robin turns and random numbers.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::{Arc, Weak};

use howdah_config as config;

use crate::servers::balance::{Candidate, Choice, Method, choose};
use crate::servers::round_robin::RoundRobin;

/// Round-robin turns of upstreams of type `U`, and a source of random numbers.
#[derive(Debug)]
pub struct Selector<U> {
    /// Turns by the address of the upstream, which stays reserved while `Turns` has a weak
    /// reference.
    turns: RefCell<HashMap<*const U, Turns<U>>>,
    random: Cell<u64>,
}

#[derive(Debug)]
struct Turns<U> {
    upstream: Weak<U>,
    round_robin: RoundRobin,
}

impl<U> Selector<U> {
    /// Creates a selector without turns. Different threads should have different seeds.
    pub fn new(seed: u64) -> Self {
        Selector { turns: RefCell::default(), random: Cell::new(seed) }
    }

    /// Selects one of the servers of an upstream by this method.
    pub fn choose(
        &self,
        upstream: &Arc<U>,
        method: &config::Balance,
        candidates: &[Candidate],
    ) -> Choice {
        let mut turns = self.turns.borrow_mut();
        let key = Arc::as_ptr(upstream);
        if !turns.contains_key(&key) {
            turns.retain(|_, turns| turns.upstream.strong_count() > 0);
            let round_robin = RoundRobin::new(candidates.iter().map(|candidate| candidate.weight));
            turns.insert(key, Turns { upstream: Arc::downgrade(upstream), round_robin });
        }
        let Some(Turns { round_robin, .. }) = turns.get_mut(&key) else { return Choice::None };
        choose(
            candidates,
            match method {
                config::Balance::RoundRobin => Method::RoundRobin(round_robin),
                config::Balance::LeastConnections => Method::LeastConnections(round_robin),
                config::Balance::TwoChoices => Method::TwoChoices(self.random(), self.random()),
                config::Balance::Hash(_) => Method::Hash,
            },
        )
    }

    /// Returns the next number of a sequence (SplitMix64); not for secrets.
    pub fn random(&self) -> u64 {
        let seed = self.random.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.random.set(seed);
        let mixed = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
