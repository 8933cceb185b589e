//! The clock of the tests, which slows down while the machine is busy.
//!
//! A test is right on a machine of any speed. Its time limits therefore count the seconds of this
//! clock: while it waits for a processor or a disk together with other processes, a second of the
//! clock takes longer. Use [`Stopwatch`] for upper bounds, [`sleep`] to let the server get
//! somewhere, [`eventually`] to wait for something that can be observed, and [`patience`] for
//! sockets. A lower bound, the time that a server must have waited at least, is measured with
//! [`std::time::Instant`].

use std::fs;
use std::hint::black_box;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Maximum time on an idle machine that a test waits for one step of a server.
pub const PATIENCE: Duration = Duration::from_secs(40);

/// Interval at which the load is measured. The clock advances in steps of this length.
const TICK: Duration = Duration::from_millis(40);

/// Time for the piece of work of each tick. It takes a tenth of that on a current machine with a
/// debug build.
const WORK_TIME: Duration = Duration::from_millis(5);

/// Rounds of the piece of work.
const WORK_ROUNDS: u64 = 20_000;

/// Maximum factor by which a second of the clock is longer because of other processes.
const MAX_LOAD: f64 = 6.0;

/// Pause between two questions of [`eventually`].
const POLL: Duration = Duration::from_millis(5);

/// Measures a time with the clock of the tests.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch {
    started: Duration,
}

impl Stopwatch {
    /// Starts to measure.
    pub fn start() -> Self {
        Stopwatch { started: now() }
    }

    /// Returns the time since the start: the elapsed time on an idle machine, less on a busy one.
    pub fn elapsed(&self) -> Duration {
        now() - self.started
    }
}

/// Returns the time limit for a socket or a channel: [`PATIENCE`], longer while the machine is
/// busy.
pub fn patience() -> Duration {
    PATIENCE.mul_f64(load(running_processes(), processors()))
}

/// Waits for a time of the clock: longer while the machine is busy.
pub fn sleep(time: Duration) {
    let stopwatch = Stopwatch::start();
    thread::sleep(time);
    while stopwatch.elapsed() < time {
        thread::sleep(POLL);
    }
}

/// Calls `ask` until it returns a value; fails after [`PATIENCE`].
pub fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let (stopwatch, begun) = (Stopwatch::start(), Instant::now());
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(stopwatch.elapsed() < PATIENCE, "in vain for {:?}: {what}", begun.elapsed());
        thread::sleep(POLL);
    }
}

/// Returns the time of the clock.
fn now() -> Duration {
    static MICROSECONDS: OnceLock<&AtomicU64> = OnceLock::new();
    let clock = MICROSECONDS.get_or_init(|| {
        let clock: &AtomicU64 = Box::leak(Box::default());
        thread::Builder::new().name("clock".to_owned()).spawn(|| run(clock)).unwrap();
        clock
    });
    Duration::from_micros(clock.load(Ordering::Relaxed))
}

/// Advances a clock for ever.
fn run(clock: &AtomicU64) {
    let processors = processors();
    loop {
        let begun = Instant::now();
        thread::sleep(TICK);
        (0..WORK_ROUNDS).fold(1_u64, |sum, round| black_box(sum.rotate_left(5) ^ round));
        let counted = counted(begun.elapsed(), load(running_processes(), processors));
        clock.fetch_add(counted.as_micros() as u64, Ordering::Relaxed);
    }
}

/// Returns the time by which a tick advances the clock. A tick that comes late, because the machine
/// is slow or has stopped, counts as one in time.
fn counted(passed: Duration, load: f64) -> Duration {
    passed.min(TICK + WORK_TIME).div_f64(load)
}

/// Returns the number of processes that share a processor, between 1 and [`MAX_LOAD`].
fn load(running: usize, processors: usize) -> f64 {
    (running as f64 / processors.max(1) as f64).clamp(1.0, MAX_LOAD)
}

/// Returns the number of processes that run, or wait for a processor or a disk.
fn running_processes() -> usize {
    let statistics = fs::read_to_string("/proc/stat").unwrap_or_default();
    let counts = statistics.lines().filter_map(|line| {
        let count = line.strip_prefix("procs_running ").or(line.strip_prefix("procs_blocked "));
        count?.trim().parse::<usize>().ok()
    });
    counts.sum()
}

/// Returns the number of processors that these processes share.
fn processors() -> usize {
    let statistics = fs::read_to_string("/proc/stat").unwrap_or_default();
    let is_processor =
        |line: &&str| line.strip_prefix("cpu").is_some_and(|rest| !rest.starts_with(' '));
    statistics.lines().filter(is_processor).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_of_an_idle_machine_is_right() {
        assert_eq!(counted(TICK, load(1, 2)), TICK);
        assert_eq!(counted(TICK, load(2, 2)), TICK);
        assert_eq!(counted(TICK, load(0, 0)), TICK);
    }

    #[test]
    fn the_clock_slows_down_with_the_load_within_limits() {
        assert_eq!(counted(TICK, load(8, 2)), TICK / 4);
        assert_eq!(counted(TICK, load(1000, 2)), TICK.div_f64(MAX_LOAD));
    }

    #[test]
    fn a_late_tick_counts_as_one_in_time() {
        assert_eq!(counted(Duration::from_secs(60), load(2, 2)), TICK + WORK_TIME);
    }

    #[test]
    fn a_time_of_the_clock_is_no_shorter_than_that_of_the_machine() {
        let (stopwatch, begun) = (Stopwatch::start(), Instant::now());
        sleep(TICK * 2);
        assert!(begun.elapsed() >= TICK * 2);
        assert!(stopwatch.elapsed() <= begun.elapsed() + TICK + WORK_TIME);
        assert!(processors() > 0 && running_processes() > 0 && patience() >= PATIENCE);
    }
}
