//! Load balancing between the servers of an upstream, without I/O and clock.
//!
//! Healthy servers are preferred, then healthy backups. If no server is healthy, all of them are
//! tried instead of refusing the request. The upstream's method decides between those with room.

use howdah_text::fnv::fnv;

use crate::servers::round_robin::RoundRobin;

/// State of a server at the time of the selection.
#[derive(Debug, Clone, Copy)]
pub struct Candidate {
    /// Share of the requests; a server of weight 0 gets none.
    pub weight: f64,
    /// Number of active requests.
    pub active: u32,
    /// Maximum number of active requests; `None` for no limit.
    pub max_active: Option<u32>,
    /// The server is used only if no other is healthy.
    pub is_backup: bool,
    /// Neither health checks nor requests have failed.
    pub is_healthy: bool,
    /// The server may be selected: it was not tried for this request, and is not draining.
    pub is_eligible: bool,
    /// The slow start of the server leaves this request to others of the same tier, if one has
    /// room.
    pub is_held_back: bool,
    /// Hash of request and server, for [`Method::Hash`].
    pub hash: u64,
}

impl Candidate {
    /// Returns true if the server may have one more request.
    pub fn has_room(&self) -> bool {
        self.max_active.is_none_or(|max| self.active < max)
    }
}

/// Method of the selection.
pub enum Method<'m> {
    /// Servers in turn, by weight.
    RoundRobin(&'m mut RoundRobin),
    /// The server with the fewest active requests for its weight; among equals in turn.
    LeastConnections(&'m mut RoundRobin),
    /// The less busy of two different servers, which these random numbers select by weight.
    TwoChoices(u64, u64),
    /// The server with the highest score of hash and weight (rendezvous hashing): if a server is
    /// gone, only its requests move to other servers.
    Hash,
}

/// Result of the selection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// Index of the chosen server.
    Server(usize),
    /// All eligible servers have their maximum number of requests.
    Full,
    /// No server is eligible.
    None,
}

/// Selects one of the candidates.
pub fn choose(candidates: &[Candidate], method: Method<'_>) -> Choice {
    let tiers: [fn(&Candidate) -> bool; 3] = [
        |candidate| candidate.is_healthy && !candidate.is_backup,
        |candidate| candidate.is_healthy && candidate.is_backup,
        |candidate| !candidate.is_healthy,
    ];
    for tier in tiers {
        let of_tier = |c: &Candidate| c.is_eligible && c.weight > 0.0 && tier(c);
        if !candidates.iter().any(of_tier) {
            continue;
        }
        let has_room = |c: &Candidate| of_tier(c) && c.has_room();
        let has_started = |c: &Candidate| has_room(c) && !c.is_held_back;
        let picked = match candidates {
            _ if candidates.iter().any(has_started) => pick(candidates, method, has_started),
            _ if candidates.iter().any(has_room) => pick(candidates, method, has_room),
            _ => return Choice::Full,
        };
        return picked.map_or(Choice::None, Choice::Server);
    }
    Choice::None
}

fn pick(
    candidates: &[Candidate],
    method: Method<'_>,
    is_allowed: impl Fn(&Candidate) -> bool,
) -> Option<usize> {
    let allowed = || candidates.iter().enumerate().filter(|(_, candidate)| is_allowed(candidate));
    let load = |candidate: &Candidate| f64::from(candidate.active) / candidate.weight;
    match method {
        Method::RoundRobin(turns) => {
            turns.next(|index| candidates.get(index).is_some_and(&is_allowed))
        }
        Method::LeastConnections(turns) => {
            let least = allowed().map(|(_, candidate)| load(candidate)).min_by(f64::total_cmp)?;
            let has_least =
                |candidate: &Candidate| is_allowed(candidate) && load(candidate) <= least;
            turns.next(|index| candidates.get(index).is_some_and(has_least))
        }
        Method::TwoChoices(one, two) => {
            let one = by_weight(allowed(), one)?;
            // Another one: a server that hangs must not be compared with itself.
            let Some(two) = by_weight(allowed().filter(|(index, _)| *index != one), two) else {
                return Some(one);
            };
            let load = |index: usize| candidates.get(index).map_or(f64::MAX, load);
            Some(if load(two) < load(one) { two } else { one })
        }
        Method::Hash => {
            // Weighted rendezvous: -weight / ln(hash as a number between 0 and 1).
            let score = |candidate: &Candidate| {
                let unit = (candidate.hash >> 11) as f64 / (1u64 << 53) as f64;
                -candidate.weight / unit.max(f64::MIN_POSITIVE).ln()
            };
            allowed().max_by(|(_, a), (_, b)| score(a).total_cmp(&score(b))).map(|(index, _)| index)
        }
    }
}

/// Selects a candidate, with a probability in proportion to its weight.
fn by_weight<'c>(
    candidates: impl Iterator<Item = (usize, &'c Candidate)> + Clone,
    random: u64,
) -> Option<usize> {
    let total: f64 = candidates.clone().map(|(_, candidate)| candidate.weight).sum();
    let mut left = (random >> 11) as f64 / (1u64 << 53) as f64 * total;
    let mut last = None;
    for (index, candidate) in candidates {
        last = Some(index);
        left -= candidate.weight;
        if left < 0.0 {
            break;
        }
    }
    last
}

/// Hashes a key together with a server (FNV-1a, then the finaliser of SplitMix64). The result is
/// the same on every machine, so that several routers select the same server.
pub fn hash(key: &[u8], server: &[u8]) -> u64 {
    let hash = fnv(key.iter().chain(&[0]).chain(server));
    let hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests;
