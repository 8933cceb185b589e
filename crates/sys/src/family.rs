//! Processes that descend from others: finding them and ending them all.

use std::fs;
use std::time::{Duration, Instant};

use crate::{process, signals};

/// How long to wait until all processes of a family have stopped before they are killed as they
/// are. It takes milliseconds, and seconds beside a fork bomb that leaves no processor time.
const PATIENCE: Duration = Duration::from_secs(10);

/// Between two looks at processes that are about to stop.
const PAUSE: Duration = Duration::from_millis(1);

/// Becomes the parent of descendants whose own parent ends.
pub fn adopt_orphans() -> rustix::io::Result<()> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
}

/// Ends a process and all that descend from it. They are stopped first: a process that is stopped
/// neither forks nor ends, so that none can escape between being found and being killed.
pub fn kill(root: u32) {
    let _ = signals::send(root, signals::SIGSTOP);
    end(|| family(root));
    let _ = signals::send(root, signals::SIGKILL);
}

/// As [`kill`], without the process itself, and without those to spare and their descendants.
pub fn kill_descendants(root: u32, spare: &[u32]) {
    end(|| descendants(root, spare));
}

/// Stops and kills all that a search finds. A signal to stop takes effect some time after it was
/// sent, and a fork that has begun by then still succeeds (one that SIGKILL meets fails). So
/// nothing is killed until a search has found all at rest, and the next one has found no other.
fn end(search: impl Fn() -> Vec<Process>) {
    let begun = Instant::now();
    let mut resting = None;
    let found = loop {
        let found = search();
        let moving: Vec<_> = found.iter().filter(|process| !process.rests).collect();
        if moving.is_empty() && (found.is_empty() || resting.as_ref() == Some(&found))
            || begun.elapsed() > PATIENCE
        {
            break found;
        }
        for process in &moving {
            let _ = signals::send(process.pid, signals::SIGSTOP);
        }
        if moving.is_empty() {
            resting = Some(found);
        } else {
            resting = None;
            std::thread::sleep(PAUSE);
        }
    };
    for process in found {
        let _ = signals::send(process.pid, signals::SIGKILL);
    }
}

/// Children of a process.
pub fn children(root: u32) -> Vec<u32> {
    all().into_iter().filter(|process| process.parent == root).map(|process| process.pid).collect()
}

/// The child of a process that goes by this id in its own process namespace.
pub fn child_known_as(parent: u32, inner: u32) -> Option<u32> {
    children(parent).into_iter().find(|child| {
        let status = process::read_facts(*child, "status").unwrap_or_default();
        let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        ids.and_then(|ids| ids.split_ascii_whitespace().next_back()?.parse().ok()) == Some(inner)
    })
}

/// What must be known of a process to find its descendants and to end them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Process {
    pid: u32,
    parent: u32,
    /// Stopped, or where it cannot be stopped: deep in a system call, which SIGKILL ends without a
    /// return to the program.
    rests: bool,
}

/// A process and its descendants.
fn family(root: u32) -> Vec<Process> {
    look(root).into_iter().chain(descendants(root, &[])).collect()
}

fn descendants(root: u32, spare: &[u32]) -> Vec<Process> {
    let mut others = all();
    others.retain(|process| !spare.contains(&process.pid));
    let (mut found, mut parents) = (Vec::new(), vec![root]);
    while let Some(parent) = parents.pop() {
        others.retain(|process| {
            let child = process.parent == parent;
            if child {
                parents.push(process.pid);
                found.push(*process);
            }
            !child
        });
    }
    found
}

/// All processes that can be seen and run; none without /proc.
fn all() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|entry| look(entry.file_name().to_str()?.parse().ok()?)).collect()
}

/// A process that can be seen and runs.
fn look(pid: u32) -> Option<Process> {
    let (parent, rests) = read(&process::read_facts(pid, "stat").ok()?)?;
    Some(Process { pid, parent, rests })
}

/// The parent in the text of /proc/PID/stat and whether the process rests; `None` for one that has
/// ended. The name of the program, in parentheses, may contain anything.
fn read(stat: &str) -> Option<(u32, bool)> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then_some((parent, matches!(state, "T" | "t" | "D")))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn the_name_of_a_program_does_not_confuse() {
        assert_eq!(read("12 (a) R 7 (b)) S 5 6 7"), Some((5, false)));
        assert_eq!(read("12 (a) S 7) T 5 6 7"), Some((5, true)));
        assert_eq!(read("12 (a) Z 5 6 7"), None);
        assert_eq!(read("12"), None);
    }

    #[test]
    fn a_process_ends_with_all_that_descend_from_it() {
        let mut shell = Command::new("sh")
            // A process may give itself a name that is not text.
            .args(["-c", r"sh -c 'printf \377 > /proc/$$/comm; sleep 600 & sleep 600' & sleep 600"])
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
        let alive = || all().iter().any(|p| family.iter().any(|f| f.pid == p.pid));
        while alive() {
            assert!(begun.elapsed() < Duration::from_secs(20), "{family:?} live on");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
