//! An instance of an application: a prototype, the region shared with the router, and its workers.

use std::collections::HashMap;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};
use std::sync::{Arc, Mutex, MutexGuard};

use howdah_sys::shm::{self, Mapping};
use howdah_sys::{clock, futex, packet};
use howdah_wire::messages::ToWorker;
use howdah_wire::queue::{Claim, WorkerId};
use howdah_wire::region::{Geometry, Region};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::last_messages::LastMessages;
use super::request::RequestKey;
use super::status::LastRequest;
use super::worker_output::Output;

/// Region and workers of a running application.
#[derive(Debug)]
pub struct Instance {
    /// Number of the instance at the supervisor.
    pub number: u32,
    /// Memory shared with the workers.
    pub region: Region<Mapping>,
    pub(super) keys: Vec<AtomicU64>,
    eventfds: Vec<OwnedFd>,
    workers: Mutex<HashMap<WorkerId, Worker>>,
    worker_count: AtomicU32,
    /// All workers were told to exit.
    pub(super) closed: AtomicBool,
}

/// A running worker.
#[derive(Debug)]
pub struct Worker {
    /// Process id.
    pub pid: u32,
    /// Router's end of the worker's socket.
    pub socket: Arc<OwnedFd>,
    /// Start of the worker, in seconds since 1970.
    pub since: u64,
    /// Number of the worker's requests, and the last one.
    pub last: LastRequest,
    /// Standard output and error of the worker; `None` if both are files.
    pub output: Option<Arc<Output>>,
    /// The last messages of PHP.
    messages: LastMessages,
}

impl Worker {
    /// Creates a worker that starts now.
    pub fn new(pid: u32, socket: OwnedFd, output: Option<Arc<Output>>) -> Self {
        Worker {
            pid,
            socket: Arc::new(socket),
            since: clock::wall_seconds(),
            last: LastRequest::default(),
            output,
            messages: LastMessages::default(),
        }
    }
}

impl Instance {
    /// Creates the region and the eventfds. Also returns the region's descriptor, for the
    /// supervisor.
    pub fn create(number: u32, geometry: Geometry) -> std::io::Result<(Self, OwnedFd)> {
        let memory = shm::create("howdah-region", geometry.region_bytes())?;
        let mapping = Mapping::map(&memory)?;
        let region = Region::new(mapping, geometry)
            .ok_or_else(|| std::io::Error::other("the region is smaller than asked for"))?;
        let eventfd = || {
            rustix::event::eventfd(
                0,
                rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK,
            )
        };
        let instance = Instance {
            number,
            region,
            keys: (0..geometry.slots).map(|_| AtomicU64::new(0)).collect(),
            eventfds: (0..geometry.threads).map(|_| eventfd()).collect::<Result<_, _>>()?,
            workers: Mutex::default(),
            worker_count: AtomicU32::new(0),
            closed: AtomicBool::new(false),
        };
        Ok((instance, memory))
    }

    /// Returns the eventfds, one per router thread.
    pub fn eventfds(&self) -> &[OwnedFd] {
        &self.eventfds
    }

    /// Returns true if the counter of an eventfd is full. Only a hostile worker fills one; if it
    /// has also made the eventfd blocking, workers that wake the thread wait forever.
    pub fn has_full_eventfd(&self) -> bool {
        let interest = |event| PollFd::new(event, PollFlags::OUT);
        let mut events: Vec<_> = self.eventfds.iter().map(interest).collect();
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut events, Some(&at_once)).is_ok_and(|writable| writable < events.len())
    }

    /// Returns the request of a slot; `None` for a free slot or an invalid number.
    pub fn key(&self, slot: u32) -> Option<RequestKey> {
        let key = self.keys.get(slot as usize)?.load(Acquire);
        (key != 0).then_some(RequestKey(key))
    }

    /// Returns the slots in use by a thread, with their keys.
    pub fn slots_of(&self, thread: u32) -> impl Iterator<Item = (u32, RequestKey)> {
        (0..self.keys.len() as u32)
            .filter_map(|slot| Some((slot, self.key(slot)?)))
            .filter(move |(_, key)| key.thread() == thread)
    }

    pub(super) fn workers(&self) -> MutexGuard<'_, HashMap<WorkerId, Worker>> {
        self.workers.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Adds a worker that has started.
    pub fn add_worker(&self, owner: WorkerId, worker: Worker) {
        let mut workers = self.workers();
        workers.insert(owner, worker);
        self.worker_count.store(workers.len() as u32, Relaxed);
    }

    /// Remembers a message of PHP for the record of a crash.
    pub(super) fn note_message(&self, owner: WorkerId, request: RequestKey, message: &str) {
        if let Some(worker) = self.workers().get_mut(&owner) {
            worker.messages.note(request, message);
        }
    }

    /// Removes a worker that has ended, and logs the rest of its output. Returns what is known
    /// about its crash: the last messages of PHP, and its own report.
    pub fn remove_worker(&self, owner: WorkerId) -> String {
        let mut workers = self.workers();
        let worker = workers.remove(&owner);
        self.worker_count.store(workers.len() as u32, Relaxed);
        drop(workers);
        let Some(worker) = worker else { return String::new() };
        let mut details = worker.messages.to_string();
        if let Some(report) = worker.output.and_then(|output| output.end()) {
            details.push('\n');
            details.push_str(&report);
        }
        details
    }

    /// Removes all workers.
    pub fn remove_workers(&self) {
        let workers: Vec<_> = self.workers().keys().copied().collect();
        workers.into_iter().for_each(|worker| drop(self.remove_worker(worker)));
    }

    /// Returns the output of a worker. Error: there is no such worker, or its start has not been
    /// reported.
    pub(super) fn output(&self, owner: WorkerId) -> Result<Option<Arc<Output>>, NotSent> {
        self.workers().get(&owner).map(|worker| worker.output.clone()).ok_or(NotSent::Unknown)
    }

    /// Returns the number of workers.
    pub fn worker_count(&self) -> u32 {
        self.worker_count.load(Relaxed)
    }

    /// Returns the process ids of its workers.
    pub fn pids(&self) -> Vec<u32> {
        self.workers().values().map(|worker| worker.pid).collect()
    }

    /// Returns the process id of a running worker.
    pub fn pid(&self, owner: WorkerId) -> Option<u32> {
        self.workers().get(&owner).map(|worker| worker.pid)
    }

    /// Returns true if this worker has a request.
    pub fn has_request(&self, worker: WorkerId) -> bool {
        let taken = |slot| match self.region.claim_of(slot) {
            Claim::Taken(_, owner) => owner == worker,
            _ => false,
        };
        (0..self.keys.len() as u32).any(|slot| self.key(slot).is_some() && taken(slot))
    }

    /// Returns true if this worker has a request or had one.
    pub fn has_served(&self, worker: WorkerId) -> bool {
        let ended_one = |worker: &Worker| worker.last.requests() > 0;
        self.workers().get(&worker).is_some_and(ended_one) || self.has_request(worker)
    }

    /// Returns true if any slot has a request.
    pub fn has_requests(&self) -> bool {
        self.keys.iter().any(|key| key.load(Acquire) != 0)
    }

    /// Returns true if this worker runs.
    pub fn has_worker(&self, owner: WorkerId) -> bool {
        self.workers().contains_key(&owner)
    }

    /// Sends a worker a message with descriptors. Never blocks: if the worker does not read its
    /// messages and its socket is full, the message is not sent.
    pub fn send(
        &self,
        owner: WorkerId,
        message: &ToWorker,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), NotSent> {
        // The lock is not held during the system call.
        let socket = self.workers().get(&owner).map(|worker| Arc::clone(&worker.socket));
        packet::send(socket.ok_or(NotSent::Unknown)?, &message.encode(), descriptors)
            .map_err(|error| NotSent::Failed(error.to_string()))
    }

    /// Wakes all sleeping workers, and returns them.
    pub fn call_all(&self) -> Vec<WorkerId> {
        let slept = self.region.call_all();
        futex::wake(self.region.wake_word(), u32::MAX >> 1);
        let has_slept = |worker: &WorkerId| {
            let word = slept.get(usize::from(worker.index / 64)).unwrap_or(&0);
            word & 1 << (worker.index % 64) != 0
        };
        self.workers().keys().copied().filter(has_slept).collect()
    }

    /// Returns the number of requests that this worker has ended; `None` if it does not run.
    pub fn requests_of(&self, worker: WorkerId) -> Option<u64> {
        self.workers().get(&worker).map(|worker| worker.last.requests())
    }

    /// Tells `count` workers to exit when they are idle.
    pub fn retire(&self, count: u32) {
        self.region.retire(u64::from(count));
        futex::wake(self.region.wake_word(), u32::MAX >> 1);
    }

    /// Cancels the retirement of workers that have not ended yet: more are needed.
    pub fn cancel_retirement(&self) {
        self.region.cancel_retirement();
    }

    /// Tells `count` workers to exit before their next request, even if requests wait.
    pub fn shed(&self, count: u32) {
        self.region.retire_now(u64::from(count));
        if count > 0 {
            futex::wake(self.region.wake_word(), u32::MAX >> 1);
        }
    }

    /// Tells all workers to exit when the queue is empty.
    pub fn close(&self) {
        self.closed.store(true, Release);
        self.region.close();
        futex::wake(self.region.wake_word(), u32::MAX >> 1);
    }
}

/// Reason why a message was not sent to a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotSent {
    /// There is no such worker, or its start has not been reported yet: a worker takes requests as
    /// soon as it is forked.
    Unknown,
    /// The worker does not read its messages, or the socket is broken.
    Failed(String),
}

impl PartialEq for Instance {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}
impl Eq for Instance {}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_full_eventfd_is_noticed() {
        let (instance, _memory) = Instance::create(1, Geometry::for_pool(2, 3)).unwrap();
        let add = |count: u64| rustix::io::write(&instance.eventfds()[1], &count.to_ne_bytes());
        add(1).unwrap();
        assert!(!instance.has_full_eventfd());
        add(u64::MAX - 2).unwrap();
        assert!(instance.has_full_eventfd());
    }

    #[test]
    fn a_worker_that_reads_nothing_keeps_nobody_waiting_though_its_socket_blocks() {
        let (instance, _memory) = Instance::create(1, Geometry::for_pool(1, 1)).unwrap();
        let owner = WorkerId { index: 0, incarnation: 1 };
        let (ours, _theirs) = packet::pair().unwrap();
        rustix::fs::fcntl_setfl(&ours, rustix::fs::OFlags::empty()).unwrap();
        instance.add_worker(owner, Worker::new(7, ours, None));
        let (told, heard) = mpsc::channel();
        std::thread::spawn(move || {
            let send = |_| instance.send(owner, &ToWorker::OutputTaken { ticket: 1 }, &[]).err();
            let _ = told.send((0..1_000_000).find_map(send));
        });
        let failed = heard.recv_timeout(Duration::from_secs(30)).expect("it does not wait");
        assert!(matches!(failed, Some(NotSent::Failed(_))), "{failed:?}");
    }
}
