//! Finds and ends the descendants of a process.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::pidfd::PidFd;
use crate::{process, signals};

/// Time within which all processes of a tree must have stopped; afterwards they are killed in any
/// state. Stopping takes milliseconds, or seconds beside a fork bomb that uses all processor time.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// Interval of the checks of processes that are being stopped.
const CHECK_INTERVAL: Duration = Duration::from_millis(1);

/// Makes this process the parent of descendants whose own parent has ended.
pub fn adopt_orphans() -> rustix::io::Result<()> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
}

/// Ends a process and all its descendants. They are stopped first: a stopped process neither forks
/// nor ends, so that none can escape between being found and being killed. No effect for process 1.
pub fn kill(root: u32) {
    if root <= 1 {
        return;
    }
    let _ = signals::send(root, signals::SIGSTOP);
    end(|| Ok(Snapshot::take()?.tree(root)));
    let _ = signals::send(root, signals::SIGKILL);
}

/// Ends the descendants of a process, except those in `spare` and their descendants.
pub fn kill_descendants(root: u32, spare: &[u32]) {
    end(|| Ok(Snapshot::take()?.descendants(root, spare)));
}

/// Stops and kills all processes that `search` finds. A search that fails is repeated: without one,
/// all that it would have found would live on.
fn end(search: impl Fn() -> io::Result<Vec<Process>>) {
    let mut stopping = Stopping::new(Instant::now());
    loop {
        let is_done = match search() {
            Ok(found) => stopping.step(found, Instant::now()),
            Err(_) => stopping.is_late(Instant::now()),
        };
        if is_done {
            return;
        }
        std::thread::sleep(CHECK_INTERVAL);
    }
}

/// Process trees that are being ended like by [`kill`], without blocking the caller.
#[derive(Debug, Default)]
pub struct PendingKills {
    trees: Vec<Ending>,
    next: Option<Instant>,
}

#[derive(Debug)]
struct Ending {
    pid: u32,
    root: Rc<PidFd>,
    /// The root goes on, and so do these of its descendants, with their own.
    spare: Option<Vec<u32>>,
    stopping: Stopping,
}

impl PendingKills {
    /// Starts ending a process, whose id is `pid`, and all its descendants.
    pub fn add(&mut self, pid: u32, root: Rc<PidFd>, now: Instant) {
        if !self.is_new(pid) {
            return;
        }
        let _ = root.send(signals::SIGSTOP);
        self.trees.push(Ending { pid, root, spare: None, stopping: Stopping::new(now) });
        self.next = Some(now);
    }

    /// Starts ending all descendants of a process, whose id is `pid`, except those in `spare` and
    /// their descendants. None escapes if the process [adopts orphans](adopt_orphans).
    pub fn add_descendants(&mut self, pid: u32, root: Rc<PidFd>, spare: Vec<u32>, now: Instant) {
        if self.is_new(pid) {
            let stopping = Stopping::new(now);
            self.trees.push(Ending { pid, root, spare: Some(spare), stopping });
            self.next = Some(now);
        }
    }

    /// Returns true if the tree of a process can be ended and is not being ended.
    fn is_new(&self, pid: u32) -> bool {
        let is_known = |tree: &Ending| tree.pid == pid && !tree.root.has_ended();
        pid > 1 && !self.trees.iter().any(is_known)
    }

    /// Returns the process ids of the roots of the trees.
    pub fn pids(&self) -> impl Iterator<Item = u32> {
        self.trees.iter().map(|tree| tree.pid)
    }

    /// Returns the time of the next step; `None` if all have ended.
    pub fn due(&self) -> Option<Instant> {
        self.next
    }

    /// Takes the next step with each tree, if it is due. Reads the list of processes once for all.
    pub fn step_if_due(&mut self, now: Instant) {
        if self.next.is_none_or(|next| next > now) {
            return;
        }
        let processes = Snapshot::take();
        self.trees.retain_mut(|tree| {
            let is_done = match &processes {
                // If the root has not ended by now, the list has no other process with its id.
                _ if tree.root.has_ended() => tree.stopping.step(Vec::new(), now),
                Ok(processes) => {
                    let found = match &tree.spare {
                        None => processes.tree(tree.pid),
                        Some(spare) => processes.descendants(tree.pid, spare),
                    };
                    tree.stopping.step(found, now)
                }
                Err(_) => tree.stopping.is_late(now),
            };
            if is_done && tree.spare.is_none() {
                let _ = tree.root.send(signals::SIGKILL);
            }
            !is_done
        });
        // Uses at most half of the caller's time.
        let (ended, took) = (Instant::now(), now.elapsed());
        self.next = (!self.trees.is_empty()).then(|| ended + CHECK_INTERVAL.max(took));
    }
}

/// Processes that are being stopped before they are killed. SIGSTOP takes effect some time after it
/// was sent, and a fork that has begun by then still succeeds (unlike with SIGKILL). Therefore no
/// process is killed until a search has found all stopped, and the next search has found the same
/// ones.
#[derive(Debug)]
struct Stopping {
    begun: Instant,
    stopped: Option<Vec<Process>>,
}

impl Stopping {
    fn new(begun: Instant) -> Self {
        Stopping { begun, stopped: None }
    }

    /// Stops the processes that still run, or kills all. Returns true if they were killed.
    fn step(&mut self, found: Vec<Process>, now: Instant) -> bool {
        let running: Vec<_> = found.iter().filter(|process| !process.is_stopped).collect();
        let are_stopped = running.is_empty();
        let are_same = found.is_empty() || self.stopped.as_ref() == Some(&found);
        if are_stopped && are_same || self.is_late(now) {
            // Children before their parents: the end of a parent would give them another one.
            found.iter().rev().for_each(|process| process.send(signals::SIGKILL));
            return true;
        }
        running.iter().for_each(|process| process.send(signals::SIGSTOP));
        self.stopped = are_stopped.then_some(found);
        false
    }

    fn is_late(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.begun) > STOP_TIMEOUT
    }
}

/// Returns the process ids of the children of a process; none if the processes cannot be listed.
pub fn children(root: u32) -> Vec<u32> {
    let all = Snapshot::take().into_iter().flat_map(|all| all.0);
    all.filter(|process| process.parent == root).map(|process| process.pid).collect()
}

/// Returns the child of a process that has this id in its own process namespace. Includes a child
/// that has ended and is not reaped.
pub fn child_known_as(parent: u32, inner: u32) -> Option<u32> {
    let mut all = all_ids();
    all.find(|pid| parent_of(*pid) == Some(parent) && id_within(*pid) == Some(inner))
}

/// Returns the id of a process in its own process namespace.
pub fn id_within(pid: u32) -> Option<u32> {
    let status = process::read_proc_file(pid, "status").ok()?;
    let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    ids.split_ascii_whitespace().next_back()?.parse().ok()
}

/// Returns the parent of a process, even of one that has ended and is not reaped. `None` if the
/// process does not exist, or /proc does not show it.
pub fn parent_of(pid: u32) -> Option<u32> {
    Some(parse_stat(&process::read_proc_file(pid, "stat").ok()?)?.1)
}

/// Returns the state of a process, as a letter of `proc(5)`; `None` if /proc does not show it.
pub fn state_of(pid: u32) -> Option<u8> {
    Some(parse_stat(&process::read_proc_file(pid, "stat").ok()?)?.0)
}

/// A process in a list, with its parent and state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Process {
    pid: u32,
    parent: u32,
    /// Stopped, or in an uninterruptible system call, which SIGKILL ends without a return to the
    /// program.
    is_stopped: bool,
}

impl Process {
    /// Sends a signal, if the id still belongs to this process.
    fn send(self, signal: i32) {
        match PidFd::open(self.pid) {
            // The process of the descriptor had this id while its parent was read, or has ended.
            Ok(process) => {
                if parent_of(self.pid) == Some(self.parent) {
                    let _ = process.send(signal);
                }
            }
            Err(Errno::SRCH) => {}
            // An old kernel, or no free descriptor.
            Err(_) => drop(signals::send(self.pid, signal)),
        }
    }
}

/// List of the visible running processes; empty without /proc.
struct Snapshot(Vec<Process>);

impl Snapshot {
    /// Error: processes may be missing for want of a descriptor or of memory.
    fn take() -> io::Result<Self> {
        let mut all = Vec::new();
        for entry in visible(fs::read_dir("/proc"))?.into_iter().flatten() {
            if let Some(pid) = visible(entry)?.and_then(|entry| id_of(&entry)) {
                all.extend(read_process(pid)?);
            }
        }
        Ok(Snapshot(all))
    }

    /// Returns a process and its descendants, parents before their children.
    fn tree(&self, root: u32) -> Vec<Process> {
        let itself = self.0.iter().filter(|process| process.pid == root);
        itself.copied().chain(self.descendants(root, &[])).collect()
    }

    fn descendants(&self, root: u32, spare: &[u32]) -> Vec<Process> {
        let mut others = self.0.clone();
        others.retain(|process| !spare.contains(&process.pid));
        let (mut found, mut parents) = (Vec::new(), HashSet::from([root]));
        while !parents.is_empty() {
            let mut next = HashSet::new();
            others.retain(|process| {
                let is_child = parents.contains(&process.parent);
                if is_child {
                    next.insert(process.pid);
                    found.push(*process);
                }
                !is_child
            });
            parents = next;
        }
        found
    }
}

fn all_ids() -> impl Iterator<Item = u32> {
    fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|entry| id_of(&entry))
}

/// Returns the process id of an entry of /proc.
fn id_of(entry: &fs::DirEntry) -> Option<u32> {
    entry.file_name().to_str()?.parse().ok()
}

/// Returns the result of a read of /proc; `None` if the file does not exist or is not visible.
/// Error: a descriptor or memory was lacking, so a later attempt may succeed.
fn visible<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error) => match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM) => Err(error),
            _ => Ok(None),
        },
    }
}

/// Reads a process; `None` if it has ended or is not visible.
fn read_process(pid: u32) -> io::Result<Option<Process>> {
    let stat = visible(process::read_proc_file(pid, "stat"))?;
    let Some(stat) = stat else { return Ok(None) };
    let Some((state, parent)) = parse_stat(&stat) else { return Ok(None) };
    let is_stopped = match state {
        b'Z' | b'X' if thread_count(&stat) <= 1 => return Ok(None),
        // Its first thread has ended, and others go on.
        b'Z' | b'X' => are_threads_stopped(pid)?,
        state => is_stop(state),
    };
    Ok(Some(Process { pid, parent, is_stopped }))
}

/// Returns true if no thread of a process runs.
fn are_threads_stopped(pid: u32) -> io::Result<bool> {
    for entry in visible(fs::read_dir(format!("/proc/{pid}/task")))?.into_iter().flatten() {
        let thread = visible(entry)?.and_then(|entry| id_of(&entry));
        let stat =
            thread.map(|thread| process::read_proc_file(pid, &format!("task/{thread}/stat")));
        let stat = stat.map(visible).transpose()?.flatten();
        let state = stat.and_then(|stat| Some(parse_stat(&stat)?.0));
        if state.is_some_and(|state| !is_stop(state) && !matches!(state, b'Z' | b'X')) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns true for the states of a thread that is stopped, or in an uninterruptible system call.
fn is_stop(state: u8) -> bool {
    matches!(state, b'T' | b't' | b'D')
}

/// Returns the number of threads in the text of `/proc/PID/stat`. A process whose first thread has
/// ended is shown like one that has ended, but has others.
pub(crate) fn thread_count(stat: &str) -> u32 {
    let fields = stat.rsplit_once(')').map(|(_, rest)| rest.split_ascii_whitespace());
    fields.and_then(|mut fields| fields.nth(17)?.parse().ok()).unwrap_or(0)
}

/// Parses the state and the parent in the text of /proc/PID/stat. The name of the program, in
/// parentheses, may contain any characters.
fn parse_stat(stat: &str) -> Option<(u8, u32)> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    Some((state, fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    #[test]
    fn the_name_of_a_program_does_not_confuse() {
        assert_eq!(parse_stat("12 (a) R 7 (b)) S 5 6 7"), Some((b'S', 5)));
        assert_eq!(parse_stat("12 (a) S 7) T 5 6 7"), Some((b'T', 5)));
        assert_eq!(parse_stat("12"), None);
        assert_eq!(parse_stat("12 (a) "), None);
    }

    /// Starts a shell with three processes below it.
    fn shell() -> (Child, Vec<Process>) {
        let shell = Command::new("sh")
            // A process may set its name to bytes that are not text.
            .args(["-c", r"sh -c 'printf \377 > /proc/$$/comm; sleep 600 & sleep 600' & sleep 600"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let begun = Instant::now();
        let mut tree = Vec::new();
        while tree.len() < 4 {
            assert!(begun.elapsed() < Duration::from_secs(10), "{tree:?}");
            std::thread::sleep(Duration::from_millis(5));
            tree = Snapshot::take().unwrap().descendants(shell.id(), &[]);
        }
        (shell, tree)
    }

    fn wait_for_end(tree: &[Process]) {
        let begun = Instant::now();
        let alive =
            |process: &Process| read_process(process.pid).unwrap().is_some_and(|p| p.parent != 0);
        while tree.iter().any(alive) {
            let left = || tree.iter().map(|left| process::read_proc_file(left.pid, "stat"));
            let limit = Duration::from_secs(20);
            assert!(begun.elapsed() < limit, "of {tree:?}: {:?}", left().collect::<Vec<_>>());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_process_ends_with_all_that_descend_from_it() {
        let (mut shell, tree) = shell();
        kill(shell.id());
        shell.wait().unwrap();
        wait_for_end(&tree);
    }

    #[test]
    fn a_search_without_a_free_descriptor_is_repeated() {
        let (mut shell, tree) = shell();
        let failures = std::cell::Cell::new(3);
        end(|| {
            failures.set(failures.get() - 1);
            match failures.get() {
                0.. => Err(io::Error::from(Errno::MFILE)),
                _ => Ok(Snapshot::take()?.tree(shell.id())),
            }
        });
        shell.wait().unwrap();
        wait_for_end(&tree);
        assert!(visible::<()>(Err(Errno::MFILE.into())).is_err());
        assert!(visible::<()>(Err(Errno::SRCH.into())).unwrap().is_none());
    }

    #[test]
    fn families_end_step_by_step_though_all_are_stopped() {
        let (mut endings, now) = (PendingKills::default(), Instant::now());
        let mut shells = [shell(), shell()];
        for (shell, tree) in &shells {
            let root = Rc::new(PidFd::open(shell.id()).unwrap());
            let _ = signals::send(tree[0].pid, signals::SIGSTOP);
            let _ = signals::send(shell.id(), signals::SIGSTOP);
            endings.add(shell.id(), Rc::clone(&root), now);
            endings.add(shell.id(), root, now);
        }
        while endings.due().is_some() {
            assert!(now.elapsed() < Duration::from_secs(20));
            endings.step_if_due(Instant::now());
            std::thread::sleep(CHECK_INTERVAL);
        }
        for (shell, tree) in &mut shells {
            shell.wait().unwrap();
            wait_for_end(tree);
        }
    }

    #[test]
    fn all_but_a_process_and_some_of_its_own_end() {
        let (mut shell, tree) = shell();
        let (mut endings, now) = (PendingKills::default(), Instant::now());
        let root = Rc::new(PidFd::open(shell.id()).unwrap());
        let children: Vec<_> = tree.iter().filter(|child| child.parent == shell.id()).collect();
        let is_parent = |child: &&&Process| tree.iter().any(|other| other.parent == child.pid);
        let (spared, ended) = (children.iter().find(is_parent).unwrap(), children.len() - 1);
        endings.add_descendants(shell.id(), root, vec![spared.pid], now);
        assert_eq!(endings.pids().collect::<Vec<_>>(), [shell.id()]);
        while endings.due().is_some() {
            assert!(now.elapsed() < Duration::from_secs(20));
            endings.step_if_due(Instant::now());
            std::thread::sleep(CHECK_INTERVAL);
        }
        let is_left = |process: &Process| process.pid == spared.pid || process.parent == spared.pid;
        let (left, gone): (Vec<Process>, Vec<Process>) = tree.iter().copied().partition(is_left);
        assert_eq!((left.len(), gone.len()), (3, ended));
        wait_for_end(&gone);
        let is_running = |process: &Process| state_of(process.pid).is_some_and(|s| s != b'Z');
        assert!(left.iter().all(is_running), "{left:?}");
        // The shell has waited for the other child, so its descendants may have another parent.
        for process in &left {
            let _ = signals::send(process.pid, signals::SIGKILL);
        }
        kill(shell.id());
        shell.wait().unwrap();
    }

    #[test]
    fn a_process_whose_first_thread_has_ended_ends_too() {
        // The program and its child end their first thread (60 is exit(2) of x86-64).
        let program = "import ctypes, os, threading, time\n\
            os.fork()\n\
            threading.Thread(target=lambda: time.sleep(600)).start()\n\
            ctypes.CDLL(None).syscall(60 if os.uname().machine == 'x86_64' else 93, 0)";
        let python = Command::new("python3").args(["-c", program]).stdout(Stdio::null()).spawn();
        let Ok(mut python) = python else {
            return howdah_requirements::skipped("there is no python3");
        };
        let is_without_first = |process: &Process| {
            let stat = process::read_proc_file(process.pid, "stat").unwrap_or_default();
            parse_stat(&stat).is_some_and(|(state, _)| state == b'Z') && thread_count(&stat) == 2
        };
        let begun = Instant::now();
        let mut tree = Vec::new();
        while tree.len() < 2 || !tree.iter().all(is_without_first) {
            assert!(begun.elapsed() < Duration::from_secs(20), "{tree:?}");
            std::thread::sleep(Duration::from_millis(5));
            tree = Snapshot::take().unwrap().tree(python.id());
        }
        let usage = crate::process_usage::ProcessUsage::of(python.id()).unwrap();
        assert_eq!(usage.threads, 2);
        let memory = crate::process_usage::ProcessMemory::of(python.id()).unwrap();
        assert!(memory.anonymous > 0, "{memory:?}");
        kill(python.id());
        python.wait().unwrap();
        wait_for_end(&tree);
    }

    #[test]
    fn a_process_that_is_not_who_it_was_gets_no_signal() {
        let mut other = Command::new("sleep").arg("600").spawn().unwrap();
        let mistaken = Process { pid: other.id(), parent: 1, is_stopped: false };
        mistaken.send(signals::SIGKILL);
        assert_eq!(other.try_wait().unwrap(), None);
        // A root that ended before the search has no tree: its id may belong to another process.
        let mut child = Command::new("true").spawn().unwrap();
        let root = Rc::new(PidFd::open(child.id()).unwrap());
        child.wait().unwrap();
        let mut endings = PendingKills::default();
        endings.add(other.id(), root, Instant::now());
        endings.step_if_due(Instant::now());
        assert_eq!((other.try_wait().unwrap(), endings.due()), (None, None));
        Process { parent: std::process::id(), ..mistaken }.send(signals::SIGKILL);
        other.wait().unwrap();
    }
}
