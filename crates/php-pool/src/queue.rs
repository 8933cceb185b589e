//! Queue of an application, with at most one [`Instance`] that takes from it.
//!
//! Requests wait in private memory and move to the region's slots in the order of `waiting`, as
//! slots become free; workers take them from there. The key of a slot identifies the waiting
//! thread. The region has that information too, but workers could change it, so it is only a hint.

mod absence;
mod busy;
mod php;
mod withdrawal;

use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use howdah_sys::log_rate::LogRate;
use howdah_sys::{clock, futex};
use howdah_wire::frame::RequestUsage;
use howdah_wire::queue::{Claim, Producer, WakeUp, WorkerId};

pub use self::busy::Busy;
pub use self::php::Php;
use super::ends::Ends;
pub use super::instance::{Instance, NotSent, Worker};
use super::process_meter::ProcessMeter;
use super::profile::{Profile, ProfileSlot};
use super::queue_order::{Flow, Queued, WaitingList};
pub use super::queue_results::{Load, QueueError, Withdrawal};
use super::refusals::Refusals;
use super::request::RequestContext;
pub use super::request::RequestKey;
use super::status::{Counters, PoolStatus, ProcessStatus, RequestInfo, SlowRequest};
use super::times::Times;
use super::worker_output::Output;

/// Minimum limit of the number of requests in slots, however few workers there are.
const MIN_IN_SLOTS: u32 = 16;

/// The queue of one application.
#[derive(Debug)]
pub struct Queue {
    limit: usize,
    /// A thread has asked for a check of the workers since the last one.
    has_asked: AtomicBool,
    max_workers: AtomicU32,
    /// The profile that is being made.
    pub profile: ProfileSlot,
    /// Limit of the application's log records.
    pub log_rate: LogRate,
    /// Limit of the server's log lines about requests.
    pub request_lines: LogRate,
    /// Ends of processes with an error, and restarts.
    pub ends: Ends,
    /// Use of its processes, as last measured.
    pub process_use: ProcessMeter,
    /// Limit of the log lines about refused requests.
    pub(crate) refusals: Refusals,
    /// The PHP that was last reported.
    php: Mutex<Php>,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    waiting: WaitingList<Waiting>,
    /// Clients take turns: no request is in a slot before a worker is free for it.
    is_fair: bool,
    serving: Option<Serving>,
    /// Former instances whose workers still have requests.
    retired: Vec<Serving>,
    stopped: Option<String>,
    peak: u32,
    last_request: Option<Instant>,
    served: u64,
    counters: Counters,
    /// Worker to wake when the lock is released.
    wake: Option<(Arc<Instance>, WakeUp)>,
}

/// The locked queue. Workers are woken after the lock is released, so that no thread waits for that
/// system call.
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
    /// Request in each slot.
    infos: Vec<Option<RequestInfo>>,
}

#[derive(Debug)]
struct Waiting {
    key: RequestKey,
    request: Vec<u8>,
    info: RequestInfo,
}

impl Queued for Waiting {
    fn flow(&self) -> Flow {
        self.info.context.flow
    }

    fn queued(&self) -> u64 {
        self.info.queued
    }
}

impl Queue {
    /// Creates a queue for at most `limit` waiting requests, without an instance. With `is_fair`,
    /// flows take turns exactly; requests of overloaded flows are given up after `patience`.
    pub fn new(limit: usize, is_fair: bool, patience: Option<Duration>) -> Self {
        let counters = Counters::new(clock::wall_seconds());
        let patience = patience.map(|time| u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
        let waiting = WaitingList::new(patience);
        let inner = Inner { counters, waiting, is_fair, ..Inner::default() };
        Queue {
            limit,
            has_asked: AtomicBool::new(false),
            max_workers: AtomicU32::new(u32::MAX),
            profile: ProfileSlot::default(),
            log_rate: LogRate::default(),
            request_lines: LogRate::default(),
            refusals: Refusals::default(),
            ends: Ends::default(),
            process_use: ProcessMeter::default(),
            php: Mutex::default(),
            inner: Mutex::new(inner),
        }
    }

    fn lock(&self) -> Locked<'_> {
        Locked(Some(self.inner.lock().unwrap_or_else(|e| e.into_inner())))
    }

    /// Returns the number of requests that the application's processes can run at once.
    fn can_run(&self, workers: u32) -> u32 {
        match self.max_workers() {
            u32::MAX => workers,
            max => workers.max(max),
        }
    }

    /// Queues an encoded request. Returns the numbers of requests and of workers afterwards.
    pub fn submit(
        &self,
        key: RequestKey,
        request: Vec<u8>,
        context: Arc<RequestContext>,
    ) -> Result<(u32, u32), QueueError> {
        let mut inner = self.lock();
        if let Some(reason) = &inner.stopped {
            return Err(QueueError::Stopped(reason.clone()));
        }
        let direct = inner.waiting.is_empty() && inner.has_room();
        // Requests that processes can run do not wait, although some processes may not have
        // started.
        let (can_run, limit) = match &inner.serving {
            Some(serving) => (self.can_run(serving.instance.worker_count()), self.limit),
            // While the application loads PHP, as many wait as its slots would take.
            None => (0, self.limit.max(MIN_IN_SLOTS as usize)),
        };
        let waiting =
            (inner.in_slots() as usize + inner.waiting.len()).checked_sub(can_run as usize);
        let is_greedy = !direct && inner.is_fair && inner.waiting.is_greedy(context.flow, limit);
        if waiting.is_some_and(|waiting| waiting >= limit) || is_greedy {
            return Err(QueueError::QueueFull);
        }
        let info = RequestInfo { context, queued: clock::monotonic_us(), is_reported_slow: false };
        inner.waiting.push(Waiting { key, request, info });
        inner.feed();
        let workers = inner.serving.as_ref().map_or(0, |serving| serving.instance.worker_count());
        let requests = inner.in_slots() + inner.waiting.len() as u32;
        inner.counters.submitted(requests, workers);
        Ok((requests, workers))
    }

    /// Frees the slot of a request that a worker has finished, and fills slots from the queue.
    /// Returns the worker's output if a part of it is not logged.
    pub fn finish(
        &self,
        instance: &Arc<Instance>,
        slot: u32,
        done: RequestUsage,
    ) -> Option<Arc<Output>> {
        let mut output = None;
        let claim = instance.region.claim_of(slot);
        let started = instance.region.slot(slot).map_or(0, |words| words.started.load(Acquire));
        let mut inner = self.lock();
        if let Some(info) = inner.release(instance, slot)
            && let Claim::Taken(_, owner) = claim
        {
            let times = info.times(started, clock::monotonic_us());
            inner.counters.finished(times, done);
            let _ = info.context.usage.set(done); // unset until here, as the next ones
            if let Some(worker) = instance.workers().get_mut(&owner) {
                let _ = info.context.process.set(worker.pid);
                worker.last.set(&info.context, times, done);
                output = worker.output.as_ref().filter(|output| output.has_unlogged()).cloned();
            }
            let _ = info.context.times.set(times);
        }
        inner.feed();
        output
    }

    /// Frees the slot of a failed request, and fills slots from the queue.
    pub fn release(&self, instance: &Arc<Instance>, slot: u32) {
        let mut inner = self.lock();
        inner.release(instance, slot);
        inner.feed();
    }

    /// Returns the waiting and run time of a request; `None` if no worker has it.
    pub fn times(&self, key: RequestKey) -> Option<Times> {
        let inner = self.lock();
        let (serving, slot) = inner.find(key)?;
        serving.running(slot, clock::monotonic_us()).map(|(_, _, times)| times)
    }

    /// Returns the request of a worker. If an earlier one is not settled yet, returns the later
    /// one.
    pub(super) fn request_of(
        &self,
        instance: &Arc<Instance>,
        worker: WorkerId,
    ) -> Option<(RequestKey, Arc<RequestContext>)> {
        let inner = self.lock();
        let mut all = inner.serving.iter().chain(&inner.retired);
        let serving = all.find(|serving| Arc::ptr_eq(&serving.instance, instance))?;
        let mut latest: Option<(u32, RequestKey, &RequestInfo)> = None;
        for (slot, info) in (0..).zip(&serving.infos) {
            if let (Some(info), Some(key), Claim::Taken(ticket, owner)) =
                (info, instance.key(slot), instance.region.claim_of(slot))
                && owner == worker
                // Tickets wrap around; those in one ring differ by less than half of their range.
                && latest.is_none_or(|(known, ..)| ticket.wrapping_sub(known) as i32 > 0)
            {
                latest = Some((ticket, key, info));
            }
        }
        latest.map(|(_, key, info)| (key, Arc::clone(&info.context)))
    }

    /// Returns requests that have run for longer than `limit` microseconds, each only once, and the
    /// time in microseconds within which there will be no other.
    pub fn take_slow_requests(&self, limit: u64) -> (Vec<SlowRequest>, u64) {
        let mut inner = self.lock();
        let (now, mut found, mut pause) = (clock::monotonic_us(), Vec::new(), limit);
        let Inner { serving, retired, counters, .. } = &mut *inner;
        for serving in serving.iter_mut().chain(retired) {
            for slot in 0..serving.infos.len() as u32 {
                let Some((worker, info, times)) = serving.running(slot, now) else { continue };
                if info.is_reported_slow {
                    continue;
                }
                if times.ran < limit {
                    pause = pause.min(limit - times.ran);
                    continue;
                }
                let (instance, context) = (serving.instance.number, Arc::clone(&info.context));
                let pid = serving.instance.pid(worker).unwrap_or(0);
                found.push(SlowRequest { instance, worker, pid, context, times });
                counters.slow += 1;
                if let Some(info) = &mut serving.infos[slot as usize] {
                    info.is_reported_slow = true;
                }
            }
        }
        (found, pause)
    }

    /// Returns a thread's requests in the slots of an instance, with their claims. No request moves
    /// into a slot meanwhile.
    pub fn claims_of(&self, instance: &Instance, thread: u32) -> Vec<(u32, RequestKey, Claim)> {
        let _snapshot = self.lock();
        let claim = |(slot, key)| (slot, key, instance.region.claim_of(slot));
        instance.slots_of(thread).map(claim).collect()
    }

    /// Replaces the instance that takes from the queue; returns the old one, whose workers finish
    /// the requests that they have. Requests that no worker has taken move to the new one, in
    /// order.
    pub fn set_instance(&self, instance: Option<Arc<Instance>>) -> Option<Arc<Instance>> {
        let mut inner = self.lock();
        let new = instance.map(|instance| Serving {
            producer: Producer::new(&instance.region),
            infos: instance.keys.iter().map(|_| None).collect(),
            instance,
            in_slots: 0,
        });
        if new.is_some() {
            inner.stopped = None;
        }
        inner.counters.instance_ended();
        let mut old = std::mem::replace(&mut inner.serving, new);
        inner.waiting.take_back(old.iter_mut().flat_map(Serving::take_back));
        inner.feed();
        let instance = old.as_ref().map(|old| Arc::clone(&old.instance));
        inner.retired.extend(old.filter(|old| old.in_slots > 0));
        instance
    }

    /// Refuses requests until there is an instance again, because the application cannot run.
    /// Returns the keys of the waiting requests, which fail.
    pub fn stop(&self, reason: &str) -> Vec<RequestKey> {
        let mut inner = self.lock();
        inner.stopped = Some(reason.to_owned());
        let waiting = inner.waiting.drain().into_iter().map(|waiting| waiting.key);
        let mut keys: Vec<RequestKey> = waiting.collect();
        // Requests in shared memory that no worker has taken wait, too.
        let Some(serving) = &inner.serving else { return keys };
        let (instance, slots) = (Arc::clone(&serving.instance), serving.infos.len() as u32);
        for slot in 0..slots {
            if let (Some(key), Claim::Queued(ticket)) =
                (instance.key(slot), instance.region.claim_of(slot))
                && instance.region.cancel(slot, ticket)
            {
                inner.release(&instance, slot);
                keys.push(key);
            }
        }
        keys
    }

    /// Accepts requests again after [`Queue::stop`].
    pub fn resume(&self) {
        self.lock().stopped = None;
    }

    /// Returns the instance that takes from the queue.
    pub fn instance(&self) -> Option<Arc<Instance>> {
        self.lock().serving.as_ref().map(|serving| Arc::clone(&serving.instance))
    }

    /// Ends a profile, in the workers at once.
    pub fn end_profile(&self, profile: &Arc<Profile>) {
        self.profile.end(profile);
        let inner = self.lock();
        for serving in inner.serving.iter().chain(&inner.retired) {
            serving.instance.region.ended_profile().store(profile.order().end_us, Release);
        }
    }

    /// Returns the current load.
    pub fn load(&self) -> Load {
        self.lock().load()
    }

    /// Returns the current load for a decision about the number of workers. Resets the peak, and
    /// lets threads ask for a check again.
    pub fn take_load(&self) -> Load {
        self.has_asked.store(false, SeqCst);
        let mut inner = self.lock();
        let load = inner.load();
        inner.peak = 0;
        load
    }

    /// Returns true if a thread has asked for a check since the last [`Queue::take_load`].
    pub fn has_asked(&self) -> bool {
        self.has_asked.load(SeqCst)
    }

    /// Returns the name of the part of the shared memory, or of the eventfds, that workers have
    /// damaged; `None` if there is none.
    pub fn damage(&self) -> Option<&'static str> {
        let inner = self.lock();
        let serving = inner.serving.as_ref()?;
        let (instance, producer) = (&serving.instance, &serving.producer);
        if instance.region.is_closing() && !instance.closed.load(Acquire) {
            return Some("the closing flag");
        }
        if instance.has_full_eventfd() {
            return Some("the counter of an eventfd");
        }
        producer.damage(&instance.region)
    }

    /// Sets the maximum number of workers, and the name of the way in which their number is decided
    /// (see [`PoolStatus::manager`]).
    pub fn set_max_workers(&self, max_workers: u32, manager: &'static str) {
        self.max_workers.store(max_workers, Relaxed);
        let counters = &mut self.lock().counters;
        (counters.max_workers, counters.manager) = (max_workers, manager);
    }

    /// Returns true if requests are accepted: not while the application cannot run.
    pub fn takes_requests(&self) -> bool {
        self.lock().stopped.is_none()
    }

    /// Returns the current status; with all workers if `full`.
    pub fn status(&self, full: bool) -> PoolStatus {
        let inner = self.lock();
        let now = clock::monotonic_us();
        let mut status = inner.counters.status(self.limit);
        status.queued = inner.waiting.len() as u32;
        let mut oldest = inner.waiting.oldest().unwrap_or(now);
        let Some(serving) = &inner.serving else {
            status.waiting_time = now.saturating_sub(oldest);
            return status;
        };
        let instance = &serving.instance;
        let mut running = HashMap::new();
        for slot in 0..serving.infos.len() as u32 {
            if let Some((owner, info, times)) = serving.running(slot, now) {
                running.insert(owner, (info, times));
            } else if let (Some(info), Claim::Queued(_)) =
                (&serving.infos[slot as usize], instance.region.claim_of(slot))
            {
                status.queued += 1;
                oldest = oldest.min(info.queued);
            }
        }
        status.waiting_time = now.saturating_sub(oldest);
        status.longest_run = running.values().map(|(_, times)| times.ran).max().unwrap_or(0);
        let workers = instance.workers();
        status.active = running.len() as u32;
        status.idle = (workers.len() as u32).saturating_sub(status.active);
        if full {
            let process = |(owner, worker): (&WorkerId, &Worker)| match running.get(owner) {
                Some((info, times)) => {
                    let (pid, since, last) = (worker.pid, worker.since, &worker.last);
                    ProcessStatus::running(pid, since, last, &info.context, *times)
                }
                None => ProcessStatus::idle(worker.pid, worker.since, &worker.last),
            };
            status.processes = workers.iter().map(process).collect();
        }
        drop((running, workers));
        drop(inner); // not held while memory is measured
        status.processes.iter_mut().for_each(ProcessStatus::measure);
        status.processes.sort_by_key(|process| process.pid);
        status
    }

    /// Returns the current maximum number of workers.
    pub fn max_workers(&self) -> u32 {
        self.max_workers.load(Relaxed)
    }

    /// Fills slots from the queue after workers have started.
    pub fn fill_slots(&self) {
        self.lock().feed();
    }

    /// Returns true for the first caller since the last check of the workers: that caller asks for
    /// one.
    pub fn claim_check(&self) -> bool {
        !self.has_asked.swap(true, SeqCst)
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

    /// Returns true if another request may move into a slot: one per worker may wait there, none if
    /// clients take turns; more would only occupy shared memory.
    fn has_room(&self) -> bool {
        self.serving.as_ref().is_some_and(|serving| {
            let workers = serving.instance.worker_count();
            let limit = if self.is_fair { workers.max(1) } else { (2 * workers).max(MIN_IN_SLOTS) };
            serving.in_slots < limit && serving.producer.has_slot()
        })
    }

    /// Moves waiting requests into free slots.
    fn feed(&mut self) {
        let now = clock::monotonic_us();
        while self.has_room()
            && let Some(next) = self.waiting.next(now)
        {
            let Some(serving) = &mut self.serving else { return };
            let instance = Arc::clone(&serving.instance);
            let region = &instance.region;
            let Some(slot) = serving.producer.take_slot() else {
                return self.waiting.take_back([next]);
            };
            let staged = region.stage(slot, next.key.thread(), &next.request);
            debug_assert!(staged, "requests are built to fit");
            serving.instance.keys[slot as usize].store(next.key.0, Release);
            match serving.producer.publish(region, slot) {
                Ok((_, Some(call))) => self.wake = Some((Arc::clone(&instance), call)),
                Ok((_, None)) => {}
                Err(_) => {
                    serving.instance.keys[slot as usize].store(0, Release);
                    serving.producer.release(region, slot);
                    return self.waiting.take_back([next]);
                }
            }
            serving.in_slots += 1;
            self.peak = self.peak.max(serving.in_slots);
            serving.infos[slot as usize] = Some(next.info);
        }
    }

    /// Frees a slot; returns its request.
    fn release(&mut self, instance: &Arc<Instance>, slot: u32) -> Option<RequestInfo> {
        let key = instance.keys.get(slot as usize)?;
        if key.swap(0, AcqRel) == 0 {
            return None;
        }
        let mut all = self.serving.iter_mut().chain(&mut self.retired);
        let serving = all.find(|serving| Arc::ptr_eq(&serving.instance, instance))?;
        serving.producer.release(&instance.region, slot);
        serving.in_slots -= 1;
        let info = serving.infos[slot as usize].take();
        if let Some(info) = &info {
            self.waiting.ended(info.context.flow);
        }
        self.last_request = Some(Instant::now());
        self.served += 1;
        self.retired.retain(|retired| retired.in_slots > 0);
        info
    }

    /// Returns the slot of a request.
    fn find(&self, key: RequestKey) -> Option<(&Serving, u32)> {
        self.serving.iter().chain(&self.retired).find_map(|serving| {
            let mut slots = serving.instance.slots_of(key.thread());
            slots.find(|(_, found)| *found == key).map(|(slot, _)| (serving, slot))
        })
    }
}

impl Serving {
    /// Returns worker, request and times of a slot that a worker has taken.
    fn running(&self, slot: u32, now: u64) -> Option<(WorkerId, &RequestInfo, Times)> {
        let info = self.infos.get(slot as usize)?.as_ref()?;
        let Claim::Taken(_, worker) = self.instance.region.claim_of(slot) else { return None };
        let started = self.instance.region.slot(slot)?.started.load(Acquire);
        Some((worker, info, info.times(started, now)))
    }

    /// Takes back the requests that no worker has taken, the youngest first.
    fn take_back(&mut self) -> Vec<Waiting> {
        let instance = &self.instance;
        let mut found: Vec<(u32, Waiting)> = Vec::new();
        for (slot, info) in self.infos.iter_mut().enumerate() {
            let number = slot as u32;
            let (Some(key), Claim::Queued(ticket)) =
                (instance.key(number), instance.region.claim_of(number))
            else {
                continue;
            };
            if instance.region.cancel(number, ticket)
                && let Some(info) = info.take()
            {
                let mut request = Vec::new();
                instance.region.request(number, &mut request);
                instance.keys[slot].store(0, Release);
                self.in_slots -= 1;
                found.push((ticket, Waiting { key, request, info }));
            }
        }
        // Tickets wrap around; those in one ring differ by less than half of their range.
        found.sort_by(|(a, _), (b, _)| (b.wrapping_sub(*a) as i32).cmp(&0));
        found.into_iter().map(|(_, waiting)| waiting).collect()
    }
}
