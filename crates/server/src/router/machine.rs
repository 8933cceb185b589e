//! What the machine offers: processors and memory.

use crate::php::pool::Machine;

/// Looks at the machine. What cannot be found out is taken to be little.
pub(super) fn look() -> Machine {
    let processors = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let memory = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| available(&text));
    Machine { processors, memory: memory.unwrap_or(1 << 30) }
}

/// `MemAvailable` in bytes.
fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find(|line| line.starts_with("MemAvailable:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_that_is_available_is_found() {
        let text = "MemTotal: 2048 kB\nMemFree: 512 kB\nMemAvailable:    1024 kB\n";
        assert_eq!(available(text), Some(1 << 20));
        assert_eq!(available("MemAvailable: much\n"), None);
    }
}
