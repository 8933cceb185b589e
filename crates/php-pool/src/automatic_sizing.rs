//! Automatic sizing: the maximum number of workers of an application without a configured number.
//!
//! A pure function of measurements. Four factors limit the number:
//!
//! 1. **Memory**: the memory that the machine or the control group has left, divided by the maximum
//!    recent cost of a worker. A reserve stays free: at least enough for one worker to grow to
//!    PHP's `memory_limit`.
//! 2. **Measurement**: unless the memory suffices even if every worker grows to its limit, the
//!    number at most doubles, and is measured again before it grows further.
//! 3. **Fairness**: if other applications have requests too, the number stays within its
//!    [share](shares) of the memory.
//! 4. **Processors**: more workers than processors help only while workers wait, for example for a
//!    database; this waiting is measured. Otherwise workers take turns and evict each other's
//!    caches: on two processors, three workers answer 7 % fewer WordPress requests than two, four
//!    12 %. But a script that computes for long must not block the others, so each long request
//!    gets an additional worker.
//!
//! The number is a maximum: [`pool`](super::pool) starts workers below it while requests wait and
//! ends idle ones. [`meter`] condenses samples into the measurements.

use std::time::Duration;

pub mod application;
pub mod meter;
pub mod shares;
pub mod shortage;

/// Maximum number of workers. Memory limits the number earlier on all but large machines.
pub const MAX_WORKERS: u32 = 128;

/// Run time after which a request is long: it does not count for the number of workers that are
/// enough.
pub const LONG_REQUEST_TIME: Duration = Duration::from_millis(500);

/// Maximum number of workers per processor because of long requests.
const MAX_WORKERS_PER_PROCESSOR: u32 = 2;
/// Factor on the number of waiting workers: their waits overlap unevenly. Applied twice where few
/// wait.
const OVERLAP: f64 = 1.25;
/// Fraction of a worker that is not rounded up to a whole one; the second if the processors are
/// busy.
const MIN_WORKER_FRACTION: f64 = 0.25;
const TOO_LITTLE_IF_BUSY: f64 = 0.75;
/// Surplus workers end only beyond the wanted number plus the wanted number divided by this: the
/// measured share fluctuates.
const IDLE_SHARE_DIVISOR: u32 = 4;
/// Minimum idle share of the processors' time for which more workers are useful.
const MIN_IDLE_SHARE: f64 = 0.05;

/// Minimum free memory: this divisor of the memory, and this number of bytes.
const RESERVED_PART: u64 = 32;
const LEAST_RESERVE: u64 = 8 << 20;

/// Memory pressure, in percent of the time during which a process waits for memory, from which on
/// the number of workers does not grow.
pub const GROWTH_PRESSURE_PERCENT: f64 = 10.0;
/// Memory pressure in percent from which on the number of workers shrinks.
const HIGH_PRESSURE: f64 = 40.0;

/// Measurements for a decision.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// Number of processors.
    pub processors: u32,
    /// Size in bytes of the memory that limits: the machine's, or the control group's.
    pub total: u64,
    /// Bytes that all workers may have together: those that they have, and those that are free or
    /// can be freed.
    pub room: u64,
    /// Bytes that all workers may have together beside those of other applications; `None` if no
    /// other application claims memory.
    pub share_bytes: Option<u64>,
    /// Time in percent during which a process waited for memory (PSI); `None` if unknown.
    pub pressure: Option<f64>,
    /// Number of running workers.
    pub workers: u32,
    /// Number of workers that were working when the cost was last measured.
    pub measured_workers: u32,
    /// Recent maximum number of requests that had run for [`LONG_REQUEST_TIME`].
    pub long_requests: u32,
    /// Recent maximum cost of a worker in bytes; `None` if not measured yet.
    pub cost: Option<u64>,
    /// Maximum size of a worker in bytes: PHP's `memory_limit` and the overhead.
    pub max_worker_bytes: u64,
    /// Share of the workers' time on a processor, during requests; `None` if there was not enough
    /// load.
    pub share: Option<ProcessorShare>,
    /// Idle share of the processors' time (0 to 1); `None` if unknown.
    pub idle: Option<f64>,
}

/// Processor share of the workers' time (0 to 1).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProcessorShare {
    /// Time on a processor, of the time not spent waiting for one.
    pub running: f64,
    /// Time on a processor or waiting for one, of the total time.
    pub runnable: f64,
}

/// Factor that limits the number of workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitingFactor {
    /// More workers would not fit into memory.
    Memory,
    /// More workers would take the memory that other applications need.
    Share,
    /// Processes wait for memory already.
    Pressure,
    /// More would fit, but the cost under load must be measured first.
    Measurement,
    /// More workers would wait for processors.
    Processors,
    /// [`MAX_WORKERS`] is reached.
    Maximum,
}

/// Result of sizing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// Maximum number of workers.
    pub workers: u32,
    /// Factor that limits the number.
    pub limit: LimitingFactor,
    /// Number of workers above which the excess ends before its next request.
    pub retire_above: u32,
    /// Number of workers that fit into memory.
    pub by_memory: u32,
    /// Number of workers that fit into the application's share of the memory.
    pub by_share: u32,
    /// Number of workers that keep the processors busy.
    pub by_processors: u32,
    /// Bytes that stay free.
    pub reserve: u64,
    /// Bytes kept free in addition to `reserve`, for one script that grows to its `memory_limit`.
    pub script_reserve_bytes: u64,
}

/// Computes the number of workers.
pub fn size(measured: &Measured) -> Decision {
    let cost = measured.cost.unwrap_or(measured.max_worker_bytes).max(1);
    let worst = measured.max_worker_bytes.max(cost);
    let reserve = reserve(measured.total);
    let room = measured.room.saturating_sub(reserve);
    let script_reserve = script_reserve(worst, cost, reserve);
    // A processor is not left idle for an allocation that may never happen.
    let fit = count(room / cost).min(measured.processors);
    let by_memory = count(room.saturating_sub(script_reserve) / cost).max(fit).max(1);
    let by_share = measured.share_bytes.map_or(MAX_WORKERS, |bytes| count(bytes / cost).max(1));
    let by_processors = by_processors(measured);
    let whatever_comes = count(room / worst);
    let known = match measured.cost {
        Some(_) => whatever_comes.max(measured.measured_workers.saturating_mul(2)).max(1),
        None => whatever_comes.max(1),
    };
    let pressure = measured.pressure.unwrap_or(0.0);
    let unpressed = if pressure >= HIGH_PRESSURE {
        measured.workers.saturating_sub(1).max(1)
    } else if pressure >= GROWTH_PRESSURE_PERCENT {
        measured.workers.max(1)
    } else {
        u32::MAX
    };
    let (workers, limit) = [
        (MAX_WORKERS, LimitingFactor::Maximum),
        (by_processors, LimitingFactor::Processors),
        (known, LimitingFactor::Measurement),
        (unpressed, LimitingFactor::Pressure),
        (by_share, LimitingFactor::Share),
        (by_memory, LimitingFactor::Memory),
    ]
    .into_iter()
    .rev()
    .min_by_key(|(workers, _)| *workers)
    .unwrap_or((1, LimitingFactor::Memory));
    let useful =
        measured.share.map_or(u32::MAX, |_| by_processors + by_processors / IDLE_SHARE_DIVISOR);
    let retire_above = by_memory.min(by_share).min(unpressed).min(useful);
    Decision {
        workers,
        limit,
        retire_above,
        by_memory,
        by_share,
        by_processors,
        reserve,
        script_reserve_bytes: script_reserve,
    }
}

/// Returns the number of workers that keep the processors busy: one for each processor, and further
/// ones for workers that wait.
fn by_processors(measured: &Measured) -> u32 {
    let processors = measured.processors.clamp(1, MAX_WORKERS);
    let besides = |enough: u32| {
        let for_long = processors.saturating_mul(MAX_WORKERS_PER_PROCESSOR);
        enough
            .max(enough.saturating_add(measured.long_requests).min(for_long))
            .clamp(processors, MAX_WORKERS)
    };
    let Some(share) = measured.share else { return besides(processors) };
    let all = f64::from(processors);
    let workers =
        |wait: f64, part: f64| (all + OVERLAP * (wait + wait.min(all)) - part).ceil() as u32;
    let alone = all * (1.0 / share.running.clamp(0.001, 1.0) - 1.0);
    // Workers may wait for a database on the same processors: if these are busy, other workers
    // cannot use the time.
    let now = f64::from(measured.workers) * (1.0 - share.runnable.clamp(0.0, 1.0));
    if measured.idle.is_none_or(|idle| idle >= MIN_IDLE_SHARE) {
        besides(workers(alone, MIN_WORKER_FRACTION))
    } else {
        let wait = alone.min(now);
        let kept = workers(wait, MIN_WORKER_FRACTION).min(measured.workers);
        besides(workers(wait, TOO_LITTLE_IF_BUSY).max(kept))
    }
}

impl Decision {
    /// Returns the bytes that would have to be added to the memory for `workers` workers.
    pub fn missing_for(&self, workers: u32, measured: &Measured) -> u64 {
        let cost = measured.cost.unwrap_or(measured.max_worker_bytes);
        let needed =
            cost.saturating_mul(u64::from(workers)) + self.script_reserve_bytes + self.reserve;
        let kept = self.script_reserve_bytes.saturating_add(self.reserve);
        let room = measured
            .share_bytes
            .map_or(measured.room, |share| measured.room.min(share.saturating_add(kept)));
        // The reserve grows with the memory.
        let missing = needed.saturating_sub(room);
        missing.saturating_add(missing / (RESERVED_PART - 1))
    }
}

/// Returns the bytes of a memory of `total` bytes that stay free.
fn reserve(total: u64) -> u64 {
    (total / RESERVED_PART).max(LEAST_RESERVE)
}

/// Returns the bytes that one script may take beyond the cost of a worker and the `reserve`.
fn script_reserve(max_worker_bytes: u64, cost: u64, reserve: u64) -> u64 {
    max_worker_bytes.saturating_sub(cost).saturating_sub(reserve)
}

fn count(workers: u64) -> u32 {
    u32::try_from(workers).unwrap_or(u32::MAX).min(MAX_WORKERS)
}

#[cfg(test)]
mod recorded;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
