//! Processes that descend from others: finding them and ending them all.

use std::collections::BTreeSet;
use std::fs;

use crate::signals;

/// Turns of looking for new processes before all that were found are killed. Each turn stops what
/// it finds, so that only a process that forks faster than it can be stopped needs a second one.
const TURNS: usize = 64;

/// Becomes the parent of descendants whose own parent ends.
pub fn adopt_orphans() -> rustix::io::Result<()> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
}

/// Ends a process and all that descend from it. They are stopped first: a process that is stopped
/// neither forks nor ends, so that none can escape between being found and being killed.
pub fn kill(root: u32) {
    let _ = signals::send(root, signals::SIGSTOP);
    kill_descendants(root, &[]);
    let _ = signals::send(root, signals::SIGKILL);
}

/// As [`kill`], without the process itself, and without those to spare and their descendants.
pub fn kill_descendants(root: u32, spare: &[u32]) {
    let mut stopped = BTreeSet::new();
    for _ in 0..TURNS {
        let found = descendants(root, spare);
        let new: Vec<_> = found.into_iter().filter(|pid| stopped.insert(*pid)).collect();
        if new.is_empty() {
            break;
        }
        for pid in new {
            let _ = signals::send(pid, signals::SIGSTOP);
        }
    }
    for pid in stopped {
        let _ = signals::send(pid, signals::SIGKILL);
    }
}

/// Children of a process.
pub fn children(root: u32) -> Vec<u32> {
    all().into_iter().filter(|process| process.parent == root).map(|process| process.pid).collect()
}

/// The child of a process that goes by this id in its own process namespace.
pub fn child_known_as(parent: u32, inner: u32) -> Option<u32> {
    children(parent).into_iter().find(|child| {
        let status = fs::read_to_string(format!("/proc/{child}/status")).unwrap_or_default();
        let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        ids.and_then(|ids| ids.split_ascii_whitespace().next_back()?.parse().ok()) == Some(inner)
    })
}

/// What must be known of a process to find its descendants.
#[derive(Debug, Clone, Copy)]
struct Process {
    pid: u32,
    parent: u32,
}

fn descendants(root: u32, spare: &[u32]) -> Vec<u32> {
    let mut others = all();
    others.retain(|process| !spare.contains(&process.pid));
    let (mut found, mut parents) = (Vec::new(), vec![root]);
    while let Some(parent) = parents.pop() {
        others.retain(|process| {
            let child = process.parent == parent;
            if child {
                parents.push(process.pid);
                found.push(process.pid);
            }
            !child
        });
    }
    found
}

/// All processes that can be seen and run; none without /proc.
fn all() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            Some(Process { pid, parent: parent_in(&stat)? })
        })
        .collect()
}

/// The parent in the text of /proc/PID/stat; `None` for a process that has ended. The name of the
/// program, in parentheses, may contain anything.
fn parent_in(stat: &str) -> Option<u32> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then_some(parent)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn the_name_of_a_program_does_not_confuse() {
        assert_eq!(parent_in("12 (a) R 7 (b)) S 5 6 7"), Some(5));
        assert_eq!(parent_in("12 (a) Z 5 6 7"), None);
        assert_eq!(parent_in("12"), None);
    }

    #[test]
    fn a_process_ends_with_all_that_descend_from_it() {
        let mut shell = Command::new("sh")
            .args(["-c", "sh -c 'sleep 600 & sleep 600' & sleep 600"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let begun = Instant::now();
        let family = loop {
            let family = descendants(shell.id(), &[]);
            if family.len() == 4 {
                break family;
            }
            assert!(begun.elapsed() < Duration::from_secs(10), "{family:?}");
            std::thread::sleep(Duration::from_millis(5));
        };
        kill(shell.id());
        shell.wait().unwrap();
        let alive = || all().iter().any(|p| family.contains(&p.pid));
        while alive() {
            assert!(begun.elapsed() < Duration::from_secs(20), "{family:?} live on");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
