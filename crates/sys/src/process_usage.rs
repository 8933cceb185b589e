//! Resources that processes use, from counters of the kernel that no process can lock.

use std::{fs, io};

use rustix::process::{Pid, Rlimit};

use crate::process::{Resource, read_proc_file};
use crate::process_tree::thread_count;

/// Maximum number of threads of a process whose files are tried for its memory.
const MAX_THREADS_READ: usize = 16;

/// A running process and what it uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProcessUsage {
    /// Process id.
    pub pid: u32,
    /// Process id of the parent.
    pub parent: u32,
    /// Number of threads.
    pub threads: u32,
    /// Processor time of the process, and of its children that have ended, in hundredths of a
    /// second.
    pub ticks: u64,
    /// When it was started, in hundredths of a second since the start of the system.
    pub started: u64,
}

/// Memory of a process in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProcessMemory {
    /// Resident memory that belongs to no file. Processes that are forked from another share parts
    /// of it with that one.
    pub anonymous: u64,
    /// Resident shared memory.
    pub shared: u64,
    /// Memory that was moved to a disk.
    pub swapped: u64,
}

/// Returns all visible processes that run.
pub fn all() -> io::Result<Vec<ProcessUsage>> {
    let mut all = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        all.extend(ProcessUsage::of(pid));
    }
    Ok(all)
}

impl ProcessUsage {
    /// Reads a process; `None` if it has ended, or /proc does not show it.
    pub fn of(pid: u32) -> Option<ProcessUsage> {
        ProcessUsage::parse(pid, &read_proc_file(pid, "stat").ok()?)
    }

    /// Parses the text of `/proc/PID/stat`; `None` for a process that has ended. The name of the
    /// program, in parentheses, may contain any characters.
    fn parse(pid: u32, stat: &str) -> Option<ProcessUsage> {
        let (_, rest) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
        let threads = thread_count(stat);
        if matches!(*fields.first()?, "Z" | "X") && threads <= 1 {
            return None;
        }
        let ticks = [11, 12, 13, 14].map(number).into_iter().flatten();
        Some(ProcessUsage {
            pid,
            parent: fields.get(1)?.parse().ok()?,
            threads,
            ticks: ticks.fold(0, u64::saturating_add),
            started: number(19)?,
        })
    }
}

impl ProcessMemory {
    /// Reads the memory of a process; `None` if it has ended, or the kernel has no figures.
    pub fn of(pid: u32) -> Option<ProcessMemory> {
        let of = |file: &str| ProcessMemory::parse(&read_proc_file(pid, file).ok()?);
        of("status").or_else(|| {
            // The first thread has no memory any more if it has ended before the others.
            let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
            let mut files = threads
                .take(MAX_THREADS_READ)
                .filter_map(|entry| Some(format!("task/{}/status", entry.file_name().to_str()?)));
            files.find_map(|file| of(&file))
        })
    }

    fn parse(status: &str) -> Option<ProcessMemory> {
        let bytes = |name: &str| -> Option<u64> {
            let value = status.lines().find_map(|line| line.strip_prefix(name))?;
            value.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
        };
        Some(ProcessMemory {
            anonymous: bytes("RssAnon:").or_else(|| bytes("VmRSS:"))?,
            shared: bytes("RssShmem:").unwrap_or(0),
            swapped: bytes("VmSwap:").unwrap_or(0),
        })
    }
}

/// Limits a resource of another process, and of those that it starts from now on.
pub fn limit(pid: u32, resource: Resource, limit: u64) -> io::Result<()> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::NotFound)?;
    let limit = Rlimit { current: Some(limit), maximum: Some(limit) };
    rustix::process::prlimit(Some(pid), resource, limit)?;
    Ok(())
}

/// Returns the nice value of this process.
pub fn own_priority() -> i32 {
    rustix::process::getpriority_process(None).unwrap_or(0)
}

/// Sets the nice value of another process.
pub fn set_nice(pid: u32, nice: i32) -> io::Result<()> {
    let id = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::NotFound)?;
    rustix::process::setpriority_process(Some(id), nice)?;
    Ok(())
}

/// Sets the nice value of another process, and that of its session where the kernel schedules by
/// session.
pub fn set_priority(pid: u32, nice: i32) -> io::Result<()> {
    set_nice(pid, nice)?;
    let _ = fs::write(format!("/proc/{pid}/autogroup"), nice.to_string());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_kernel_is_understood_whatever_the_program_is_called() {
        let rest = "S 3 7 7 0 -1 4194560 1 2 3 4 100 20 5 1 20 0 2 0 4711 9 9";
        let expected = ProcessUsage { pid: 7, parent: 3, threads: 2, ticks: 126, started: 4711 };
        for name in ["php", "a) R 1 (b", ""] {
            let parsed = ProcessUsage::parse(7, &format!("7 ({name}) {rest}"));
            assert_eq!(parsed, Some(expected));
        }
        let dead = |threads: &str| format!("7 (php) Z{}", rest[1..].replace("0 2 0", threads));
        assert_eq!(ProcessUsage::parse(7, &dead("0 1 0")), None);
        assert_eq!(ProcessUsage::parse(7, &dead("0 2 0")), Some(expected), "others go on");
        assert_eq!(ProcessUsage::parse(7, "7 (php) S 3 7"), None);
        let status = "VmRSS:\t  300 kB\nRssAnon:\t 100 kB\nRssShmem:\t 50 kB\nVmSwap:\t 7 kB\n";
        let memory = ProcessMemory { anonymous: 102_400, shared: 51_200, swapped: 7168 };
        assert_eq!(ProcessMemory::parse(status), Some(memory));
        assert_eq!(ProcessMemory::parse("RssAnon:\t 18446744073709551615 kB\n"), None);
    }

    #[test]
    fn this_process_is_among_all() {
        let own = std::process::id();
        let all = all().unwrap();
        let found = all.iter().find(|process| process.pid == own).unwrap();
        assert!(found.threads > 0 && found.started > 0, "{found:?}");
        assert!(ProcessMemory::of(own).unwrap().anonymous > 0);
        assert_eq!((ProcessMemory::of(u32::MAX), ProcessUsage::of(u32::MAX)), (None, None));
    }

    #[test]
    fn another_process_gets_a_limit_and_a_priority() {
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        limit(child.id(), Resource::Data, 1 << 30).unwrap();
        set_priority(child.id(), 19).unwrap();
        let limits = read_proc_file(child.id(), "limits").unwrap();
        let stat = read_proc_file(child.id(), "stat").unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let data = limits.lines().find(|line| line.starts_with("Max data size")).unwrap();
        assert_eq!(data.matches("1073741824").count(), 2, "{data}");
        let (_, rest) = stat.rsplit_once(')').unwrap();
        assert_eq!(rest.split_ascii_whitespace().nth(16), Some("19"));
        assert!(limit(u32::MAX, Resource::Data, 1).is_err() && set_priority(0, 19).is_err());
    }
}
