//! Queue of requests from the router to idle workers.
//!
//! There is one producer (the router, under its own lock) and many consumers (the workers). A
//! request occupies a slot from its publication until its response is complete. The slot's claim
//! word decides which worker has it: a worker takes it with one compare-and-swap that includes the
//! ring position. A request is therefore taken exactly once, the request of a worker that dies is
//! known, and a worker with an outdated ring position cannot take one.
//!
//! Sleeping workers are woken one at a time: the router wakes one when it publishes a request,
//! unless one is waking already, and a worker that has woken wakes the next if more requests wait.
//! Only workers that find a request are woken, and while requests wait and workers sleep, one of
//! them is waking. It is always the sleeping worker with the lowest index, so that as few workers
//! as possible do the work: their code and data stay in the processors' caches, and the others can
//! be stopped.
//!
//! Functions return the worker that must be woken; the caller makes the system call.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering::*};

use howdah_sys::shared_copy;

use crate::region::Region;

/// Identity of a worker: its index in the pool, and its incarnation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WorkerId {
    /// Index of the worker, below [`WorkerId::LIMIT`].
    pub index: u16,
    /// Number of the process among those that had this index.
    pub incarnation: u16,
}

impl WorkerId {
    /// Upper limit of indexes; numbers from here on are states of a slot.
    pub const LIMIT: u16 = 0xfff0;

    /// Returns the bit set of `FUTEX_WAIT_BITSET` with which this worker waits on
    /// [`Region::wake_word`].
    pub fn wait_set(self) -> NonZeroU32 {
        set_of(u32::from(self.index))
    }
}

/// A sleeping worker that must be woken: one that waits on [`Region::wake_word`] with this bit set.
/// Waking another worker with the same bit is equivalent.
#[must_use = "requests wait until the worker is woken"]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WakeUp(NonZeroU32);

impl WakeUp {
    /// Returns the bit set of `FUTEX_WAKE_BITSET`.
    pub fn wake_set(self) -> NonZeroU32 {
        self.0
    }
}

/// Returns a worker's bit.
fn set_of(index: u32) -> NonZeroU32 {
    NonZeroU32::new(1 << (index % u32::BITS)).expect("it is one bit")
}

/// State of a slot, encoded in its claim word: the low half of the ring position at which it was
/// published, and the owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// Not in use.
    Free,
    /// Published at a position and not taken yet.
    Queued(u32),
    /// Withdrawn by the router before a worker took it.
    Cancelled(u32),
    /// Taken by a worker.
    Taken(u32, WorkerId),
}

const FREE: u16 = 0xffff;
const QUEUED: u16 = 0xfffe;
const CANCELLED: u16 = 0xfffd;

impl Claim {
    fn encode(self) -> u64 {
        let word = |ticket: u32, incarnation: u16, index: u16| {
            u64::from(ticket) << 32 | u64::from(incarnation) << 16 | u64::from(index)
        };
        match self {
            Claim::Free => word(0, 0, FREE),
            Claim::Queued(ticket) => word(ticket, 0, QUEUED),
            Claim::Cancelled(ticket) => word(ticket, 0, CANCELLED),
            Claim::Taken(ticket, owner) => word(ticket, owner.incarnation, owner.index),
        }
    }

    fn decode(word: u64) -> Self {
        let ticket = (word >> 32) as u32;
        match word as u16 {
            QUEUED => Claim::Queued(ticket),
            CANCELLED => Claim::Cancelled(ticket),
            index if index < WorkerId::LIMIT => {
                Claim::Taken(ticket, WorkerId { index, incarnation: (word >> 16) as u16 })
            }
            _ => Claim::Free,
        }
    }
}

/// The router's private state of the queue; the copies in the region are for workers.
#[derive(Debug)]
pub struct Producer {
    tail: u64,
    free: Vec<u32>,
    /// Position at which each slot in use was published.
    published: Vec<Option<u64>>,
}

/// Error: the ring is full. Entries of cancelled requests are between ones that workers have not
/// taken yet.
#[derive(Debug, PartialEq, Eq)]
pub struct Full;

impl Producer {
    /// Initialises a new region.
    pub fn new<M: AsRef<[AtomicU64]>>(region: &Region<M>) -> Self {
        let slots = region.geometry().slots;
        for slot in 0..slots {
            if let Some(words) = region.slot(slot) {
                words.claim.store(Claim::Free.encode(), Relaxed);
            }
        }
        Producer {
            tail: 0,
            free: (0..slots).rev().collect(),
            published: vec![None; slots as usize],
        }
    }

    /// Takes the most recently used free slot: its pages are in memory and in the caches. `None` if
    /// none is free.
    pub fn take_slot(&mut self) -> Option<u32> {
        self.free.pop()
    }

    /// Returns true if a slot is free.
    pub fn has_slot(&self) -> bool {
        !self.free.is_empty()
    }

    /// Frees a slot that no worker has.
    pub fn release<M: AsRef<[AtomicU64]>>(&mut self, region: &Region<M>, slot: u32) {
        if let Some(words) = region.slot(slot) {
            words.claim.store(Claim::Free.encode(), Release);
            debug_assert!(!self.free.contains(&slot), "slot {slot} released twice");
            self.free.push(slot);
            self.published[slot as usize] = None;
        }
    }

    /// Makes a staged request visible to workers. Returns its ticket and the sleeping worker to
    /// wake, if any.
    pub fn publish<M: AsRef<[AtomicU64]>>(
        &mut self,
        region: &Region<M>,
        slot: u32,
    ) -> Result<(u32, Option<WakeUp>), Full> {
        let Some(words) = region.slot(slot) else { return Err(Full) };
        if self.waiting(region) >= region.entries() {
            // Busy workers skip no entries, and idle ones do not read the queue before this request
            // is published.
            region.pass_cancelled(self.tail);
        }
        if self.waiting(region) >= region.entries() {
            return Err(Full);
        }
        let ticket = self.tail as u32;
        words.claim.store(Claim::Queued(ticket).encode(), Release);
        region.entry(self.tail).store(u64::from(slot), Release);
        self.published[slot as usize] = Some(self.tail);
        self.tail = self.tail.wrapping_add(1);
        region.tail().store(self.tail, SeqCst);
        Ok((ticket, region.call_worker()))
    }

    /// Checks the queue for values that only a worker with stray writes can have left: requests
    /// would wait forever, or workers would end. Returns the damaged part; `None` if there is none.
    pub fn damage<M: AsRef<[AtomicU64]>>(&self, region: &Region<M>) -> Option<&'static str> {
        // Read before the claims: workers advance it after they have taken a request.
        let head = region.head().load(SeqCst);
        let ahead = self.tail.wrapping_sub(head);
        if region.tail().load(Relaxed) != self.tail || ahead > region.entries() {
            return Some("the head or the tail of the queue");
        }
        let limit = u64::from(WorkerId::LIMIT);
        if region.retire_word().load(Relaxed) > limit || region.shed_word().load(Relaxed) > limit {
            return Some("the number of workers to end");
        }
        for (slot, position) in self.published.iter().enumerate() {
            let Some(position) = *position else { continue };
            let (slot, ticket) = (slot as u32, position as u32);
            let passed = self.tail.wrapping_sub(position) > ahead;
            match region.claim_of(slot) {
                Claim::Taken(taken, _) if taken == ticket => {}
                Claim::Cancelled(taken) if taken == ticket => {}
                Claim::Queued(taken) if taken == ticket && !passed => {
                    if region.entry(position).load(Relaxed) != u64::from(slot) {
                        return Some("an entry of the queue");
                    }
                }
                _ => return Some("the owner of a slot"),
            }
        }
        None
    }

    /// Returns the number of entries that no worker has passed.
    fn waiting<M: AsRef<[AtomicU64]>>(&self, region: &Region<M>) -> u64 {
        self.tail.wrapping_sub(region.head().load(Acquire))
    }
}

impl<M: AsRef<[AtomicU64]>> Region<M> {
    /// Fills a slot from [`Producer::take_slot`] for router thread `thread`. Returns false if the
    /// request is longer than [`Geometry::request_bytes`](crate::region::Geometry).
    pub fn stage(&self, slot: u32, thread: u32, request: &[u8]) -> bool {
        let Some(words) = self.slot(slot) else { return false };
        if request.len() > self.geometry().request_bytes as usize {
            return false;
        }
        shared_copy::store(self.request_area(slot), request);
        words.request_len.store(request.len() as u64, Relaxed);
        words.thread.store(u64::from(thread), Relaxed);
        words.aborted.store(0, Relaxed);
        words.consumed.store(0, Relaxed);
        words.written.store(0, Relaxed);
        words.waiting.store(0, Relaxed);
        words.started.store(0, Relaxed);
        true
    }

    /// Returns the state of a slot. Every value of the word is a valid state.
    pub fn claim_of(&self, slot: u32) -> Claim {
        self.slot(slot).map_or(Claim::Free, |words| Claim::decode(words.claim.load(Acquire)))
    }

    /// Withdraws a request. Returns false if a worker has taken it.
    pub fn cancel(&self, slot: u32, ticket: u32) -> bool {
        self.slot(slot).is_some_and(|words| {
            let (from, to) = (Claim::Queued(ticket), Claim::Cancelled(ticket));
            words.claim.compare_exchange(from.encode(), to.encode(), AcqRel, Acquire).is_ok()
        })
    }

    /// Moves the head past entries of requests that no worker can take, up to `tail`.
    fn pass_cancelled(&self, tail: u64) {
        // The number of turns is limited, even if a worker changes the head meanwhile.
        for _ in 0..self.entries() {
            let head = self.head().load(Acquire);
            let slot = self.entry(head).load(Acquire) as u32;
            if head == tail || self.claim_of(slot) == Claim::Queued(head as u32) {
                return;
            }
            let _ = self.head().compare_exchange(head, head.wrapping_add(1), AcqRel, Acquire);
        }
    }

    /// Tells `count` workers to end as soon as they are idle.
    pub fn retire(&self, count: u64) {
        self.retire_word().fetch_add(count, SeqCst);
        self.wake_word().fetch_add(1, SeqCst);
    }

    /// Cancels all calls of [`Region::retire`] that no worker has followed yet.
    pub fn cancel_retirement(&self) {
        self.retire_word().store(0, SeqCst);
    }

    /// Tells `count` workers to end before they take another request, even if requests wait; 0
    /// cancels an earlier call.
    pub fn retire_now(&self, count: u64) {
        self.shed_word().store(count, SeqCst);
        if count > 0 {
            self.wake_word().fetch_add(1, SeqCst);
        }
    }

    /// Removes a worker that has ended, possibly while it slept. Must be called before another
    /// process gets its index. Returns the worker to wake in its place.
    pub fn ended(&self, worker: WorkerId) -> Option<WakeUp> {
        self.end_sleep(worker)
    }

    /// Returns true if a worker waits for a request, or did so when it ended and [`Region::ended`]
    /// has not been called yet.
    pub fn is_asleep(&self, worker: WorkerId) -> bool {
        self.sleeper(worker).is_some_and(|(sleepers, bit)| sleepers.load(SeqCst) & bit != 0)
    }

    /// Returns true if any worker waits for a request.
    pub fn has_sleepers(&self) -> bool {
        self.first_sleeper().is_some()
    }

    /// Tells all workers to end when the queue is empty.
    pub fn close(&self) {
        self.closing().store(1, SeqCst);
        self.wake_word().fetch_add(1, SeqCst);
    }

    /// Returns true if [`Region::close`] was called.
    pub fn is_closing(&self) -> bool {
        self.closing().load(Acquire) != 0
    }

    /// Calls all sleeping workers; the caller wakes all that wait on [`Region::wake_word`]. Returns
    /// the words with a bit for each worker that slept, in the order of their numbers.
    ///
    /// No worker counts as asleep from now on: a worker that does not wake is not called again, and
    /// others are. A worker that wakes looks for requests after this call, and announces its next
    /// sleep.
    pub fn call_all(&self) -> Vec<u64> {
        let slept = self.sleepers().iter().map(|sleepers| sleepers.swap(0, SeqCst)).collect();
        self.calling().store(0, SeqCst);
        self.wake_word().fetch_add(1, SeqCst);
        slept
    }

    fn call_worker(&self) -> Option<WakeUp> {
        self.first_sleeper()?;
        if self.calling().swap(1, SeqCst) != 0 {
            return None;
        }
        let Some(first) = self.first_sleeper() else {
            // The worker that was asleep has woken, and may have cleared `calling` before this call
            // set it; no other worker would clear it.
            self.calling().store(0, SeqCst);
            return None;
        };
        self.wake_word().fetch_add(1, SeqCst);
        Some(WakeUp(first))
    }

    /// Returns the bit of the sleeping worker with the lowest index.
    fn first_sleeper(&self) -> Option<NonZeroU32> {
        let mut words = self.sleepers().iter().map(|sleepers| sleepers.load(SeqCst));
        // Each word has the bits of whole sets of workers: which word it is does not matter.
        words.find(|word| *word != 0).map(|word| set_of(word.trailing_zeros()))
    }
}

/// Result of [`Region::take`].
#[derive(Debug, PartialEq, Eq)]
pub enum Work {
    /// A request: slot, ticket and the router thread that waits for the response.
    Request {
        /// Slot, which now belongs to this worker.
        slot: u32,
        /// Identifies the request among all requests in this slot.
        ticket: u32,
        /// Router thread that reads the response.
        thread: u64,
    },
    /// There is no request.
    Idle,
    /// The worker must end.
    Exit,
}

impl<M: AsRef<[AtomicU64]>> Region<M> {
    /// Takes the oldest request, if there is one. For workers.
    pub fn take(&self, me: WorkerId) -> Work {
        let leave = |count: u64| count.checked_sub(1);
        if self.shed_word().fetch_update(AcqRel, Acquire, leave).is_ok() {
            return Work::Exit;
        }
        loop {
            let head = self.head().load(Acquire);
            let waiting = self.tail().load(SeqCst).wrapping_sub(head);
            if waiting == 0 || waiting > self.entries() && head == self.head().load(Acquire) {
                // Empty, or more entries than possible although the head has not moved meanwhile:
                // then another worker has damaged it.
                break;
            }
            let slot = self.entry(head).load(Acquire) as u32;
            let ticket = head as u32;
            let mine = self.slot(slot).is_some_and(|words| {
                let (from, to) = (Claim::Queued(ticket), Claim::Taken(ticket, me));
                words.claim.compare_exchange(from.encode(), to.encode(), AcqRel, Acquire).is_ok()
            });
            // Passes the entry even if another worker has taken but not yet passed it.
            let _ = self.head().compare_exchange(head, head.wrapping_add(1), AcqRel, Acquire);
            if mine {
                let thread = self.slot(slot).map_or(0, |words| words.thread.load(Relaxed));
                return Work::Request { slot, ticket, thread };
            }
        }
        if self.retire_word().fetch_update(AcqRel, Acquire, leave).is_ok() || self.is_closing() {
            return Work::Exit;
        }
        Work::Idle
    }

    /// Announces that this worker spins for the next request, so that no other needs to be woken
    /// for it; [`Region::end_sleep`] ends that. Returns false if another worker is waking already.
    /// For workers.
    pub fn begin_spin(&self, me: WorkerId) -> bool {
        let may_spin = self.calling().swap(1, SeqCst) == 0;
        if may_spin && let Some((sleepers, bit)) = self.sleeper(me) {
            sleepers.fetch_or(bit, SeqCst); // for `call_all`: it may be stopped while it spins
        }
        may_spin
    }

    /// Returns true if a request may be waiting. For workers.
    pub fn has_entries(&self) -> bool {
        self.tail().load(Relaxed) != self.head().load(Relaxed)
    }

    /// Announces that this worker will wait on [`Region::wake_word`] while it has the returned
    /// value, with its [`WorkerId::wait_set`]. The caller must try to take a request once more
    /// before waiting and once after it, and then call [`Region::end_sleep`]. For workers.
    pub fn begin_sleep(&self, me: WorkerId) -> u32 {
        let sequence = self.wake_word().load(SeqCst) as u32;
        if let Some((sleepers, bit)) = self.sleeper(me) {
            sleepers.fetch_or(bit, SeqCst);
        }
        sequence
    }

    /// Ends [`Region::begin_sleep`] or [`Region::begin_spin`]. Returns another worker to wake,
    /// because more requests wait. For workers.
    pub fn end_sleep(&self, me: WorkerId) -> Option<WakeUp> {
        if let Some((sleepers, bit)) = self.sleeper(me) {
            sleepers.fetch_and(!bit, SeqCst);
        }
        // Order matters: a request that was published before is seen below, and one that is
        // published afterwards wakes a worker itself.
        self.calling().store(0, SeqCst);
        if self.tail().load(SeqCst) == self.head().load(SeqCst) {
            return None;
        }
        self.call_worker()
    }

    fn sleeper(&self, worker: WorkerId) -> Option<(&AtomicU64, u64)> {
        let word = self.sleepers().get(usize::from(worker.index / 64))?;
        Some((word, 1 << (worker.index % 64)))
    }

    /// Copies the encoded request of a slot out of shared memory. For workers.
    pub fn request(&self, slot: u32, out: &mut Vec<u8>) {
        out.clear();
        if let Some(words) = self.slot(slot) {
            let len = words.request_len.load(Relaxed) as usize;
            let len = len.min(self.geometry().request_bytes as usize);
            shared_copy::load(self.request_area(slot), len, out);
        }
    }
}

#[cfg(test)]
mod tests;
