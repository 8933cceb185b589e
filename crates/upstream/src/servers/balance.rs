//! Which server gets a request. Knows nothing of sockets and clocks.
//!
//! Those that are well come first, then the backups that are, and if none is, all: a request is
//! better tried in vain than refused. Among the ones that have room the upstream's method decides.

use crate::servers::round_robin::Balance;

/// What is known of a server.
#[derive(Debug, Clone, Copy)]
pub struct Candidate {
    /// Its share; none if 0.
    pub weight: f64,
    /// Requests that it has.
    pub active: u32,
    /// Requests that it may have.
    pub most: Option<u32>,
    /// It comes after the others.
    pub backup: bool,
    /// It is neither marked nor known to be unhealthy.
    pub well: bool,
    /// It may be chosen at all: not tried yet, not drained, not in the way of a slow start.
    pub open: bool,
    /// Decides in [`Method::Hash`].
    pub hash: u64,
}

/// How one of several is chosen.
pub enum Method<'m> {
    /// Whose turn it is.
    RoundRobin(&'m mut Balance),
    /// The fewest requests for its weight; of several whose turn it is.
    LeastConnections(&'m mut Balance),
    /// The better of two, taken with these random numbers.
    TwoChoices(u64, u64),
    /// The one with the highest score of its hash and weight (rendezvous hashing): without a server
    /// only that server's values go elsewhere.
    Hash,
}

/// What a choice comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// This one.
    Server(usize),
    /// All that could be asked have as many requests as they may have.
    Full,
    /// There is none.
    None,
}

/// Chooses one.
pub fn choose(candidates: &[Candidate], method: Method<'_>) -> Choice {
    let tiers: [fn(&Candidate) -> bool; 3] = [
        |candidate| candidate.well && !candidate.backup,
        |candidate| candidate.well && candidate.backup,
        |candidate| !candidate.well,
    ];
    for tier in tiers {
        let of_tier = |c: &Candidate| c.open && c.weight > 0.0 && tier(c);
        if !candidates.iter().any(of_tier) {
            continue;
        }
        let has_room = |c: &Candidate| of_tier(c) && c.most.is_none_or(|most| c.active < most);
        if !candidates.iter().any(has_room) {
            return Choice::Full;
        }
        return pick(candidates, method, has_room).map_or(Choice::None, Choice::Server);
    }
    Choice::None
}

fn pick(
    candidates: &[Candidate],
    method: Method<'_>,
    may: impl Fn(&Candidate) -> bool,
) -> Option<usize> {
    let those = || candidates.iter().enumerate().filter(|(_, candidate)| may(candidate));
    let load = |candidate: &Candidate| f64::from(candidate.active) / candidate.weight;
    match method {
        Method::RoundRobin(turns) => turns.next(|index| candidates.get(index).is_some_and(&may)),
        Method::LeastConnections(turns) => {
            let least = those().map(|(_, candidate)| load(candidate)).min_by(f64::total_cmp)?;
            let has_least = |candidate: &Candidate| may(candidate) && load(candidate) <= least;
            turns.next(|index| candidates.get(index).is_some_and(has_least))
        }
        Method::TwoChoices(one, two) => {
            let [one, two] = [one, two].map(|random| by_weight(those(), random));
            let (one, two) = (one?, two?);
            let load = |index: usize| candidates.get(index).map_or(f64::MAX, load);
            Some(if load(two) < load(one) { two } else { one })
        }
        Method::Hash => {
            // Weighted rendezvous: -weight / ln(hash as a number between 0 and 1).
            let score = |candidate: &Candidate| {
                let unit = (candidate.hash >> 11) as f64 / (1u64 << 53) as f64;
                -candidate.weight / unit.max(f64::MIN_POSITIVE).ln()
            };
            those().max_by(|(_, a), (_, b)| score(a).total_cmp(&score(b))).map(|(index, _)| index)
        }
    }
}

/// One of them, each as likely as it is heavy.
fn by_weight<'c>(
    those: impl Iterator<Item = (usize, &'c Candidate)> + Clone,
    random: u64,
) -> Option<usize> {
    let total: f64 = those.clone().map(|(_, candidate)| candidate.weight).sum();
    let mut left = (random >> 11) as f64 / (1u64 << 53) as f64 * total;
    let mut last = None;
    for (index, candidate) in those {
        last = Some(index);
        left -= candidate.weight;
        if left < 0.0 {
            break;
        }
    }
    last
}

/// Mixes a key and a server into a number in which every bit depends on all of both (FNV-1a, then
/// the finaliser of SplitMix64); the same on every machine, so that several agree.
pub fn hash(key: &[u8], server: &[u8]) -> u64 {
    let fnv = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = key.iter().fold(0xcbf2_9ce4_8422_2325, fnv);
    let hash = server.iter().fold(fnv(hash, &0), fnv);
    let hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
#[path = "balance_tests.rs"]
mod tests;
