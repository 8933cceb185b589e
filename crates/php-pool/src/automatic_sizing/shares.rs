//! Shares of the memory: divides the memory for workers among the applications.
//!
//! 1. A configured number of workers is granted in full.
//! 2. Each automatic application with requests gets one worker, even if the memory does not
//!    suffice: otherwise its requests would wait for other sites without limit. Each gets a second
//!    one if memory is left, so that one long request does not block a site.
//! 3. The rest is granted worker by worker, each to the application with the least memory so far
//!    (max-min fairness). A flood of requests to one site takes no memory from sites with few
//!    requests, and sites that need less leave the rest to the others.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use super::{MAX_WORKERS, reserve, script_reserve};

/// Time constant of the moving average of the demand.
const DEMAND_TIME: Duration = Duration::from_secs(1);

/// Maximum time that a number of requests counts for: an application without requests is not asked.
const MAX_STEP: Duration = Duration::from_millis(200);

/// The memory that an application has and needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryClaim {
    /// True if the number of workers is automatic.
    pub is_automatic: bool,
    /// Cost of a worker in bytes; `None` if not measured yet.
    pub cost: Option<u64>,
    /// Maximum size of a worker in bytes.
    pub max_worker_bytes: u64,
    /// Number of workers that run or start.
    pub workers: u32,
    /// Private memory of the workers in bytes.
    pub private: u64,
    /// Number of workers that the requests need.
    pub demand: u32,
    /// Bytes that the workers may have in a control group of the application.
    pub max_bytes: u64,
}

/// Result of [`divide`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Division {
    /// Bytes that the workers of each application may have, in the order of the claims. Memory that
    /// no application claims is in all of them. `None` if no other application claims any.
    pub shares: Vec<Option<u64>>,
    /// True if idle workers must make room: their memory is needed by an application that lacks
    /// workers, or the workers of several applications may grow beyond the memory. The number of a
    /// single application is chosen so that they cannot.
    pub is_contended: bool,
}

/// Divides the memory. `available` bytes of `total` are free, or can be freed.
pub fn divide(claims: &[MemoryClaim], total: u64, available: u64) -> Division {
    let known_cost = claims.iter().filter_map(|claim| claim.cost).max();
    let needs: Vec<Need> = claims.iter().map(|claim| Need::new(claim, known_cost)).collect();
    let private = claims.iter().map(|claim| claim.private).fold(available, u64::saturating_add);
    let reserve = reserve(total);
    let scripts =
        claims.iter().zip(&needs).filter(|(claim, need)| claim.is_automatic && need.demand > 0);
    let for_a_script = scripts
        .map(|(claim, need)| script_reserve(claim.max_worker_bytes, need.cost, reserve))
        .max()
        .unwrap_or(0);
    let room = private.saturating_sub(reserve).saturating_sub(for_a_script);
    let (granted, left) = grant(&needs, room);
    let is_alone =
        |own: usize| granted.iter().enumerate().all(|(index, bytes)| index == own || *bytes == 0);
    let share =
        |(index, bytes): (usize, &u64)| (!is_alone(index)).then(|| bytes.saturating_add(left));
    let lacks = |need: &Need| need.is_automatic && need.demand > need.workers;
    let sum = |bytes: &mut dyn Iterator<Item = u64>| bytes.fold(0, u64::saturating_add);
    let committed = sum(&mut needs.iter().map(|need| need.committed));
    let mut held = needs.iter().zip(&granted).map(|(need, bytes)| need.committed.max(*bytes));
    let holders = needs.iter().filter(|need| need.committed > 0).count();
    let is_needed = needs.iter().any(lacks) && sum(&mut held) > room;
    Division {
        shares: granted.iter().enumerate().map(share).collect(),
        is_contended: is_needed || (committed > room && holders > 1),
    }
}

/// A claim with the estimates that it lacks.
#[derive(Debug)]
struct Need {
    is_automatic: bool,
    cost: u64,
    demand: u32,
    workers: u32,
    /// Bytes that the workers have or may take.
    committed: u64,
}

impl Need {
    /// A new application is taken to need as much as the others: its `memory_limit` would take the
    /// memory of the others away until its first measurement.
    fn new(claim: &MemoryClaim, known_cost: Option<u64>) -> Self {
        let cost = claim.cost.or(known_cost).unwrap_or(claim.max_worker_bytes).max(1);
        let in_group = u32::try_from(claim.max_bytes / cost).unwrap_or(u32::MAX).max(1);
        Need {
            is_automatic: claim.is_automatic,
            cost,
            demand: claim.demand.min(in_group).min(MAX_WORKERS.max(claim.workers)),
            workers: claim.workers,
            committed: cost.saturating_mul(u64::from(claim.workers)).max(claim.private),
        }
    }

    fn bytes(&self, workers: u32) -> u64 {
        self.cost.saturating_mul(u64::from(workers))
    }
}

/// Returns the bytes that each application is granted, and those that are left.
fn grant(needs: &[Need], room: u64) -> (Vec<u64>, u64) {
    let configured = needs.iter().filter(|need| !need.is_automatic);
    let mut left = configured
        .map(|need| need.committed.max(need.bytes(need.demand)))
        .fold(room, u64::saturating_sub);
    let mut workers: Vec<u32> = vec![0; needs.len()];
    let automatic = || needs.iter().enumerate().filter(|(_, need)| need.is_automatic);
    for (index, need) in automatic().filter(|(_, need)| need.demand > 0) {
        workers[index] = 1;
        left = left.saturating_sub(need.cost);
    }
    // The cheapest first: so most applications get a second one.
    let mut second: Vec<_> = automatic().filter(|(_, need)| need.demand > 1).collect();
    second.sort_by_key(|(_, need)| need.cost);
    for (index, need) in second {
        if need.cost <= left {
            workers[index] = 2;
            left -= need.cost;
        }
    }
    // Of two with the same memory, the one that has the worker already.
    let rank = |index: usize, workers: u32| {
        let need: &Need = &needs[index];
        Reverse((need.bytes(workers), need.workers <= workers, index))
    };
    let mut heap: BinaryHeap<_> = automatic()
        .filter(|(index, need)| (1..need.demand).contains(&workers[*index]))
        .map(|(index, _)| rank(index, workers[index]))
        .collect();
    while let Some(Reverse((.., index))) = heap.pop() {
        let need = &needs[index];
        if need.cost > left {
            continue; // a cheaper one may still fit
        }
        left -= need.cost;
        workers[index] += 1;
        if workers[index] < need.demand {
            heap.push(rank(index, workers[index]));
        }
    }
    let bytes = |(need, workers): (&Need, &u32)| {
        if need.is_automatic {
            need.bytes(*workers)
        } else {
            need.committed.max(need.bytes(need.demand))
        }
    };
    (needs.iter().zip(&workers).map(bytes).collect(), left)
}

/// Average number of requests that ran or waited lately.
///
/// Not the maximum: a site with short requests now and then needs no memory that is kept free for
/// it, as its first worker starts in any case.
#[derive(Debug, Clone, Copy, Default)]
pub struct RecentDemand {
    last_at: Option<Instant>,
    average: f64,
}

impl RecentDemand {
    /// Adds the maximum number of requests since the last call.
    pub fn add(&mut self, requests: u32, now: Instant) {
        let since = self.last_at.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        let share = 1.0 - fading(since.min(MAX_STEP));
        self.average = self.average * fading(since) + f64::from(requests) * share;
        self.last_at = Some(now);
    }

    /// Returns the average, rounded to a whole number.
    pub fn at(&self, now: Instant) -> u32 {
        let since = self.last_at.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        (self.average * fading(since)).round() as u32
    }
}

/// Returns the factor by which an average fades within a time.
fn fading(time: Duration) -> f64 {
    (-time.as_secs_f64() / DEMAND_TIME.as_secs_f64()).exp()
}

#[cfg(test)]
mod tests;
