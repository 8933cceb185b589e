//! Finds and ends the descendants of a process.

use std::collections::HashSet;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::pidfd::PidFd;
use crate::process_usage::{self, ProcessUsage};
use crate::{process, signals};

/// Time within which all processes of a tree must have stopped; afterwards they are killed in any
/// state. Stopping takes milliseconds, or seconds beside a fork bomb that uses all processor time.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// Time after which no more of a tree are killed, even if there are new ones.
const KILL_TIMEOUT: Duration = Duration::from_secs(20);

/// Interval of the checks of processes that are being stopped.
const CHECK_INTERVAL: Duration = Duration::from_millis(1);

/// Maximum time for which a search is repeated at once, as the last one has found new processes.
const MAX_REPETITION: Duration = Duration::from_millis(20);

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
    end(|found| with_root(root, found));
    let _ = signals::send(root, signals::SIGKILL);
}

/// Ends the descendants of a process, except those in `spare` and their descendants.
pub fn kill_descendants(root: u32, spare: &[u32]) {
    end(|found| process_usage::descendants(root, spare, found));
}

/// Reports each process that a search finds as soon as it is found.
type Found<'a> = &'a mut dyn FnMut(&ProcessUsage);

/// Finds a process and its descendants.
fn with_root(root: u32, found: Found<'_>) -> io::Result<Vec<ProcessUsage>> {
    let mut all: Vec<_> = ProcessUsage::read(root)?.into_iter().collect();
    all.iter().for_each(&mut *found);
    all.extend(process_usage::descendants(root, &[], found)?);
    Ok(all)
}

/// Stops and kills all processes that `search` finds. A search that fails is repeated: without one,
/// all that it would have found would live on.
fn end(search: impl Fn(Found<'_>) -> io::Result<Vec<ProcessUsage>>) {
    let mut stopping = Stopping::new(Instant::now());
    while stopping.step(&search, Instant::now()) != Step::Done {
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

    /// Takes the next step with each tree, if it is due. Repeats it for a moment while there are
    /// new processes: the sooner they are stopped, the fewer others they start.
    pub fn step_if_due(&mut self, now: Instant) {
        if self.next.is_none_or(|next| next > now) {
            return;
        }
        let mut are_new = true;
        while are_new && now.elapsed() < MAX_REPETITION {
            are_new = false;
            self.trees.retain_mut(|tree| {
                let step = tree.step(Instant::now());
                are_new |= step == Step::Found;
                step != Step::Done
            });
        }
        // Uses at most half of the caller's time.
        let (ended, took) = (Instant::now(), now.elapsed());
        self.next = (!self.trees.is_empty()).then(|| ended + CHECK_INTERVAL.max(took));
    }
}

impl Ending {
    fn step(&mut self, now: Instant) -> Step {
        let (pid, root, spare) = (self.pid, &self.root, self.spare.as_deref());
        let search = |found: Found<'_>| {
            if root.has_ended() {
                return Ok(Vec::new());
            }
            // If the root has not ended by now, no other process had its id.
            let found = &mut |process: &ProcessUsage| {
                if !root.has_ended() {
                    found(process);
                }
            };
            let all = match spare {
                None => with_root(pid, found),
                Some(spare) => process_usage::descendants(pid, spare, found),
            };
            if root.has_ended() { Ok(Vec::new()) } else { all }
        };
        let step = self.stopping.step(search, now);
        if step == Step::Done && spare.is_none() {
            let _ = root.send(signals::SIGKILL);
        }
        step
    }
}

/// Processes that are being stopped before they are killed. SIGSTOP takes effect some time after it
/// was sent, and a fork that has begun by then still succeeds (unlike with SIGKILL). Therefore no
/// process is killed until a search has found all stopped, and the next search has found the same
/// ones.
#[derive(Debug)]
struct Stopping {
    begun: Instant,
    /// The processes that the last search has found.
    last: HashSet<Identity>,
    /// All that were stopped, or killed, so far.
    signalled: HashSet<Identity>,
    /// All of the last search were stopped.
    were_stopped: bool,
    /// All of them were killed.
    were_killed: bool,
}

/// Process id and time of the start.
type Identity = (u32, u64);

/// The result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// There are new processes.
    Found,
    /// Some have not stopped yet.
    Waiting,
    /// All were killed.
    Done,
}

impl Stopping {
    fn new(begun: Instant) -> Self {
        Stopping {
            begun,
            last: HashSet::new(),
            signalled: HashSet::new(),
            were_stopped: false,
            were_killed: false,
        }
    }

    /// Stops the processes that still run, or kills all.
    fn step(
        &mut self,
        search: impl FnOnce(Found<'_>) -> io::Result<Vec<ProcessUsage>>,
        now: Instant,
    ) -> Step {
        let passed = now.saturating_duration_since(self.begun);
        let is_late = passed > STOP_TIMEOUT;
        let signal = if is_late { signals::SIGKILL } else { signals::SIGSTOP };
        let mut are_stopped = true;
        let all = search(&mut |process| {
            let is_stopped = is_stopped(process);
            are_stopped &= is_stopped;
            // At once: when the search is over, it may have started others and ended.
            if is_late || !is_stopped {
                send(process, signal);
                self.signalled.insert((process.pid, process.started));
            }
        });
        let Ok(mut all) = all else {
            return if passed > KILL_TIMEOUT { Step::Done } else { Step::Waiting };
        };
        all.retain(|process| !process.has_ended());
        let found: HashSet<_> = all.iter().map(|one| (one.pid, one.started)).collect();
        let are_new = !found.is_subset(&self.last);
        let are_all_stopped = are_stopped && self.were_stopped && found == self.last;
        let are_all_killed = is_late && self.were_killed && !are_new || passed > KILL_TIMEOUT;
        if found.is_empty() || are_all_stopped || are_all_killed {
            // Children before their parents: the end of a parent would give them another one.
            all.iter().rev().for_each(|process| send(process, signals::SIGKILL));
            // Those that an ancestor outside the tree has adopted meanwhile would stay stopped.
            for (pid, started) in self.signalled.drain() {
                send(&ProcessUsage { pid, started, ..ProcessUsage::default() }, signals::SIGKILL);
            }
            return Step::Done;
        }
        (self.last, self.were_stopped, self.were_killed) = (found, are_stopped, is_late);
        if are_new { Step::Found } else { Step::Waiting }
    }
}

/// Returns true if no thread of a process runs: it is stopped, in an uninterruptible system call,
/// which SIGKILL ends without a return to the program, or has ended.
fn is_stopped(process: &ProcessUsage) -> bool {
    let is_stop = |state: u8| matches!(state, b'T' | b't' | b'D');
    match process.state {
        _ if process.has_ended() => true,
        // Its first thread has ended, and others go on.
        b'Z' | b'X' => process_usage::are_threads(process.pid, is_stop).unwrap_or(false),
        state => is_stop(state),
    }
}

/// Sends a signal to a process if its id still belongs to it.
fn send(process: &ProcessUsage, signal: i32) {
    match PidFd::open(process.pid) {
        // The process of the descriptor has the id while it is read again, or has ended.
        Ok(handle) => {
            let now = ProcessUsage::of(process.pid);
            if now.is_some_and(|now| now.started == process.started) {
                let _ = handle.send(signal);
            }
        }
        Err(Errno::SRCH) => {}
        // An old kernel, or no free descriptor.
        Err(_) => drop(signals::send(process.pid, signal)),
    }
}

/// Returns the process ids of the children of a process, except those that have ended; none if the
/// processes cannot be listed.
pub fn children(root: u32) -> Vec<u32> {
    let all = process_usage::children_of(root).unwrap_or_default().into_iter();
    all.filter(|child| !child.has_ended()).map(|child| child.pid).collect()
}

/// Returns the child of a process that has this id in its own process namespace. Includes a child
/// that has ended and is not reaped.
pub fn child_known_as(parent: u32, inner: u32) -> Option<u32> {
    let all = process_usage::children_of(parent).unwrap_or_default().into_iter();
    all.map(|child| child.pid).find(|pid| id_within(*pid) == Some(inner))
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
    Some(ProcessUsage::read(pid).ok()??.parent)
}

/// Returns the state of a process, as a letter of `proc(5)`; `None` if /proc does not show it.
pub fn state_of(pid: u32) -> Option<u8> {
    Some(ProcessUsage::read(pid).ok()??.state)
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// Starts a shell with three processes below it.
    fn shell() -> (Child, Vec<ProcessUsage>) {
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
            tree = process_usage::descendants(shell.id(), &[], |_| {}).unwrap();
        }
        (shell, tree)
    }

    fn wait_for_end(tree: &[ProcessUsage]) {
        let begun = Instant::now();
        let alive = |process: &ProcessUsage| {
            ProcessUsage::of(process.pid).is_some_and(|one| one.started == process.started)
        };
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
        end(|found| {
            failures.set(failures.get() - 1);
            match failures.get() {
                0.. => Err(io::Error::from(Errno::MFILE)),
                _ => with_root(shell.id(), found),
            }
        });
        shell.wait().unwrap();
        wait_for_end(&tree);
        let visible = process_usage::visible::<()>;
        assert!(visible(Err(Errno::MFILE.into())).is_err());
        assert!(visible(Err(Errno::SRCH.into())).unwrap().is_none());
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
        let is_parent = |child: &&&ProcessUsage| tree.iter().any(|other| other.parent == child.pid);
        let (spared, ended) = (children.iter().find(is_parent).unwrap(), children.len() - 1);
        endings.add_descendants(shell.id(), root, vec![spared.pid], now);
        assert_eq!(endings.pids().collect::<Vec<_>>(), [shell.id()]);
        while endings.due().is_some() {
            assert!(now.elapsed() < Duration::from_secs(20));
            endings.step_if_due(Instant::now());
            std::thread::sleep(CHECK_INTERVAL);
        }
        let is_left =
            |process: &ProcessUsage| process.pid == spared.pid || process.parent == spared.pid;
        let (left, gone): (Vec<_>, Vec<_>) = tree.iter().copied().partition(is_left);
        assert_eq!((left.len(), gone.len()), (3, ended));
        wait_for_end(&gone);
        let is_running = |process: &ProcessUsage| state_of(process.pid).is_some_and(|s| s != b'Z');
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
        let is_without_first = |process: &ProcessUsage| {
            ProcessUsage::of(process.pid).is_some_and(|now| now.state == b'Z' && now.threads == 2)
        };
        let begun = Instant::now();
        let mut tree = Vec::new();
        while tree.len() < 2 || !tree.iter().all(is_without_first) {
            assert!(begun.elapsed() < Duration::from_secs(120), "{tree:?}");
            std::thread::sleep(Duration::from_millis(5));
            tree = process_usage::tree(python.id()).unwrap();
        }
        let memory = process_usage::ProcessMemory::of(python.id()).unwrap();
        assert!(memory.anonymous > 0, "{memory:?}");
        kill(python.id());
        python.wait().unwrap();
        wait_for_end(&tree);
    }

    #[test]
    fn a_process_that_is_not_who_it_was_gets_no_signal() {
        let mut other = Command::new("sleep").arg("600").spawn().unwrap();
        let process = ProcessUsage::of(other.id()).unwrap();
        send(&ProcessUsage { started: process.started - 1, ..process }, signals::SIGKILL);
        assert_eq!(other.try_wait().unwrap(), None);
        // A root that ended before the search has no tree: its id may belong to another process.
        let mut child = Command::new("true").spawn().unwrap();
        let root = Rc::new(PidFd::open(child.id()).unwrap());
        child.wait().unwrap();
        let mut endings = PendingKills::default();
        endings.add(other.id(), root, Instant::now());
        endings.step_if_due(Instant::now());
        assert_eq!((other.try_wait().unwrap(), endings.due()), (None, None));
        // A process that was adopted is the same one.
        send(&ProcessUsage { parent: 1, ..process }, signals::SIGKILL);
        other.wait().unwrap();
    }
}
