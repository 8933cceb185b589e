//! What workers cost, as far as that can be known without their help.
//!
//! A prototype measures more exactly, since it may look at which pages are shared with whom. But
//! what it says could be a script's word: so it counts only up to what the kernel says here.
//!
//! Only files of /proc are read that the kernel fills from counters. For others, such as
//! `smaps_rollup` and `cmdline`, it takes a lock that the process itself can hold for as long as it
//! likes, and whoever reads them waits.

use std::fs;

use howdah_sys::process;
use howdah_wire::messages::Usage;
use howdah_wire::queue::Owner;

/// The kernel adds up now and then what it counts for each processor: by so much its figures may be
/// too low.
const SLACK: u64 = 16 << 20;

/// What a worker may be said to cost of which the kernel says nothing: PHP's own limit.
const UNKNOWN_COST: u64 = 128 << 20;

/// Memory of a process, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MemoryUsage {
    /// Resident, shared or not.
    resident: u64,
    /// Of that, neither files nor shared memory.
    anonymous: u64,
    /// Most that was resident since the count was begun anew.
    peak: u64,
}

impl MemoryUsage {
    /// Of a process; `None` if there is none, or the kernel does not say.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        MemoryUsage::parse(&process::read_facts(pid, "status").ok()?)
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

    /// Most memory that it has had for itself.
    fn private_peak(&self) -> u64 {
        self.anonymous.saturating_add(self.peak.saturating_sub(self.resident))
    }
}

/// Microseconds that a process was on a processor, and waited for one; 0 if the kernel does not say.
fn times(pid: u32) -> (u64, u64) {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap_or_default();
    let mut numbers = text.split_whitespace().map_while(|number| number.parse::<u64>().ok());
    let mut next = || numbers.next().unwrap_or(0) / 1000;
    (next(), next())
}

/// What a worker costs, by what its prototype said and by what the kernel says. `before` are the
/// figures of the time when the prototype was asked, which begins to count the peak anew.
pub(crate) fn of_worker(
    worker: Owner,
    pid: u32,
    said: Option<&Usage>,
    before: Option<MemoryUsage>,
) -> Usage {
    let (cpu_us, delay_us) = times(pid);
    Usage { cpu_us, delay_us, ..bounded(worker, said, before, MemoryUsage::of(pid)) }
}

fn bounded(
    worker: Owner,
    said: Option<&Usage>,
    before: Option<MemoryUsage>,
    now: Option<MemoryUsage>,
) -> Usage {
    let most = |of: fn(&MemoryUsage) -> u64| before.iter().chain(&now).map(of).max();
    let known = [
        most(|figures| figures.resident),
        most(|figures| figures.anonymous),
        most(MemoryUsage::private_peak),
    ];
    let [resident, anonymous, peak] = known.map(|figure| figure.unwrap_or(UNKNOWN_COST));
    let unsaid = Usage { worker, pss: resident, private: anonymous, peak, cpu_us: 0, delay_us: 0 };
    let said = said.unwrap_or(&unsaid);
    Usage {
        worker,
        pss: said.pss.min(with_slack(resident)),
        private: said.private.min(with_slack(anonymous)),
        peak: said.peak.min(with_slack(peak)),
        cpu_us: 0,
        delay_us: 0,
    }
}

/// What a prototype takes, by its own word and the kernel's.
pub(crate) fn of_prototype(pid: u32, said: u64) -> u64 {
    said.min(with_slack(MemoryUsage::of(pid).map_or(UNKNOWN_COST, |figures| figures.resident)))
}

fn with_slack(figure: u64) -> u64 {
    figure.saturating_add(figure / 4).saturating_add(SLACK)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const WORKER: Owner = Owner { index: 3, incarnation: 1 };

    fn figures(resident: u64, anonymous: u64, peak: u64) -> MemoryUsage {
        MemoryUsage { resident: resident * MIB, anonymous: anonymous * MIB, peak: peak * MIB }
    }

    fn said(pss: u64, private: u64, peak: u64) -> Usage {
        let (pss, private, peak) = (pss * MIB, private * MIB, peak * MIB);
        Usage { worker: WORKER, pss, private, peak, cpu_us: u64::MAX, delay_us: u64::MAX }
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
