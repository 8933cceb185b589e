//! Memory and processor time of workers, as counted by the kernel.
//!
//! The prototype reads them, as it has the permission: other users see only the resident memory of
//! a process, which counts shared pages once for each worker.

use std::fs;

use howdah_sys::process;
use howdah_wire::messages::Usage;
use howdah_wire::queue::WorkerId;

/// Value for `clear_refs` that resets the peak of the resident memory (`proc(5)`).
const RESET_PEAK: &str = "5";

/// Returns the usage of a worker; `None` if it has ended or the kernel has no figures. The peak is
/// the one since the last call.
pub fn of(worker: WorkerId, pid: u32) -> Option<Usage> {
    let read = |file| process::read_proc_file(pid, file);
    let status = read("status").ok()?;
    let usage = parse(worker, &read("smaps_rollup").ok()?, &status)?;
    let (cpu_us, delay_us) = read("schedstat").ok().and_then(|text| times(&text)).unwrap_or((0, 0));
    // If this fails, the peak is that of the worker's whole life.
    let _ = fs::write(format!("/proc/{pid}/clear_refs"), RESET_PEAK);
    Some(Usage { cpu_us, delay_us, ..usage })
}

/// Returns the memory of this process in bytes, shared pages in proportion.
pub fn of_self() -> u64 {
    let rollup = fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    bytes(&rollup, "Pss:").unwrap_or(0)
}

/// Returns the memory of a process in bytes, shared pages in proportion; 0 if it has ended.
pub fn pss(pid: u32) -> u64 {
    let rollup = process::read_proc_file(pid, "smaps_rollup").unwrap_or_default();
    bytes(&rollup, "Pss:").unwrap_or(0)
}

fn parse(worker: WorkerId, rollup: &str, status: &str) -> Option<Usage> {
    let resident = bytes(rollup, "Rss:")?;
    let pss = bytes(rollup, "Pss:")?;
    // Linux before 5.9 has no figures by type.
    let private = bytes(rollup, "Pss_Anon:").unwrap_or(pss);
    // Memory that was resident only at the peak belonged to the script: files and shared memory
    // stay resident.
    let freed = bytes(status, "VmHWM:").map_or(0, |peak| peak.saturating_sub(resident));
    let peak = private.saturating_add(freed);
    Some(Usage { worker, pss, private, peak, cpu_us: 0, delay_us: 0 })
}

/// Parses a line such as `Pss:   12 kB`. Returns bytes.
fn bytes(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    value.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

/// Parses nanoseconds on a processor and waiting for one. Returns microseconds.
fn times(schedstat: &str) -> Option<(u64, u64)> {
    let mut numbers = schedstat.split_whitespace().map(str::parse::<u64>);
    Some((numbers.next()?.ok()? / 1000, numbers.next()?.ok()? / 1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKER: WorkerId = WorkerId { index: 3, incarnation: 1 };

    #[test]
    fn memory_that_was_given_back_counts_for_the_peak() {
        let rollup = "5627-7fff ---p 00000000 00:00 0   [rollup]\nRss:  30000 kB\nPss:  20000 kB\n\
                      Pss_Dirty:  1 kB\nPss_Anon:  12000 kB\nPss_File:  1 kB\n";
        let status = "Name:\tphp\nVmHWM:\t  130000 kB\nVmRSS:\t  30000 kB\n";
        let usage = parse(WORKER, rollup, status).unwrap();
        assert_eq!(
            (usage.pss, usage.private, usage.peak),
            (20_000 << 10, 12_000 << 10, 112_000 << 10)
        );
    }

    #[test]
    fn what_the_kernel_does_not_say_is_not_invented() {
        assert_eq!(parse(WORKER, "", ""), None);
        let usage = parse(WORKER, "Rss: 30 kB\nPss: 20 kB\n", "").unwrap();
        assert_eq!((usage.private, usage.peak), (20 << 10, 20 << 10), "an old kernel");
        assert_eq!(bytes("Pss: -3 kB", "Pss:"), None);
        assert_eq!(bytes("Pss: 18446744073709551615 kB", "Pss:"), None);
        assert_eq!(times("1"), None);
        assert_eq!(times("5000 7999 3\n"), Some((5, 7)));
    }

    #[test]
    fn a_process_can_read_its_own() {
        let own = of(WORKER, std::process::id()).expect("the kernel says");
        assert!(own.pss > 0 && own.private <= own.pss && own.peak >= own.private, "{own:?}");
        assert!(of_self() > 0);
        assert_eq!(of(WORKER, u32::MAX), None);
    }
}
