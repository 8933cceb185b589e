//! Information of the kernel about processes.

use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal};

use crate::requirements;

/// A process.
#[derive(Debug, Clone)]
pub struct Process {
    /// Process id.
    pub pid: u32,
    /// Process id of the parent.
    pub parent: u32,
    /// Title, as shown by `ps`.
    pub title: String,
    /// Time at which it was started, in ticks of the kernel.
    started: u64,
}

/// Returns all descendants of a process, the oldest first. A process has the title of its parent
/// for a moment; the numbers do not show their age, as they begin again at a limit.
pub fn descendants(root: u32) -> Vec<Process> {
    let all = all();
    let mut found: Vec<Process> = Vec::new();
    let mut parents = vec![root];
    while let Some(parent) = parents.pop() {
        for process in all.iter().filter(|process| process.parent == parent) {
            parents.push(process.pid);
            found.push(process.clone());
        }
    }
    found.sort_by_key(|process| (process.started, process.pid));
    found
}

fn all() -> Vec<Process> {
    let entries = fs::read_dir("/proc").expect("/proc can be listed");
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(look).collect()
}

/// Reads a process; `None` if it has ended, also if it waits to be reaped.
fn look(pid: u32) -> Option<Process> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    if field(&status, "State:")?.starts_with('Z') {
        return None;
    }
    let parent = field(&status, "PPid:")?.parse().ok()?;
    let title = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let title = String::from_utf8_lossy(&title).replace('\0', " ").trim_end().to_owned();
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let started = after_name(&stat).nth(19)?.parse().ok()?;
    Some(Process { pid, parent, title, started })
}

/// Returns the words of a line of `/proc/PID/stat` behind the name, which may have any byte in it.
fn after_name(stat: &str) -> impl Iterator<Item = &str> {
    stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace()
}

fn field<'t>(status: &'t str, name: &str) -> Option<&'t str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// Returns true if a process runs.
pub fn is_alive(pid: u32) -> bool {
    look(pid).is_some()
}

/// Returns true if a process waits for something, and does not compute.
pub fn is_asleep(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    field(&status, "State:").is_some_and(|state| state.starts_with('S'))
}

/// Returns the private memory of a process in bytes: resident, without files and shared memory.
pub fn private_memory(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let kib = field(&status, "RssAnon:").and_then(|text| text.split(' ').next()?.parse().ok());
    kib.unwrap_or(0u64) << 10
}

/// Returns the memory of a process in bytes, with files and shared memory.
pub fn resident_memory(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let kib = field(&status, "VmRSS:").and_then(|text| text.split(' ').next()?.parse().ok());
    kib.unwrap_or(0u64) << 10
}

/// Returns the peak of the memory of a process in bytes. The kernel adds up its per-processor
/// counters only now and then, so a later figure may be a little lower.
pub fn peak_memory(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let kib = field(&status, "VmHWM:").and_then(|text| text.split(' ').next()?.parse().ok());
    kib.unwrap_or(0u64) << 10
}

/// Returns the processor time of a process in seconds.
pub fn processor_time(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let ticks = |index| after_name(&stat).nth(index)?.parse::<f64>().ok();
    let per_second = rustix::param::clock_ticks_per_second() as f64;
    (ticks(11).unwrap_or(0.0) + ticks(12).unwrap_or(0.0)) / per_second
}

/// Returns the processor time of each thread of a process in seconds.
pub fn thread_times(pid: u32) -> HashMap<u32, f64> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return HashMap::new() };
    let time = |thread: u32| {
        let text = fs::read_to_string(format!("/proc/{pid}/task/{thread}/schedstat")).ok()?;
        let nanoseconds: f64 = text.split(' ').next()?.parse().ok()?;
        Some((thread, nanoseconds / 1e9))
    };
    let ids = threads.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter_map(time).collect()
}

/// Returns the descriptors of a process, each with its target.
pub fn descriptors(pid: u32) -> Vec<(u32, String)> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return Vec::new() };
    let mut found: Vec<_> = entries
        .flatten()
        .filter_map(|entry| {
            let number = entry.file_name().to_str()?.parse().ok()?;
            let target = fs::read_link(entry.path()).ok()?;
            Some((number, target.to_string_lossy().into_owned()))
        })
        .collect();
    found.sort();
    found
}

/// Sends a signal to a process of the server; ignores processes that have just ended.
pub fn signal(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process id");
    match rustix::process::kill_process(pid, signal) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => {}
        Err(error) => panic!("{signal:?} cannot be sent: {error}"),
    }
}

/// Stops one thread until it is killed, as a loop without end in it would.
const STOP_THREAD: &str = "import ctypes, os, sys
trace = ctypes.CDLL(None, use_errno=True).ptrace
trace.argtypes = [ctypes.c_long] * 4
SEIZE, INTERRUPT, WALL = 0x4206, 0x4207, 0x40000000
thread = int(sys.argv[1])
if trace(SEIZE, thread, 0, 0) or trace(INTERRUPT, thread, 0, 0): sys.exit('failed')
print('stopped', flush=True)
while os.WIFSTOPPED(os.waitpid(thread, WALL)[1]): pass";

/// Stops a thread so that its process does not count as stopped. `None` if that is not possible
/// here.
pub fn stop_thread(thread: u32) -> Option<Child> {
    let mut stopper = Command::new("python3");
    stopper.args(["-I", "-c", STOP_THREAD, &thread.to_string()]).stdout(Stdio::piped());
    let Ok(mut stopper) = stopper.spawn() else {
        requirements::skipped("there is no python3");
        return None;
    };
    let mut said = [0; 7];
    if stopper.stdout.take().unwrap().read_exact(&mut said).is_err() {
        requirements::skipped("threads cannot be traced");
        return None;
    }
    Some(stopper)
}
