//! An application: one FIFO queue, and at most one [`Instance`] that takes from it.
//!
//! Requests wait in private memory and move to the region's slots in order, as slots become
//! free; workers pull from there. A slot's key says which thread waits for it; the region's own
//! word about that is a hint that a worker could have changed, the key is not.

use std::collections::{HashMap, VecDeque};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use howdah_sys::log_rate::LogRate;
use howdah_sys::{clock, futex};
use howdah_wire::frame::Done;
use howdah_wire::queue::{Call, Claim, Owner, Producer};

pub use super::instance::{Instance, Key, NotSent, Worker};
use super::output::Output;
use super::status::{About, Counts, PoolStatus, ProcessStatus, Slow, Times};
use super::thread::RequestContext;

/// Requests that lie in slots however few workers there are.
const ALWAYS_IN_SLOTS: u32 = 16;

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
    /// Requests that were in slots since the start and are over.
    pub served: u64,
}

/// The queue of one application.
#[derive(Debug)]
pub struct Queue {
    limit: usize,
    asked: AtomicBool,
    most: AtomicU32,
    /// What its workers write to the log.
    pub log_rate: LogRate,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    waiting: VecDeque<Waiting>,
    serving: Option<Serving>,
    /// Served before, and have requests in hand that are not over.
    retired: Vec<Serving>,
    stopped: Option<String>,
    peak: u32,
    last_request: Option<Instant>,
    served: u64,
    counts: Counts,
    /// A worker of this instance must be woken.
    wake: Option<(Arc<Instance>, Call)>,
}

/// The inner queue for as long as this thread has it. Whoever is to be woken is woken afterwards:
/// nobody waits for that system call.
struct Locked<'a>(Option<MutexGuard<'a, Inner>>);

impl Deref for Locked<'_> {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        self.0.as_ref().expect("held until it is dropped")
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut Inner {
        self.0.as_mut().expect("held until it is dropped")
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        let wake = self.wake.take();
        self.0 = None;
        if let Some((instance, call)) = wake {
            futex::wake_in(instance.region.wake_word(), call.wake_set());
        }
    }
}

#[derive(Debug)]
struct Serving {
    instance: Arc<Instance>,
    producer: Producer,
    in_slots: u32,
    /// What is known of the request in each slot.
    abouts: Vec<Option<About>>,
}

#[derive(Debug)]
struct Waiting {
    key: Key,
    request: Vec<u8>,
    about: About,
}

impl Queue {
    /// A queue that holds at most `limit` waiting requests; no instance yet.
    pub fn new(limit: usize) -> Self {
        let counts = Counts::new(clock::wall_seconds());
        let inner = Inner { counts, ..Inner::default() };
        let (asked, most) = (AtomicBool::new(false), AtomicU32::new(u32::MAX));
        Queue { limit, asked, most, log_rate: LogRate::default(), inner: Mutex::new(inner) }
    }

    fn lock(&self) -> Locked<'_> {
        Locked(Some(self.inner.lock().unwrap_or_else(|e| e.into_inner())))
    }

    /// Queues an encoded request behind all others. Returns how many there are then, and how many
    /// workers.
    pub fn submit(
        &self,
        key: Key,
        request: Vec<u8>,
        context: Arc<RequestContext>,
    ) -> Result<(u32, u32), Refused> {
        let mut inner = self.lock();
        if let Some(reason) = &inner.stopped {
            return Err(Refused::Stopped(reason.clone()));
        }
        let direct =
            inner.waiting.is_empty() && inner.serving.as_ref().is_some_and(Serving::has_room);
        if !direct && inner.waiting.len() >= self.limit {
            return Err(Refused::QueueFull);
        }
        let about = About { context, queued: clock::monotonic_us(), told: false };
        inner.waiting.push_back(Waiting { key, request, about });
        inner.feed();
        let workers = inner.serving.as_ref().map_or(0, |serving| serving.instance.worker_count());
        let requests = inner.in_slots() + inner.waiting.len() as u32;
        inner.counts.submitted(requests, workers);
        Ok((requests, workers))
    }

    /// A worker has ended a slot's request: the next ones move up. Returns the worker's output if
    /// something of it has not been logged.
    pub fn finish(&self, instance: &Arc<Instance>, slot: u32, done: Done) -> Option<Arc<Output>> {
        let mut output = None;
        let claim = instance.region.claim_of(slot);
        let started = instance.region.slot(slot).map_or(0, |words| words.started.load(Acquire));
        let mut inner = self.lock();
        if let Some(about) = inner.release(instance, slot)
            && let Claim::Taken(_, owner) = claim
        {
            let times = about.times(started, clock::monotonic_us());
            inner.counts.finished(times, done);
            if let Some(worker) = instance.workers().get_mut(&owner) {
                worker.last.set(&about.context, times, done);
                output = worker.output.as_ref().filter(|output| output.is_unlogged()).cloned();
            }
        }
        inner.feed();
        output
    }

    /// A slot's request is over without an end: the next ones move up.
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
        let Some((serving, slot)) = inner.find(key) else { return Withdrawn::Over };
        let instance = Arc::clone(&serving.instance);
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

    /// How long this request has waited and run; `None` if no worker has it.
    pub fn times(&self, key: Key) -> Option<Times> {
        let inner = self.lock();
        let (serving, slot) = inner.find(key)?;
        serving.running(slot, clock::monotonic_us()).map(|(_, _, times)| times)
    }

    /// The request that a worker has; if another one has not been settled yet, the later one.
    pub(super) fn request_of(
        &self,
        instance: &Arc<Instance>,
        worker: Owner,
    ) -> Option<(Key, Arc<RequestContext>)> {
        let inner = self.lock();
        let mut all = inner.serving.iter().chain(&inner.retired);
        let serving = all.find(|serving| Arc::ptr_eq(&serving.instance, instance))?;
        let mut latest: Option<(u32, Key, &About)> = None;
        for (slot, about) in (0..).zip(&serving.abouts) {
            if let (Some(about), Some(key), Claim::Taken(ticket, owner)) =
                (about, instance.key(slot), instance.region.claim_of(slot))
                && owner == worker
                // Tickets wrap; what is in one ring lies within half of their range.
                && latest.is_none_or(|(known, ..)| ticket.wrapping_sub(known) as i32 > 0)
            {
                latest = Some((ticket, key, about));
            }
        }
        latest.map(|(_, key, about)| (key, Arc::clone(&about.context)))
    }

    /// How many requests have run for at least this.
    pub fn longer_than(&self, least: Duration) -> u32 {
        let (inner, now) = (self.lock(), clock::monotonic_us());
        let Some(serving) = &inner.serving else { return 0 };
        let running = (0..).zip(&serving.abouts).filter_map(|(slot, _)| serving.running(slot, now));
        running.filter(|(_, _, times)| u128::from(times.ran) >= least.as_micros()).count() as u32
    }

    /// Requests that have run for longer than this, in microseconds, and were not told before.
    pub fn slow(&self, limit: u64) -> Vec<Slow> {
        let mut inner = self.lock();
        let (now, mut found) = (clock::monotonic_us(), Vec::new());
        let Inner { serving, retired, counts, .. } = &mut *inner;
        for serving in serving.iter_mut().chain(retired) {
            for slot in 0..serving.abouts.len() as u32 {
                let Some((worker, about, times)) = serving.running(slot, now) else { continue };
                if about.told || times.ran < limit {
                    continue;
                }
                let (instance, context) = (serving.instance.number, Arc::clone(&about.context));
                let pid = serving.instance.pid(worker).unwrap_or(0);
                found.push(Slow { instance, worker, pid, context, times });
                counts.slow += 1;
                if let Some(about) = &mut serving.abouts[slot as usize] {
                    about.told = true;
                }
            }
        }
        found
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
            abouts: instance.keys.iter().map(|_| None).collect(),
            instance,
            in_slots: 0,
        });
        if new.is_some() {
            inner.stopped = None;
        }
        let mut old = std::mem::replace(&mut inner.serving, new);
        for waiting in old.iter_mut().flat_map(Serving::take_back) {
            inner.waiting.push_front(waiting);
        }
        inner.feed();
        let instance = old.as_ref().map(|old| Arc::clone(&old.instance));
        inner.retired.extend(old.filter(|old| old.in_slots > 0));
        instance
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

    /// What workers have damaged in the memory that they share; `None` if nothing.
    pub fn damage(&self) -> Option<&'static str> {
        let inner = self.lock();
        let serving = inner.serving.as_ref()?;
        let (instance, producer) = (&serving.instance, &serving.producer);
        if instance.region.is_closing() && !instance.closed.load(Acquire) {
            return Some("whether workers shall leave");
        }
        producer.damage(&instance.region)
    }

    /// At most so many workers are going to serve, and what decides their number.
    pub fn set_most(&self, most: u32, manager: &'static str) {
        self.most.store(most, Relaxed);
        let counts = &mut self.lock().counts;
        (counts.most, counts.manager) = (most, manager);
    }

    /// Whether requests are taken: not while the application cannot run.
    pub fn takes_requests(&self) -> bool {
        self.lock().stopped.is_none()
    }

    /// What the application does at this moment; with its processes if `full`.
    pub fn status(&self, full: bool) -> PoolStatus {
        let inner = self.lock();
        let now = clock::monotonic_us();
        let mut status = inner.counts.status(self.limit);
        status.queued = inner.waiting.len() as u32;
        let mut oldest = inner.waiting.front().map_or(now, |waiting| waiting.about.queued);
        let Some(serving) = &inner.serving else {
            status.waiting_time = now.saturating_sub(oldest);
            return status;
        };
        let instance = &serving.instance;
        let mut running = HashMap::new();
        for slot in 0..serving.abouts.len() as u32 {
            if let Some((owner, about, times)) = serving.running(slot, now) {
                running.insert(owner, (about, times));
            } else if let (Some(about), Claim::Queued(_)) =
                (&serving.abouts[slot as usize], instance.region.claim_of(slot))
            {
                status.queued += 1;
                oldest = oldest.min(about.queued);
            }
        }
        status.waiting_time = now.saturating_sub(oldest);
        let workers = instance.workers();
        status.active = running.len() as u32;
        status.idle = (workers.len() as u32).saturating_sub(status.active);
        if full {
            let process = |(owner, worker): (&Owner, &Worker)| match running.get(owner) {
                Some((about, times)) => ProcessStatus::running(worker, &about.context, *times),
                None => ProcessStatus::idle(worker),
            };
            status.processes = workers.iter().map(process).collect();
        }
        drop((running, workers));
        drop(inner); // requests need not wait for the kernel
        status.processes.iter_mut().for_each(ProcessStatus::measure);
        status.processes.sort_by_key(|process| process.pid);
        status
    }

    /// The most workers that there may be at this moment.
    pub fn most(&self) -> u32 {
        self.most.load(Relaxed)
    }

    /// Workers have started: what waits may move up.
    pub fn feed(&self) {
        self.lock().feed();
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
            served: self.served,
        }
    }

    fn in_slots(&self) -> u32 {
        self.serving.as_ref().map_or(0, |serving| serving.in_slots)
    }

    /// Moves waiting requests into free slots, the oldest first.
    fn feed(&mut self) {
        let Some(serving) = &mut self.serving else { return };
        let instance = Arc::clone(&serving.instance);
        let region = &instance.region;
        while serving.has_room()
            && let Some(next) = self.waiting.front()
        {
            let Some(slot) = serving.producer.take_slot() else { break };
            let staged = region.stage(slot, next.key.thread(), &next.request);
            debug_assert!(staged, "requests are built to fit");
            serving.instance.keys[slot as usize].store(next.key.0, Release);
            match serving.producer.publish(region, slot) {
                Ok((_, Some(call))) => self.wake = Some((Arc::clone(&instance), call)),
                Ok((_, None)) => {}
                Err(_) => {
                    serving.instance.keys[slot as usize].store(0, Release);
                    serving.producer.release(region, slot);
                    break;
                }
            }
            serving.in_slots += 1;
            self.peak = self.peak.max(serving.in_slots);
            let taken = self.waiting.pop_front();
            serving.abouts[slot as usize] = taken.map(|waiting| waiting.about);
        }
    }

    /// Frees a slot; returns what was known of its request.
    fn release(&mut self, instance: &Arc<Instance>, slot: u32) -> Option<About> {
        let key = instance.keys.get(slot as usize)?;
        if key.swap(0, AcqRel) == 0 {
            return None;
        }
        let mut all = self.serving.iter_mut().chain(&mut self.retired);
        let serving = all.find(|serving| Arc::ptr_eq(&serving.instance, instance))?;
        serving.producer.release(&instance.region, slot);
        serving.in_slots -= 1;
        let about = serving.abouts[slot as usize].take();
        self.last_request = Some(Instant::now());
        self.served += 1;
        self.retired.retain(|retired| retired.in_slots > 0);
        about
    }

    /// Where a request is that is in a slot.
    fn find(&self, key: Key) -> Option<(&Serving, u32)> {
        self.serving.iter().chain(&self.retired).find_map(|serving| {
            let mut slots = serving.instance.slots_of(key.thread());
            slots.find(|(_, found)| *found == key).map(|(slot, _)| (serving, slot))
        })
    }
}

impl Serving {
    /// Whether another request may move into a slot: one lies ready for each worker. More would
    /// only take memory for requests that wait as well where they are.
    fn has_room(&self) -> bool {
        let enough = (2 * self.instance.worker_count()).max(ALWAYS_IN_SLOTS);
        self.in_slots < enough && self.producer.has_slot()
    }

    /// Who has the request of a slot, what is known of it, and how long it has waited and run.
    fn running(&self, slot: u32, now: u64) -> Option<(Owner, &About, Times)> {
        let about = self.abouts.get(slot as usize)?.as_ref()?;
        let Claim::Taken(_, worker) = self.instance.region.claim_of(slot) else { return None };
        let started = self.instance.region.slot(slot)?.started.load(Acquire);
        Some((worker, about, about.times(started, now)))
    }

    /// Takes back all requests that no worker has taken yet, the youngest first.
    fn take_back(&mut self) -> Vec<Waiting> {
        let instance = &self.instance;
        let mut found: Vec<(u32, Waiting)> = Vec::new();
        for (slot, about) in self.abouts.iter_mut().enumerate() {
            let number = slot as u32;
            let (Some(key), Claim::Queued(ticket)) =
                (instance.key(number), instance.region.claim_of(number))
            else {
                continue;
            };
            if instance.region.cancel(number, ticket)
                && let Some(about) = about.take()
            {
                let mut request = Vec::new();
                instance.region.request(number, &mut request);
                instance.keys[slot].store(0, Release);
                self.in_slots -= 1;
                found.push((ticket, Waiting { key, request, about }));
            }
        }
        // Tickets wrap; what is in one ring lies within half of their range.
        found.sort_by(|(a, _), (b, _)| (b.wrapping_sub(*a) as i32).cmp(&0));
        found.into_iter().map(|(_, waiting)| waiting).collect()
    }
}
