//! Processor time and memory of processes with their descendants, as /proc shows them.
//!
//! Only files that the kernel fills from counters are read: no process can hold up the reader.

use std::collections::HashMap;

use crate::process::read_proc_file;

/// What a process and its descendants use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TreeUse {
    /// Number of processes that run, the first one included.
    pub processes: u64,
    /// Number of them that run on a processor or wait for one.
    pub runnable: u64,
    /// Processor time in microseconds, that of children included for whose end a process has
    /// waited.
    pub cpu_us: u64,
    /// Private resident memory in bytes: neither file pages nor shared memory.
    pub private: u64,
}

/// The descendants of a process at one moment.
#[derive(Debug, Default)]
pub struct ProcessUses {
    all: HashMap<u32, Listed>,
    children: HashMap<u32, Vec<u32>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Listed {
    parent: u32,
    has_ended: bool,
    is_runnable: bool,
    cpu_us: u64,
    private: u64,
}

impl ProcessUses {
    /// Reads the descendants of a process. Those that /proc does not show are missing, and children
    /// of threads other than the first one.
    pub fn below(root: u32) -> Self {
        let ticks = rustix::param::clock_ticks_per_second().max(1);
        let (mut uses, mut next) = (ProcessUses::default(), vec![root]);
        while let Some(parent) = next.pop() {
            // Needs no list of /proc, which a sandbox may not permit (Linux: CONFIG_PROC_CHILDREN).
            let children = read_proc_file(parent, &format!("task/{parent}/children"));
            let children = children.unwrap_or_default();
            let children = children.split_ascii_whitespace().filter_map(|pid| pid.parse().ok());
            for pid in children {
                let stat = read_proc_file(pid, "stat");
                let Some(mut listed) = stat.ok().and_then(|stat| parse(&stat, ticks)) else {
                    continue;
                };
                // The list was not read at one moment: ids may stand twice.
                if listed.parent != parent || uses.all.contains_key(&pid) {
                    continue;
                }
                if !listed.has_ended {
                    listed.private = private_memory(pid);
                }
                uses.all.insert(pid, listed);
                uses.children.entry(parent).or_default().push(pid);
                next.push(pid);
            }
        }
        uses
    }

    /// Returns the parent of a process.
    pub fn parent(&self, pid: u32) -> Option<u32> {
        self.all.get(&pid).map(|listed| listed.parent)
    }

    /// Returns what a process and its descendants use; `None` without this process.
    pub fn of_tree(&self, root: u32) -> Option<TreeUse> {
        self.all.get(&root)?;
        let (mut sum, mut next) = (TreeUse::default(), vec![root]);
        while let Some(pid) = next.pop() {
            let Some(listed) = self.all.get(&pid) else { continue };
            sum.cpu_us = sum.cpu_us.saturating_add(listed.cpu_us);
            sum.processes += u64::from(!listed.has_ended);
            sum.runnable += u64::from(listed.is_runnable);
            sum.private = sum.private.saturating_add(listed.private);
            next.extend(self.children.get(&pid).into_iter().flatten());
        }
        Some(sum)
    }
}

/// Returns the processor time of a process in microseconds, without that of its children; 0 if it
/// has ended.
pub fn cpu_time(pid: u32) -> u64 {
    let ticks = rustix::param::clock_ticks_per_second().max(1);
    let stat = read_proc_file(pid, "stat").unwrap_or_default();
    times(&stat).map_or(0, |[user, system, ..]| micros(user.saturating_add(system), ticks))
}

/// Returns the private resident memory of a process in bytes: neither file pages nor shared memory.
/// Needs no permission.
pub fn private_memory(pid: u32) -> u64 {
    let statm = read_proc_file(pid, "statm").unwrap_or_default();
    let mut pages = statm.split(' ').skip(1).map_while(|number| number.parse::<u64>().ok());
    let (Some(resident), Some(shared)) = (pages.next(), pages.next()) else { return 0 };
    resident.saturating_sub(shared) * rustix::param::page_size() as u64
}

fn parse(stat: &str, ticks: u64) -> Option<Listed> {
    // The name of the program, in parentheses, may contain any characters.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let (has_ended, is_runnable) = (matches!(state, "Z" | "X"), state == "R");
    let parent = fields.next()?.parse().ok()?;
    let cpu = times(stat)?.iter().fold(0u64, |sum, time| sum.saturating_add(*time));
    Some(Listed { parent, has_ended, is_runnable, cpu_us: micros(cpu, ticks), private: 0 })
}

/// Returns the times in the text of /proc/PID/stat in ticks: user and system, then those of
/// children.
fn times(stat: &str) -> Option<[u64; 4]> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut times = rest.split_ascii_whitespace().skip(11).map(|field| field.parse().ok());
    Some([times.next()??, times.next()??, times.next()??, times.next()??])
}

fn micros(ticks: u64, per_second: u64) -> u64 {
    ticks.saturating_mul(1_000_000) / per_second
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn times_are_read_behind_any_name() {
        let stat = "12 (a) R 7 (b)) S 5 6 7 0 -1 4 9 9 9 9 100 20 3 1 20 0 1 0 99 1 2";
        let (has_ended, is_runnable) = (false, false);
        let expected = Listed { parent: 5, has_ended, is_runnable, cpu_us: 1_240_000, private: 0 };
        assert_eq!(parse(stat, 100), Some(expected));
        assert!(parse(&stat.replace(") S", ") Z"), 100).unwrap().has_ended);
        assert!(parse(&stat.replace(") S", ") R"), 100).unwrap().is_runnable);
        for text in ["", "12 (a", "12 (a) S", "12 (a) S 5 6", "12 (a) S x 6 7"] {
            assert_eq!(parse(text, 100), None, "{text}");
        }
    }

    #[test]
    fn a_program_counts_for_the_process_that_has_started_it() {
        let mut outer = Command::new("sh")
            .args(["-c", "sh -c 'sleep 600 & sleep 600 & wait'; true"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let used = loop {
            let uses = ProcessUses::below(outer.id());
            assert!(uses.of_tree(outer.id()).is_none(), "only what is below it");
            let shell = uses.children.get(&outer.id()).and_then(|pids| pids.first()).copied();
            match shell.and_then(|shell| Some((shell, uses.of_tree(shell)?))) {
                Some((shell, used)) if used.processes == 3 => {
                    assert_eq!(uses.parent(shell), Some(outer.id()));
                    break used;
                }
                _ => std::thread::sleep(std::time::Duration::from_millis(5)),
            }
        };
        assert!(used.private > 0);
        crate::process_tree::kill(outer.id());
        outer.wait().unwrap();
        assert!(ProcessUses::below(outer.id()).all.is_empty());
    }

    #[test]
    fn the_kernel_tells_how_much_memory_and_time_a_process_has() {
        assert!(private_memory(std::process::id()) > 0);
        assert_eq!((private_memory(0), cpu_time(0)), (0, 0));
        while cpu_time(std::process::id()) == 0 {}
    }
}
