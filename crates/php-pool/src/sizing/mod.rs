//! How many workers an application gets whose number of processes is not configured.
//!
//! A pure function of what was measured. Three things bound the number:
//!
//! 1. **Memory**: what the machine or the control group leaves, divided by the most that a worker
//!    has cost lately. A reserve stays free: at least as much as one worker could still grow to
//!    what PHP's `memory_limit` lets a script allocate.
//! 2. **What is known**: as long as memory would not do if every worker took its whole limit, the
//!    number at most doubles, and then it is measured again before it grows on.
//! 3. **Processors**: more workers than processors help only while workers wait, for a database
//!    say; how much they do is measured. Otherwise they take turns and empty each other's caches:
//!    three workers on two processors answer 7 % fewer requests of WordPress than two, four 12 %.
//!    But a script that computes for long must not stop all others, so that what runs for long has
//!    a worker of its own.
//!
//! The number is a ceiling: [`pool`](super::pool) starts workers below it while requests wait and
//! ends those that are idle. [`meter`] makes what is measured out of many samples.

use std::time::Duration;

pub mod meter;

/// Maximum number of workers. Memory bounds the number earlier on all but large machines.
pub const MAX_WORKERS: u32 = 128;

/// A request that has run for so long does not count for how many workers are enough.
pub const LONG_REQUEST_TIME: Duration = Duration::from_millis(500);

/// Workers for a processor, however little they wait, as far as requests run for long.
const MAX_WORKERS_PER_PROCESSOR: u32 = 2;
/// Workers for each that waits, as they do not wait in turn, and as many more where few wait.
const OVERLAP: f64 = 1.25;
/// A part of a worker that is no reason for a whole one, and none for one more if the processors
/// are busy.
const MIN_WORKER_FRACTION: f64 = 0.25;
const TOO_LITTLE_IF_BUSY: f64 = 0.75;
/// Surplus workers end only beyond a quarter of the wanted number, as ended ones are missed when the
/// measured share changes.
const IDLE_SHARE_DIVISOR: u32 = 4;
/// Processors that are idle for less of their time have nothing to give to more workers.
const MIN_IDLE_SHARE: f64 = 0.05;

/// The least that is left free: a part of the memory, and this many bytes.
const RESERVED_PART: u64 = 32;
const LEAST_RESERVE: u64 = 8 << 20;

/// Percent of the time that something waits for memory to be freed, beyond which there are to be
/// no more workers, and fewer.
const GROWTH_PRESSURE_PERCENT: f64 = 10.0;
const HIGH_PRESSURE: f64 = 40.0;

/// What was measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// Processors.
    pub processors: u32,
    /// Bytes of the memory that binds: the machine's, or the control group's.
    pub total: u64,
    /// Bytes that the workers may have together: what they have, and what is free or can be freed.
    pub room: u64,
    /// Percent of the time that something waited for memory; `None`: the kernel does not say.
    pub pressure: Option<f64>,
    /// Workers that run.
    pub workers: u32,
    /// Workers that were measured under load, the last time.
    pub measured_workers: u32,
    /// Most requests lately that had run for [`LONG_REQUEST_TIME`].
    pub long_requests: u32,
    /// Most bytes that a worker has cost lately; `None`: none has been measured.
    pub cost: Option<u64>,
    /// Bytes that a worker can cost: PHP's `memory_limit` and what it takes besides.
    pub max_worker_bytes: u64,
    /// Share of their time with a request that workers were on a processor; `None`: there was not
    /// enough to do.
    pub share: Option<ProcessorShare>,
    /// Share of the processors' time that was idle; `None`: not known.
    pub idle: Option<f64>,
}

/// How much of their time workers need a processor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProcessorShare {
    /// Were on one, of the time that they did not wait for one.
    pub running: f64,
    /// Were on one or waited for one, of all the time.
    pub runnable: f64,
}

/// What keeps the number from being larger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitingFactor {
    /// More would not fit into memory.
    Memory,
    /// Something waits for memory to be freed already.
    Pressure,
    /// More would fit; what workers cost under load is to be measured before.
    Measurement,
    /// More would wait for processors.
    Processors,
    /// There are never more.
    Maximum,
}

/// How many workers there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// At most so many.
    pub workers: u32,
    /// Why not more.
    pub limit: LimitingFactor,
    /// If there are more than these they end before their next request.
    pub retire_above: u32,
    /// As many fit into memory.
    pub by_memory: u32,
    /// As many keep the processors busy.
    pub by_processors: u32,
    /// Bytes that stay free.
    pub reserve: u64,
    /// Bytes beyond these kept for a script that takes all that PHP lets it.
    pub script_reserve_bytes: u64,
}

/// Decides.
pub fn size(measured: &Measured) -> Decision {
    let cost = measured.cost.unwrap_or(measured.max_worker_bytes).max(1);
    let worst = measured.max_worker_bytes.max(cost);
    let reserve = (measured.total / RESERVED_PART).max(LEAST_RESERVE);
    let room = measured.room.saturating_sub(reserve);
    let surprise = (worst - cost).saturating_sub(reserve);
    // A processor is not left idle for what may never happen.
    let fit = count(room / cost).min(measured.processors);
    let by_memory = count(room.saturating_sub(surprise) / cost).max(fit).max(1);
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
        (by_memory, LimitingFactor::Memory),
    ]
    .into_iter()
    .rev()
    .min_by_key(|(workers, _)| *workers)
    .unwrap_or((1, LimitingFactor::Memory));
    let useful =
        measured.share.map_or(u32::MAX, |_| by_processors + by_processors / IDLE_SHARE_DIVISOR);
    let tolerated = by_memory.min(unpressed).min(useful);
    Decision {
        workers,
        limit,
        retire_above: tolerated,
        by_memory,
        by_processors,
        reserve,
        script_reserve_bytes: surprise,
    }
}

/// Workers that keep the processors busy: one for each, and those that wait meanwhile.
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
    // What they wait for may be a database on the same processors: if these are busy, the time
    // that a worker waits for one is time that no other can have.
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
    /// Bytes that would have to be added to the memory for `workers` workers.
    pub fn missing_for(&self, workers: u32, measured: &Measured) -> u64 {
        let cost = measured.cost.unwrap_or(measured.max_worker_bytes);
        let needed =
            cost.saturating_mul(u64::from(workers)) + self.script_reserve_bytes + self.reserve;
        // The reserve grows with the memory.
        let missing = needed.saturating_sub(measured.room);
        missing.saturating_add(missing / (RESERVED_PART - 1))
    }
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
