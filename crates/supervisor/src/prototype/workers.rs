//! The workers of an application: each is asked for, starts, and dies, in this order and once.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Instant;

use howdah_sys::family;
use howdah_sys::pidfd::PidFd;
use howdah_wire::queue::Owner;
use rustix::io::Errno;

/// Workers by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Workers {
    all: BTreeMap<u16, Worker>,
    incarnations: BTreeMap<u16, u16>,
}

/// A worker from the moment that the router wants it.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) owner: Owner,
    pub(crate) state: State,
    /// It is to be killed once it is known which process it is.
    pub(crate) is_doomed: bool,
}

/// How far a worker is.
#[derive(Debug)]
pub(crate) enum State {
    /// Its prototype has other workers to start first.
    Waiting,
    /// Its prototype was asked for it. Here is what the router gets once it runs.
    Asked(Ends),
    /// It runs, or has ended and its prototype has not said so yet.
    Started(Process),
}

/// The router's ends of what a worker has. They never go through the prototype's hands, so that it
/// cannot give the router something else in their place.
#[derive(Debug)]
pub(crate) struct Ends {
    /// Of its socket.
    pub(crate) socket: OwnedFd,
    /// Of the pipe of its standard output and error; `None` if both are files.
    pub(crate) output: Option<OwnedFd>,
}

/// The process of a worker.
#[derive(Debug)]
pub(crate) struct Process {
    /// Process id; 0 if it had ended before it could be looked up.
    pub(crate) pid: u32,
    /// The process, if the kernel has confirmed that it is a child of the prototype. Without, it gets
    /// no signal but through the prototype.
    pub(crate) handle: Option<Rc<PidFd>>,
    /// The kernel has told its end; how it ended, the prototype is still to say.
    pub(crate) has_ended: bool,
    /// It has been stopped and is killed at this time, or once its prototype has read where its
    /// script is.
    pub(crate) kill_at: Option<Instant>,
}

impl Workers {
    /// Reserves the lowest free number; `None` if there are too many workers.
    pub(crate) fn reserve(&mut self) -> Option<Owner> {
        let index = (0..Owner::LIMIT).find(|index| !self.all.contains_key(index))?;
        let incarnation = self.incarnations.entry(index).or_default();
        *incarnation = incarnation.wrapping_add(1);
        let owner = Owner { index, incarnation: *incarnation };
        self.all.insert(index, Worker { owner, state: State::Waiting, is_doomed: false });
        Some(owner)
    }

    /// The worker, if it is the one that has this number now.
    pub(crate) fn get(&mut self, owner: Owner) -> Option<&mut Worker> {
        self.all.get_mut(&owner.index).filter(|worker| worker.owner == owner)
    }

    /// The process of a worker that has started.
    pub(crate) fn process(&mut self, owner: Owner) -> Option<&mut Process> {
        match &mut self.get(owner)?.state {
            State::Started(process) => Some(process),
            _ => None,
        }
    }

    /// Frees the number of a worker.
    pub(crate) fn release(&mut self, owner: Owner) {
        if self.get(owner).is_some() {
            self.all.remove(&owner.index);
        }
    }

    /// All whose processes are known.
    pub(crate) fn processes(&self) -> impl Iterator<Item = (Owner, &Process)> {
        self.all.values().filter_map(|worker| match &worker.state {
            State::Started(process) => Some((worker.owner, process)),
            _ => None,
        })
    }

    /// As [`Workers::processes`].
    pub(crate) fn processes_mut(&mut self) -> impl Iterator<Item = (Owner, &mut Process)> {
        self.all.values_mut().filter_map(|worker| match &mut worker.state {
            State::Started(process) => Some((worker.owner, process)),
            _ => None,
        })
    }

    /// Returns true if there is no worker, not even one that was only asked for.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

/// What the kernel says of a process that a prototype calls a worker.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// It is a child of the prototype, with this id.
    Child(u32, PidFd),
    /// There is no such process any more.
    Ended,
    /// It is none of the prototype's children.
    Stranger,
    /// The kernel does not say: there is no /proc, or it hides processes, or there are no
    /// descriptors for processes.
    Unknown,
}

/// Looks up a process that a prototype has named. In a process namespace of its own (`hides`) the
/// prototype knows its children by other ids.
pub(crate) fn look_up(prototype: u32, named: u32, hides: bool) -> Verdict {
    if family::parent_of(prototype).is_none() {
        return Verdict::Unknown;
    }
    let pid = if hides { family::child_known_as(prototype, named) } else { Some(named) };
    let Some(pid) = pid else { return Verdict::Ended };
    let handle = match PidFd::open(pid) {
        Ok(handle) => handle,
        Err(Errno::SRCH) if pid != 0 => return Verdict::Ended,
        // A thread that is no process.
        Err(Errno::SRCH | Errno::INVAL) => return Verdict::Stranger,
        Err(_) => return Verdict::Unknown,
    };
    // Only now: what the descriptor means has had this id all the time since.
    match family::parent_of(pid) {
        Some(parent) if parent == prototype => Verdict::Child(pid, handle),
        None if handle.has_ended() => Verdict::Ended,
        None => Verdict::Unknown,
        Some(_) => Verdict::Stranger,
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

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
            matches!(look_up(own, child.id(), false), Verdict::Child(pid, _) if pid == child.id())
        );
        assert!(matches!(look_up(child.id(), own, false), Verdict::Stranger));
        assert!(matches!(look_up(own, 1, false), Verdict::Stranger));
        assert!(matches!(look_up(own, 0, false), Verdict::Stranger));
        child.kill().unwrap();
        let ended = || look_up(own, child.id(), false);
        while !matches!(ended(), Verdict::Child(_, handle) if handle.has_ended()) {}
        child.wait().unwrap();
        assert!(matches!(look_up(own, child.id(), false), Verdict::Ended));
        assert!(matches!(look_up(child.id(), own, false), Verdict::Unknown), "no such prototype");
    }
}
