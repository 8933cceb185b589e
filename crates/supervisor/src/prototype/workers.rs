//! The workers of an application. Each is queued, requested, started and reaped, in this order.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Instant;

use howdah_sys::pidfd::PidFd;
use howdah_sys::process_tree;
use howdah_wire::queue::WorkerId;
use rustix::io::Errno;

/// Workers by index.
#[derive(Debug, Default)]
pub(crate) struct Workers {
    all: BTreeMap<u16, Worker>,
    incarnations: BTreeMap<u16, u16>,
}

/// A worker, from the router's request until its process is reaped.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) owner: WorkerId,
    pub(crate) state: State,
    /// True if the worker must be killed as soon as its process is known.
    pub(crate) kill_on_start: bool,
}

/// The states of a worker.
#[derive(Debug)]
pub(crate) enum State {
    /// The prototype has other workers to start first.
    Queued,
    /// Requested from the prototype. Holds the descriptors that the router gets once the worker
    /// runs.
    Requested(RouterEnds),
    /// The process runs, or it has ended and the prototype has not reported its exit status.
    Running(Process),
}

/// The router's ends of a worker's socket and pipe. The prototype never has them, so that it cannot
/// give the router other descriptors in their place.
#[derive(Debug)]
pub(crate) struct RouterEnds {
    /// The router's end of the worker's socket.
    pub(crate) socket: OwnedFd,
    /// The reading ends of the pipes of its standard output and error, as in
    /// [`FromSupervisor::Started`](howdah_wire::messages::FromSupervisor::Started).
    pub(crate) outputs: Vec<OwnedFd>,
}

/// The process of a worker.
#[derive(Debug)]
pub(crate) struct Process {
    /// Process id; 0 if it had ended before it could be looked up.
    pub(crate) pid: u32,
    /// The process, if the kernel has confirmed that it is a child of the prototype. Otherwise
    /// signals are sent by the prototype.
    pub(crate) handle: Option<Rc<PidFd>>,
    /// The kernel has reported the end; the prototype has not reported the exit status.
    pub(crate) has_ended: bool,
    /// Time at which a stopped process is killed, even if its prototype has not traced it by then.
    pub(crate) kill_at: Option<Instant>,
}

impl Workers {
    /// Adds a worker with the lowest free index; `None` if there are too many workers.
    pub(crate) fn reserve(&mut self) -> Option<WorkerId> {
        let index = (0..WorkerId::LIMIT).find(|index| !self.all.contains_key(index))?;
        let incarnation = self.incarnations.entry(index).or_default();
        *incarnation = incarnation.wrapping_add(1);
        let owner = WorkerId { index, incarnation: *incarnation };
        self.all.insert(index, Worker { owner, state: State::Queued, kill_on_start: false });
        Some(owner)
    }

    /// Returns the worker with this index and incarnation.
    pub(crate) fn get(&mut self, owner: WorkerId) -> Option<&mut Worker> {
        self.all.get_mut(&owner.index).filter(|worker| worker.owner == owner)
    }

    /// Returns the process of a worker that has started.
    pub(crate) fn process(&mut self, owner: WorkerId) -> Option<&mut Process> {
        match &mut self.get(owner)?.state {
            State::Running(process) => Some(process),
            _ => None,
        }
    }

    /// Removes a worker and frees its index.
    pub(crate) fn release(&mut self, owner: WorkerId) {
        if self.get(owner).is_some() {
            self.all.remove(&owner.index);
        }
    }

    /// Returns the workers whose processes are known.
    pub(crate) fn processes(&self) -> impl Iterator<Item = (WorkerId, &Process)> {
        self.all.values().filter_map(|worker| match &worker.state {
            State::Running(process) => Some((worker.owner, process)),
            _ => None,
        })
    }

    /// Returns the workers whose processes are known, to be changed.
    pub(crate) fn processes_mut(&mut self) -> impl Iterator<Item = (WorkerId, &mut Process)> {
        self.all.values_mut().filter_map(|worker| match &mut worker.state {
            State::Running(process) => Some((worker.owner, process)),
            _ => None,
        })
    }

    /// Returns true if there is no worker, not even a queued one.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

/// The kernel's answer about a process that a prototype reports as a worker.
#[derive(Debug)]
pub(crate) enum Lookup {
    /// A child of the prototype, with this process id.
    Child(u32, PidFd),
    /// The process has ended.
    Ended,
    /// Not a child of the prototype.
    NotAChild,
    /// The kernel does not say: /proc is missing or hides processes, or the kernel has no process
    /// descriptors.
    Unknown,
}

/// Looks up a process by the id that a prototype has reported. With `has_pid_namespace` that is an
/// id of the prototype's own process namespace.
pub(crate) fn look_up(prototype: u32, named: u32, has_pid_namespace: bool) -> Lookup {
    if process_tree::parent_of(prototype).is_none() {
        return Lookup::Unknown;
    }
    let pid = if has_pid_namespace {
        process_tree::child_known_as(prototype, named)
    } else {
        Some(named)
    };
    let Some(pid) = pid else { return Lookup::Ended };
    let handle = match PidFd::open(pid) {
        Ok(handle) => handle,
        Err(Errno::SRCH) if pid != 0 => return Lookup::Ended,
        Err(Errno::SRCH) => return Lookup::NotAChild,
        // The id of a thread that is not the first of its process, or a process that is being
        // reaped, which has left /proc.
        Err(Errno::INVAL) if process_tree::parent_of(pid).is_none() => return Lookup::Ended,
        Err(Errno::INVAL) => return Lookup::NotAChild,
        Err(_) => return Lookup::Unknown,
    };
    // Checked after the descriptor was opened: since then the id belongs to this process.
    match process_tree::parent_of(pid) {
        Some(parent) if parent == prototype => Lookup::Child(pid, handle),
        // While a process is being reaped, its parent is 0. Whose child one was that has ended does
        // not matter: no signal is sent to it.
        _ if handle.has_ended() => Lookup::Ended,
        None => Lookup::Unknown,
        Some(_) => Lookup::NotAChild,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_number_is_used_again_only_with_another_incarnation() {
        let mut workers = Workers::default();
        let first = workers.reserve().unwrap();
        assert_eq!(workers.reserve().unwrap().index, 1);
        workers.release(first);
        let again = workers.reserve().unwrap();
        assert_eq!(again.index, first.index);
        assert_ne!(again.incarnation, first.incarnation);
        workers.release(first);
        assert!(workers.get(again).is_some(), "the old cannot end the new one");
    }

    #[test]
    fn only_children_of_the_prototype_are_its_workers() {
        let own = std::process::id();
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        assert!(
            matches!(look_up(own, child.id(), false), Lookup::Child(pid, _) if pid == child.id())
        );
        assert!(matches!(look_up(child.id(), own, false), Lookup::NotAChild));
        assert!(matches!(look_up(own, 1, false), Lookup::NotAChild));
        assert!(matches!(look_up(own, 0, false), Lookup::NotAChild));
        child.kill().unwrap();
        let ended = || look_up(own, child.id(), false);
        while !matches!(ended(), Lookup::Child(_, handle) if handle.has_ended()) {}
        child.wait().unwrap();
        assert!(matches!(look_up(own, child.id(), false), Lookup::Ended));
        assert!(matches!(look_up(child.id(), own, false), Lookup::Unknown), "no such prototype");
    }

    /// A worker that ends after one request may be reaped while it is looked up. Another program
    /// starts the processes, which would otherwise have the sockets of tests that run at the same
    /// time for a moment.
    #[test]
    fn a_child_that_is_being_reaped_is_no_stranger() {
        let script = "i=0; while [ $i -lt 1000 ]; do env true & echo $!; wait; i=$((i + 1)); done";
        let mut shell = Command::new("sh");
        let mut shell = shell.args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        let pids = BufReader::new(shell.stdout.take().unwrap()).lines();
        for pid in pids.map(|line| line.unwrap().parse().unwrap()) {
            let found = loop {
                match look_up(shell.id(), pid, false) {
                    Lookup::Child(..) => {}
                    found => break found,
                }
            };
            assert!(matches!(found, Lookup::Ended), "{found:?}");
        }
        assert!(shell.wait().unwrap().success());
    }
}
