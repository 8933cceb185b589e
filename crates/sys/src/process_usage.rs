//! Processes and the resources that they use, from counters of the kernel that no process can lock.

use std::collections::{HashMap, HashSet};
use std::{fs, io};

use rustix::io::Errno;
use rustix::process::{Pid, Rlimit};

use crate::process::{Resource, read_proc_file};

/// Maximum number of threads of a process whose files are tried for its memory.
const MAX_THREADS_READ: usize = 16;

/// A process and what it uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProcessUsage {
    /// Process id.
    pub pid: u32,
    /// Process id of the parent.
    pub parent: u32,
    /// State of the first thread, as a letter of `proc(5)`.
    pub state: u8,
    /// Number of threads.
    pub threads: u32,
    /// Processor time of the process, in ticks of the kernel (mostly hundredths of a second).
    pub own_ticks: u64,
    /// The same, with that of its children that have ended.
    pub ticks: u64,
    /// Time of its start in ticks since the start of the system. Distinguishes it from a later
    /// process with the same id.
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

/// The descendants of a process at one moment, with their private memory in bytes.
#[derive(Debug, Default)]
pub struct ProcessUses {
    all: HashMap<u32, (ProcessUsage, u64)>,
    children: HashMap<u32, Vec<u32>>,
}

/// Returns a process and its descendants, parents before their children. Includes those that have
/// ended and are not reaped. Empty if the process does not exist, or /proc does not show it.
///
/// The processes are not read at one moment: some that start or get another parent meanwhile may be
/// missing. Error: a descriptor or memory was lacking.
pub fn tree(root: u32) -> io::Result<Vec<ProcessUsage>> {
    let mut all: Vec<_> = ProcessUsage::read(root)?.into_iter().collect();
    if !all.is_empty() {
        all.extend(descendants(root, &[], |_| {})?);
    }
    Ok(all)
}

/// Returns the descendants of a process as [`tree`] does, except those in `spare` and their
/// descendants. `found` is called with each as soon as it has been read.
pub fn descendants(
    root: u32,
    spare: &[u32],
    mut found: impl FnMut(&ProcessUsage),
) -> io::Result<Vec<ProcessUsage>> {
    let by_parent = by_parent_without_children_files(root)?;
    let threads = ProcessUsage::read(root)?.map_or(0, |process| process.threads);
    let (mut all, mut next) = (Vec::new(), vec![(root, threads)]);
    let (mut parents, mut seen) = (HashSet::from([root]), HashSet::from([root]));
    seen.extend(spare);
    while let Some((parent, threads)) = next.pop() {
        let children = match &by_parent {
            Some(by_parent) => by_parent.get(&parent).cloned().unwrap_or_default(),
            None => children(parent, threads)?,
        };
        for pid in children {
            // An id may stand in several lists, which were not read at one moment.
            if !seen.insert(pid) {
                continue;
            }
            let Some(process) = ProcessUsage::read(pid)? else { continue };
            // Its parent may have ended meanwhile, so that an ancestor has adopted it. With another
            // parent it is another process with the same id.
            if !parents.contains(&process.parent) {
                continue;
            }
            found(&process);
            parents.insert(pid);
            next.push((pid, process.threads));
            all.push(process);
        }
    }
    Ok(all)
}

/// Returns the children of a process, also those that have ended and are not reaped. Error: a
/// descriptor or memory was lacking.
pub(crate) fn children_of(parent: u32) -> io::Result<Vec<ProcessUsage>> {
    let pids = match by_parent_without_children_files(parent)? {
        Some(by_parent) => by_parent.get(&parent).cloned().unwrap_or_default(),
        None => children(parent, 0)?,
    };
    let mut all = Vec::new();
    for pid in pids {
        all.extend(ProcessUsage::read(pid)?.filter(|process| process.parent == parent));
    }
    Ok(all)
}

/// Returns true if all threads of a process that have not ended are in states for which `is`
/// returns true. Error: a descriptor or memory was lacking.
pub(crate) fn are_threads(pid: u32, is: impl Fn(u8) -> bool) -> io::Result<bool> {
    for entry in visible(fs::read_dir(format!("/proc/{pid}/task")))?.into_iter().flatten() {
        let Some(thread) = visible(entry)?.and_then(|entry| id_of(&entry)) else { continue };
        let stat = visible(read_proc_file(pid, &format!("task/{thread}/stat")))?;
        let thread = stat.and_then(|stat| ProcessUsage::parse(pid, &stat));
        if thread.is_some_and(|thread| !matches!(thread.state, b'Z' | b'X') && !is(thread.state)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the ids of the children of a process, also of those that have ended and are not reaped.
/// `threads` is the number of its threads, 0 if unknown. A sandbox may forbid the list of threads:
/// then only the first one's children are returned.
fn children(pid: u32, threads: u32) -> io::Result<Vec<u32>> {
    let of_thread = |thread: u32| {
        let text = visible(read_proc_file(pid, &format!("task/{thread}/children")))?;
        let text = text.unwrap_or_default();
        io::Result::Ok(text.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect())
    };
    let mut all: Vec<u32> = of_thread(pid)?;
    if threads == 1 {
        return Ok(all);
    }
    for entry in visible(fs::read_dir(format!("/proc/{pid}/task")))?.into_iter().flatten() {
        let thread = visible(entry)?.and_then(|entry| id_of(&entry));
        if let Some(thread) = thread.filter(|thread| *thread != pid) {
            let mut found: Vec<u32> = of_thread(thread)?;
            all.append(&mut found);
        }
    }
    Ok(all)
}

/// Returns the ids of all processes by their parents if the kernel has no lists of children (Linux:
/// `CONFIG_PROC_CHILDREN`), otherwise `None`.
fn by_parent_without_children_files(root: u32) -> io::Result<Option<HashMap<u32, Vec<u32>>>> {
    // Read, since a sandbox may permit nothing else.
    let list = visible(read_proc_file(root, &format!("task/{root}/children")))?;
    if list.is_some() || ProcessUsage::read(root)?.is_none() {
        return Ok(None);
    }
    let mut by_parent = HashMap::<u32, Vec<u32>>::new();
    for entry in visible(fs::read_dir("/proc"))?.into_iter().flatten() {
        let Some(pid) = visible(entry)?.and_then(|entry| id_of(&entry)) else { continue };
        if let Some(process) = ProcessUsage::read(pid)? {
            by_parent.entry(process.parent).or_default().push(pid);
        }
    }
    Ok(Some(by_parent))
}

/// Returns the process id, or that of a thread, of an entry of /proc.
pub(crate) fn id_of(entry: &fs::DirEntry) -> Option<u32> {
    entry.file_name().to_str()?.parse().ok()
}

/// Returns the result of a read of /proc; `None` if the file does not exist or is not visible.
/// Error: a descriptor or memory was lacking, so a later attempt may succeed.
pub(crate) fn visible<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error) => match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM) => Err(error),
            _ => Ok(None),
        },
    }
}

impl ProcessUsage {
    /// Reads a process; `None` if it has ended, or /proc does not show it.
    pub fn of(pid: u32) -> Option<ProcessUsage> {
        ProcessUsage::read(pid).ok().flatten().filter(|process| !process.has_ended())
    }

    /// Reads a process, also one that has ended and is not reaped; `None` if there is none, or
    /// /proc does not show it. Error: a descriptor or memory was lacking.
    pub fn read(pid: u32) -> io::Result<Option<ProcessUsage>> {
        let stat = visible(read_proc_file(pid, "stat"))?;
        Ok(stat.and_then(|stat| ProcessUsage::parse(pid, &stat)))
    }

    /// Returns true if the process has ended and is not reaped. One whose first thread has ended is
    /// shown alike, but has others.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, b'Z' | b'X') && self.threads <= 1
    }

    /// Parses the text of `/proc/PID/stat`. The name of the program, in parentheses, may contain
    /// any characters.
    fn parse(pid: u32, stat: &str) -> Option<ProcessUsage> {
        let (_, rest) = stat.rsplit_once(')')?;
        let mut fields = rest.split_ascii_whitespace();
        let state = *fields.next()?.as_bytes().first()?;
        let parent = fields.next()?.parse().ok()?;
        let mut numbers = fields.skip(9).map(|field| field.parse::<u64>().ok());
        let mut next = || numbers.next().flatten();
        let own_ticks = next()?.saturating_add(next()?);
        let ticks = own_ticks.saturating_add(next()?).saturating_add(next()?);
        // Priorities may be negative.
        let mut numbers = numbers.skip(2);
        let threads = u32::try_from(numbers.next()??).ok()?;
        let started = numbers.nth(1)??;
        Some(ProcessUsage { pid, parent, state, threads, own_ticks, ticks, started })
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
                .filter_map(|entry| Some(format!("task/{}/status", id_of(&entry)?)));
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

impl ProcessUses {
    /// Reads the descendants of a process. Those that /proc does not show are missing.
    pub fn below(root: u32) -> Self {
        let mut uses = ProcessUses::default();
        for process in descendants(root, &[], |_| {}).unwrap_or_default() {
            let private = if process.has_ended() { 0 } else { private_memory(process.pid) };
            uses.all.insert(process.pid, (process, private));
            uses.children.entry(process.parent).or_default().push(process.pid);
        }
        uses
    }

    /// Returns the parent of a process.
    pub fn parent(&self, pid: u32) -> Option<u32> {
        self.all.get(&pid).map(|(process, _)| process.parent)
    }

    /// Returns what a process and its descendants use; `None` without this process.
    pub fn of_tree(&self, root: u32) -> Option<TreeUse> {
        self.all.get(&root)?;
        let (mut sum, mut next) = (TreeUse::default(), vec![root]);
        while let Some(pid) = next.pop() {
            let Some((process, private)) = self.all.get(&pid) else { continue };
            sum.cpu_us = sum.cpu_us.saturating_add(micros(process.ticks));
            sum.processes += u64::from(!process.has_ended());
            sum.runnable += u64::from(process.state == b'R');
            sum.private = sum.private.saturating_add(*private);
            next.extend(self.children.get(&pid).into_iter().flatten());
        }
        Some(sum)
    }
}

/// Returns the processor time of a process in microseconds, without that of its children; 0 if it
/// does not exist.
pub fn cpu_time(pid: u32) -> u64 {
    let process = ProcessUsage::read(pid).ok().flatten();
    process.map_or(0, |process| micros(process.own_ticks))
}

/// Returns the private resident memory of a process in bytes: neither file pages nor shared memory.
/// Needs no permission.
pub fn private_memory(pid: u32) -> u64 {
    let statm = read_proc_file(pid, "statm").unwrap_or_default();
    let mut pages = statm.split(' ').skip(1).map_while(|number| number.parse::<u64>().ok());
    let (Some(resident), Some(shared)) = (pages.next(), pages.next()) else { return 0 };
    resident.saturating_sub(shared) * rustix::param::page_size() as u64
}

fn micros(ticks: u64) -> u64 {
    ticks.saturating_mul(1_000_000) / rustix::param::clock_ticks_per_second().max(1)
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

/// Sets the nice value of another process, and that of its session where the kernel schedules by
/// session.
pub fn set_priority(pid: u32, nice: i32) -> io::Result<()> {
    let id = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::NotFound)?;
    rustix::process::setpriority_process(Some(id), nice)?;
    let _ = fs::write(format!("/proc/{pid}/autogroup"), nice.to_string());
    Ok(())
}

#[cfg(test)]
mod tests;
