//! What workers cost: memory and processor time, as the kernel accounts for them.
//!
//! Read by the prototype, which has the rights to: other users see of a process only what it has
//! resident, which counts shared pages once for each worker.

use std::fs;

use howdah_sys::process;
use howdah_wire::messages::Usage;
use howdah_wire::queue::Owner;

/// Makes the kernel count the most memory that a process has resident anew (`proc(5)`,
/// `clear_refs`).
const COUNT_PEAK_ANEW: &str = "5";

/// What a worker costs; `None` if it has ended or the kernel does not say. The peak is the one
/// since this was last asked.
pub fn of(worker: Owner, pid: u32) -> Option<Usage> {
    let read = |file| process::read_facts(pid, file);
    let status = read("status").ok()?;
    let usage = parse(worker, &read("smaps_rollup").ok()?, &status)?;
    let (cpu_us, delay_us) = read("schedstat").ok().and_then(|text| times(&text)).unwrap_or((0, 0));
    // Without it the peak is that of the worker's whole life.
    let _ = fs::write(format!("/proc/{pid}/clear_refs"), COUNT_PEAK_ANEW);
    Some(Usage { cpu_us, delay_us, ..usage })
}

/// Bytes that this process takes by itself, shared pages in proportion.
pub fn of_self() -> u64 {
    let rollup = fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    bytes(&rollup, "Pss:").unwrap_or(0)
}

fn parse(worker: Owner, rollup: &str, status: &str) -> Option<Usage> {
    let resident = bytes(rollup, "Rss:")?;
    let pss = bytes(rollup, "Pss:")?;
    // Linux before 5.9 does not tell the kinds apart.
    let private = bytes(rollup, "Pss_Anon:").unwrap_or(pss);
    // What was resident at the peak and is not any more was memory of the script: files and
    // shared memory stay.
    let gone = bytes(status, "VmHWM:").map_or(0, |peak| peak.saturating_sub(resident));
    let peak = private.saturating_add(gone);
    Some(Usage { worker, pss, private, peak, cpu_us: 0, delay_us: 0 })
}

/// The value of a line such as `Pss:   12 kB`.
fn bytes(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    value.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

/// Microseconds on a processor and waiting for one, from nanoseconds.
fn times(schedstat: &str) -> Option<(u64, u64)> {
    let mut numbers = schedstat.split_whitespace().map(str::parse::<u64>);
    Some((numbers.next()?.ok()? / 1000, numbers.next()?.ok()? / 1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKER: Owner = Owner { index: 3, incarnation: 1 };

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
