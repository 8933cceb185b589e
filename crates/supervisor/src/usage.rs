//! Memory and processor time of workers, as the kernel reports them.
//!
//! A prototype measures more exactly, because it can see which pages are shared. But a script may
//! control it: its figures are limited by those of the kernel.
//!
//! Only files in /proc that the kernel fills from counters are read. Reading others, such as
//! `smaps_rollup` and `cmdline`, takes a lock that the process itself can hold for any time, so it
//! could block.

use std::fs;
use std::time::Duration;

use howdah_sys::process;
use howdah_wire::messages::Usage;
use howdah_wire::queue::WorkerId;

/// Tolerance of the kernel's figures in bytes: it adds up its per-processor counters only now and
/// then.
const SLACK_BYTES: u64 = 16 << 20;

/// Assumed memory of a process without a figure of the kernel, in bytes: PHP's default limit.
const UNKNOWN_BYTES: u64 = 128 << 20;

/// Memory of a process, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MemoryUsage {
    /// Resident, shared or not.
    resident: u64,
    /// Resident, without files and shared memory.
    anonymous: u64,
    /// Peak of `resident` since it was last reset.
    peak: u64,
}

impl MemoryUsage {
    /// Reads the usage of a process; `None` if it does not exist or the kernel has no figures.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        MemoryUsage::parse(&process::read_proc_file(pid, "status").ok()?)
    }

    fn parse(status: &str) -> Option<Self> {
        let bytes = |name: &str| -> Option<u64> {
            let value = status.lines().find_map(|line| line.strip_prefix(name))?;
            value.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
        };
        let resident = bytes("VmRSS:")?;
        let anonymous = bytes("RssAnon:").unwrap_or(resident).min(resident);
        Some(MemoryUsage { resident, anonymous, peak: bytes("VmHWM:").unwrap_or(resident) })
    }

    /// Returns the peak of the private memory.
    fn private_peak(&self) -> u64 {
        self.anonymous.saturating_add(self.peak.saturating_sub(self.resident))
    }
}

/// Returns the microseconds that a process ran on a processor, and waited for one; 0 if the kernel
/// has no figures.
fn times(pid: u32) -> (u64, u64) {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap_or_default();
    let mut numbers = text.split_whitespace().map_while(|number| number.parse::<u64>().ok());
    let mut next = || numbers.next().unwrap_or(0) / 1000;
    (next(), next())
}

/// Returns the time for which a process ran, and waited for a processor: a machine that is busy
/// delays a process that does not hang.
pub fn busy_time(pid: u32) -> Duration {
    let (ran, waited) = times(pid);
    Duration::from_micros(ran.saturating_add(waited))
}

/// Returns the usage of a worker: the figures of its prototype, limited by those of the kernel.
/// `before` is the usage when the measurement was requested, which resets the peak.
pub(crate) fn of_worker(
    worker: WorkerId,
    pid: u32,
    reported: Option<&Usage>,
    before: Option<MemoryUsage>,
) -> Usage {
    let (cpu_us, delay_us) = times(pid);
    Usage { cpu_us, delay_us, ..bounded(worker, reported, before, MemoryUsage::of(pid)) }
}

fn bounded(
    worker: WorkerId,
    reported: Option<&Usage>,
    before: Option<MemoryUsage>,
    now: Option<MemoryUsage>,
) -> Usage {
    let maximum = |of: fn(&MemoryUsage) -> u64| before.iter().chain(&now).map(of).max();
    let known = [
        maximum(|figures| figures.resident),
        maximum(|figures| figures.anonymous),
        maximum(MemoryUsage::private_peak),
    ];
    let [resident, anonymous, peak] = known.map(|figure| figure.unwrap_or(UNKNOWN_BYTES));
    let assumed = Usage { worker, pss: resident, private: anonymous, peak, cpu_us: 0, delay_us: 0 };
    let reported = reported.unwrap_or(&assumed);
    Usage {
        worker,
        pss: reported.pss.min(with_slack(resident)),
        private: reported.private.min(with_slack(anonymous)),
        peak: reported.peak.min(with_slack(peak)),
        cpu_us: 0,
        delay_us: 0,
    }
}

/// Returns the memory of a prototype in bytes: its own figure, limited by that of the kernel.
pub(crate) fn of_prototype(pid: u32, reported: u64) -> u64 {
    reported.min(with_slack(MemoryUsage::of(pid).map_or(UNKNOWN_BYTES, |figures| figures.resident)))
}

fn with_slack(figure: u64) -> u64 {
    figure.saturating_add(figure / 4).saturating_add(SLACK_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const WORKER: WorkerId = WorkerId { index: 3, incarnation: 1 };

    fn figures(resident: u64, anonymous: u64, peak: u64) -> MemoryUsage {
        MemoryUsage { resident: resident * MIB, anonymous: anonymous * MIB, peak: peak * MIB }
    }

    fn said(pss: u64, private: u64, peak: u64) -> Usage {
        let (pss, private, peak) = (pss * MIB, private * MIB, peak * MIB);
        Usage { worker: WORKER, pss, private, peak, cpu_us: u64::MAX, delay_us: u64::MAX }
    }

    #[test]
    fn a_process_that_runs_is_busy_and_one_that_waits_is_not() {
        // The figures are those of a thread: a test has several.
        let thread = fs::read_link("/proc/thread-self").unwrap();
        let pid = thread.file_name().unwrap().to_str().unwrap().parse().unwrap();
        let before = busy_time(pid);
        let start = std::time::Instant::now();
        while busy_time(pid) == before && start.elapsed() < Duration::from_secs(60) {}
        assert!(busy_time(pid) > before);
        assert_eq!(busy_time(u32::MAX), Duration::ZERO);
    }

    #[test]
    fn what_a_prototype_measures_exactly_counts() {
        let honest = said(20, 12, 112);
        let counted =
            bounded(WORKER, Some(&honest), Some(figures(30, 18, 130)), Some(figures(30, 18, 30)));
        assert_eq!(counted, Usage { cpu_us: 0, delay_us: 0, ..honest });
    }

    #[test]
    fn a_lie_counts_no_more_than_the_kernel_says() {
        let lie = Usage { pss: 1 << 50, private: 1 << 50, peak: 1 << 50, ..said(0, 0, 0) };
        let figures = Some(figures(40, 20, 60));
        let counted = bounded(WORKER, Some(&lie), figures, figures);
        assert_eq!((counted.pss, counted.private, counted.peak), (66 * MIB, 41 * MIB, 66 * MIB));
        assert_eq!((counted.cpu_us, counted.delay_us), (0, 0), "times are the kernel's alone");
        let unknown = bounded(WORKER, Some(&lie), None, None);
        assert!(unknown.peak < 256 * MIB);
        let silent = bounded(WORKER, None, figures, figures);
        assert_eq!((silent.pss, silent.private, silent.peak), (40 * MIB, 20 * MIB, 40 * MIB));
    }

    #[test]
    fn the_kernel_says_it_of_every_process() {
        let own = std::process::id();
        let figures = MemoryUsage::of(own).unwrap();
        assert!(figures.anonymous > 0 && figures.anonymous <= figures.resident, "{figures:?}");
        let usage = of_worker(WORKER, own, None, None);
        assert!(usage.pss > 0 && usage.cpu_us > 0, "{usage:?}");
        assert!(of_prototype(own, u64::MAX) < 1 << 40);
        assert_eq!(of_prototype(own, 5), 5);
        assert_eq!((MemoryUsage::of(u32::MAX), times(u32::MAX)), (None, (0, 0)));
        assert_eq!(MemoryUsage::parse("VmRSS:\t 18446744073709551615 kB\n"), None);
    }
}
