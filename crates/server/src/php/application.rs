//! An application: one FIFO queue, and at most one instance (a prototype, its shared region and
//! its workers) that takes from it.
//!
//! Requests wait in private memory and move to the region's slots in order, as slots become
//! free; workers pull from there. A slot's key says which thread waits for it; the region's own
//! word about that is a hint that a worker could have changed, the key is not.

use std::collections::{HashMap, VecDeque};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use howdah_sys::clock;
use howdah_sys::futex;
use howdah_sys::packet;
use howdah_sys::shm::{self, Mapping};
use howdah_wire::messages::ToWorker;
use howdah_wire::queue::{Claim, Owner, Producer};
use howdah_wire::region::{Geometry, Region};

/// Which request of which thread: thread, generation and index of its state, never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key(u64);

impl Key {
    /// For a state of thread `thread` (below 64) at `index`, the `generation`th there.
    pub fn new(thread: u32, generation: u32, index: u32) -> Self {
        let generation = u64::from(generation & 0x00ff_ffff);
        Key(u64::from(thread + 1) << 56 | generation << 32 | u64::from(index))
    }

    /// The thread.
    pub fn thread(self) -> u32 {
        ((self.0 >> 56) as u32).wrapping_sub(1)
    }

    /// Index of the state.
    pub fn index(self) -> usize {
        self.0 as u32 as usize
    }
}

/// A running application's region and workers.
#[derive(Debug)]
pub struct Instance {
    /// Number that the supervisor knows it by.
    pub number: u32,
    /// Memory shared with the workers.
    pub region: Region<Mapping>,
    keys: Vec<AtomicU64>,
    eventfds: Vec<OwnedFd>,
    workers: Mutex<HashMap<Owner, Worker>>,
    worker_count: AtomicU32,
}

/// A worker that runs.
#[derive(Debug)]
pub struct Worker {
    /// Process id.
    pub pid: u32,
    /// The router's end of its socket.
    pub socket: OwnedFd,
}

impl Instance {
    /// Creates region and eventfds. Also returns the region's descriptor, for the supervisor.
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
        };
        Ok((instance, memory))
    }

    /// The eventfds, one per router thread.
    pub fn eventfds(&self) -> &[OwnedFd] {
        &self.eventfds
    }

    /// The request that a slot belongs to; `None` for a number that is no slot or a free one.
    pub fn key(&self, slot: u32) -> Option<Key> {
        let key = self.keys.get(slot as usize)?.load(Acquire);
        (key != 0).then_some(Key(key))
    }

    /// Slots and keys in use by a thread.
    pub fn slots_of(&self, thread: u32) -> impl Iterator<Item = (u32, Key)> {
        (0..self.keys.len() as u32)
            .filter_map(|slot| Some((slot, self.key(slot)?)))
            .filter(move |(_, key)| key.thread() == thread)
    }

    fn workers(&self) -> MutexGuard<'_, HashMap<Owner, Worker>> {
        self.workers.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// A worker has started.
    pub fn add_worker(&self, owner: Owner, worker: Worker) {
        let mut workers = self.workers();
        workers.insert(owner, worker);
        self.worker_count.store(workers.len() as u32, Relaxed);
    }

    /// A worker has ended.
    pub fn remove_worker(&self, owner: Owner) {
        let mut workers = self.workers();
        workers.remove(&owner);
        self.worker_count.store(workers.len() as u32, Relaxed);
    }

    /// Number of workers.
    pub fn worker_count(&self) -> u32 {
        self.worker_count.load(Relaxed)
    }

    /// Process id of a worker that runs.
    pub fn pid(&self, owner: Owner) -> Option<u32> {
        self.workers().get(&owner).map(|worker| worker.pid)
    }

    /// Whether some request is in this worker's hands.
    pub fn has_request(&self, worker: Owner) -> bool {
        let taken = |slot| match self.region.claim_of(slot) {
            Claim::Taken(_, owner) => owner == worker,
            _ => false,
        };
        (0..self.keys.len() as u32).any(|slot| self.key(slot).is_some() && taken(slot))
    }

    /// Whether this worker runs.
    pub fn has_worker(&self, owner: Owner) -> bool {
        self.workers().contains_key(&owner)
    }

    /// Sends a worker the descriptors that its request announced.
    pub fn send_descriptors(
        &self,
        owner: Owner,
        ticket: u32,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), NotSent> {
        let workers = self.workers();
        let worker = workers.get(&owner).ok_or(NotSent::Unknown)?;
        let message = ToWorker::Descriptors { ticket }.encode();
        packet::send(&worker.socket, &message, descriptors)
            .map_err(|error| NotSent::Failed(error.to_string()))
    }

    /// Takes back all requests that no worker has taken yet, the youngest first.
    fn take_back(&self) -> Vec<Waiting> {
        let mut found: Vec<(u32, Waiting)> = Vec::new();
        for slot in 0..self.keys.len() as u32 {
            let (Some(key), Claim::Queued(ticket)) = (self.key(slot), self.region.claim_of(slot))
            else {
                continue;
            };
            if self.region.cancel(slot, ticket) {
                let mut request = Vec::new();
                self.region.request(slot, &mut request);
                self.keys[slot as usize].store(0, Release);
                found.push((ticket, Waiting { key, request }));
            }
        }
        // Tickets wrap; what is in one ring lies within half of their range.
        found.sort_by(|(a, _), (b, _)| (b.wrapping_sub(*a) as i32).cmp(&0));
        found.into_iter().map(|(_, waiting)| waiting).collect()
    }

    /// Asks `count` workers to leave when they are idle.
    pub fn retire(&self, count: u32) {
        self.region.retire(u64::from(count));
        futex::wake(self.region.wake_word(), u32::MAX >> 1);
    }

    /// Asks all workers to leave when nothing is queued.
    pub fn close(&self) {
        self.region.close();
        futex::wake(self.region.wake_word(), u32::MAX >> 1);
    }
}

/// Why descriptors were not sent to a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotSent {
    /// There is no such worker, or its start has not been reported yet: a worker takes requests
    /// from the moment of its fork.
    Unknown,
    /// It does not take them.
    Failed(String),
}

/// Why a request was not queued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// The queue is at its limit.
    QueueFull,
    /// No worker was free for as long as a request may wait.
    WaitedTooLong,
    /// The application cannot run; why.
    Stopped(String),
}

/// Where a request was when it was withdrawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Withdrawn {
    /// No worker had it, and none will.
    Unstarted,
    /// A worker has it: which, and in which instance.
    Running(Arc<Instance>, Owner),
    /// It was over already.
    Over,
}

impl PartialEq for Instance {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}
impl Eq for Instance {}

/// What the pool is decided from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    /// Requests in slots: waiting right behind the workers or running.
    pub in_slots: u32,
    /// Requests in the queue.
    pub waiting: u32,
    /// Most requests that were in slots at the same time since this was last looked at.
    pub peak: u32,
    /// When a request was last there.
    pub last_request: Option<Instant>,
}

/// The queue of one application.
#[derive(Debug)]
pub struct Queue {
    limit: usize,
    asked: AtomicBool,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    waiting: VecDeque<Waiting>,
    serving: Option<Serving>,
    stopped: Option<String>,
    peak: u32,
    last_request: Option<Instant>,
}

#[derive(Debug)]
struct Serving {
    instance: Arc<Instance>,
    producer: Producer,
    in_slots: u32,
}

#[derive(Debug)]
struct Waiting {
    key: Key,
    request: Vec<u8>,
}

impl Queue {
    /// A queue that holds at most `limit` waiting requests; no instance yet.
    pub fn new(limit: usize) -> Self {
        let inner = Inner::default();
        Queue { limit, asked: AtomicBool::new(false), inner: Mutex::new(inner) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Queues an encoded request behind all others. Returns how many there are then, and how many
    /// workers.
    pub fn submit(&self, key: Key, request: Vec<u8>) -> Result<(u32, u32), Refused> {
        let mut inner = self.lock();
        if let Some(reason) = &inner.stopped {
            return Err(Refused::Stopped(reason.clone()));
        }
        let direct = inner.waiting.is_empty()
            && inner.serving.as_ref().is_some_and(|serving| serving.producer.has_slot());
        if !direct && inner.waiting.len() >= self.limit {
            return Err(Refused::QueueFull);
        }
        inner.waiting.push_back(Waiting { key, request });
        inner.feed();
        let workers = inner.serving.as_ref().map_or(0, |serving| serving.instance.worker_count());
        Ok((inner.in_slots() + inner.waiting.len() as u32, workers))
    }

    /// A slot's request is over: the next ones move up.
    pub fn release(&self, instance: &Arc<Instance>, slot: u32) {
        let mut inner = self.lock();
        inner.release(instance, slot);
        inner.feed();
    }

    /// Takes back a request that nobody waits for any more.
    pub fn withdraw(&self, key: Key) -> Withdrawn {
        let mut inner = self.lock();
        let before = inner.waiting.len();
        inner.waiting.retain(|waiting| waiting.key != key);
        if inner.waiting.len() < before {
            return Withdrawn::Unstarted;
        }
        let Some(serving) = &inner.serving else { return Withdrawn::Over };
        let instance = Arc::clone(&serving.instance);
        let found = instance.slots_of(key.thread()).find(|(_, found)| *found == key);
        let Some((slot, _)) = found else { return Withdrawn::Over };
        match instance.region.claim_of(slot) {
            Claim::Queued(ticket) if instance.region.cancel(slot, ticket) => {
                inner.release(&instance, slot);
                inner.feed();
                Withdrawn::Unstarted
            }
            // It was taken between the two looks, or the region says nonsense; the worker's end
            // settles either.
            _ => match instance.region.claim_of(slot) {
                Claim::Taken(_, owner) => {
                    if let Some(words) = instance.region.slot(slot) {
                        words.aborted.store(1, Release);
                    }
                    Withdrawn::Running(instance, owner)
                }
                _ => Withdrawn::Over,
            },
        }
    }

    /// When a worker took this request, in microseconds of the monotonic clock; `None` if none
    /// has it.
    pub fn started(&self, key: Key) -> Option<u64> {
        let inner = self.lock();
        let instance = &inner.serving.as_ref()?.instance;
        let (slot, _) = instance.slots_of(key.thread()).find(|(_, found)| *found == key)?;
        let Claim::Taken(..) = instance.region.claim_of(slot) else { return None };
        // A worker that has just taken it may not have written the time yet.
        let started = instance.region.slot(slot)?.started.load(Acquire);
        Some(if started == 0 { clock::monotonic_us() } else { started })
    }

    /// A thread's requests in the slots of an instance, and who has each. All as of one moment:
    /// none is on its way from the queue into a slot.
    pub fn claims_of(&self, instance: &Instance, thread: u32) -> Vec<(u32, Key, Claim)> {
        let _still = self.lock();
        let claim = |(slot, key)| (slot, key, instance.region.claim_of(slot));
        instance.slots_of(thread).map(claim).collect()
    }

    /// Exchanges the instance that takes from the queue; returns the old one, which finishes what
    /// its workers have. What they have not taken yet goes to the new one, in order.
    pub fn serve_from(&self, instance: Option<Arc<Instance>>) -> Option<Arc<Instance>> {
        let mut inner = self.lock();
        let new = instance.map(|instance| Serving {
            producer: Producer::new(&instance.region),
            instance,
            in_slots: 0,
        });
        if new.is_some() {
            inner.stopped = None;
        }
        let old = std::mem::replace(&mut inner.serving, new).map(|serving| serving.instance);
        if let Some(old) = &old {
            for waiting in old.take_back() {
                inner.waiting.push_front(waiting);
            }
        }
        inner.feed();
        old
    }

    /// The application cannot run: waiting requests, whose keys are returned, have failed, and
    /// new ones are refused until there is an instance again.
    pub fn stop(&self, reason: &str) -> Vec<Key> {
        let mut inner = self.lock();
        inner.stopped = Some(reason.to_owned());
        inner.waiting.drain(..).map(|waiting| waiting.key).collect()
    }

    /// Requests may wait again for an application that could not run.
    pub fn resume(&self) {
        self.lock().stopped = None;
    }

    /// The instance that takes from the queue.
    pub fn instance(&self) -> Option<Arc<Instance>> {
        self.lock().serving.as_ref().map(|serving| Arc::clone(&serving.instance))
    }

    /// How much there is to do.
    pub fn load(&self) -> Load {
        self.lock().load()
    }

    /// As [`Queue::load`], for whoever decides the number of workers: the peak is counted anew,
    /// and threads may ask for more workers again.
    pub fn take_load(&self) -> Load {
        self.asked.store(false, SeqCst);
        let mut inner = self.lock();
        let load = inner.load();
        inner.peak = 0;
        load
    }

    /// Whether nobody has asked for more workers since the last decision; then the caller does.
    pub fn may_ask(&self) -> bool {
        !self.asked.swap(true, SeqCst)
    }
}

impl Inner {
    fn load(&self) -> Load {
        Load {
            in_slots: self.in_slots(),
            waiting: self.waiting.len() as u32,
            peak: self.peak.max(self.in_slots()),
            last_request: self.last_request,
        }
    }

    fn in_slots(&self) -> u32 {
        self.serving.as_ref().map_or(0, |serving| serving.in_slots)
    }

    /// Moves waiting requests into free slots, the oldest first.
    fn feed(&mut self) {
        let Some(serving) = &mut self.serving else { return };
        let region = &serving.instance.region;
        let mut wake = 0;
        while let Some(next) = self.waiting.front() {
            let Some(slot) = serving.producer.take_slot() else { break };
            let staged = region.stage(slot, next.key.thread(), &next.request);
            debug_assert!(staged, "requests are built to fit");
            serving.instance.keys[slot as usize].store(next.key.0, Release);
            match serving.producer.publish(region, slot) {
                Ok((_, sleeping)) => wake += u32::from(sleeping),
                Err(_) => {
                    serving.instance.keys[slot as usize].store(0, Release);
                    serving.producer.release(region, slot);
                    break;
                }
            }
            serving.in_slots += 1;
            self.peak = self.peak.max(serving.in_slots);
            self.waiting.pop_front();
        }
        if wake > 0 {
            futex::wake(region.wake_word(), wake);
        }
    }

    fn release(&mut self, instance: &Arc<Instance>, slot: u32) {
        let Some(key) = instance.keys.get(slot as usize) else { return };
        if key.swap(0, AcqRel) == 0 {
            return;
        }
        if let Some(serving) = &mut self.serving
            && Arc::ptr_eq(&serving.instance, instance)
        {
            serving.producer.release(&instance.region, slot);
            serving.in_slots -= 1;
            self.last_request = Some(Instant::now());
        }
    }
}
