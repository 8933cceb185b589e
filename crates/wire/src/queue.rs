//! Requests on their way to whichever worker is idle.
//!
//! One producer (the router, under a lock of its own), many consumers (the workers). A request
//! occupies a slot from the moment it is published until its answer is complete. The slot's
//! claim word decides who has it: a worker takes it with one compare-and-swap that carries the
//! ring position, so that a request is taken exactly once, a worker's death leaves no doubt about
//! which request it had, and a stale look at an old ring position cannot succeed.
//!
//! Sleeping workers are called one at a time: whoever publishes a request calls one unless one is
//! on its way already, and who has come calls the next if there is more to do. So as many wake as
//! find work, also where the processors are too busy to let them run at once, and while the queue
//! holds something and workers sleep, one of them is on its way. It is the first of those that
//! sleep, so that as few workers as possible do the work there is: their code and data are in the
//! processors' caches, and the others can be spared.
//!
//! Functions return who must be woken; the caller makes the system call.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering::*};

use crate::region::{Region, load_bytes, store_bytes};

/// A worker: its number in the pool and which process in that place it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner {
    /// Number of the worker, below [`Owner::LIMIT`].
    pub index: u16,
    /// Counts the processes that had this number.
    pub incarnation: u16,
}

impl Owner {
    /// Numbers from here on mark queue states.
    pub const LIMIT: u16 = 0xfff0;

    /// What this worker waits for on [`Region::wake_word`]: the bit set of `FUTEX_WAIT_BITSET`.
    pub fn wait_set(self) -> NonZeroU32 {
        set_of(u32::from(self.index))
    }
}

/// A sleeping worker must be woken: one that waits on [`Region::wake_word`] for this bit set, which
/// it may share with others that would do as well.
#[must_use = "requests wait until the worker is woken"]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call(NonZeroU32);

impl Call {
    /// The bit set of `FUTEX_WAKE_BITSET`.
    pub fn wake_set(self) -> NonZeroU32 {
        self.0
    }
}

/// A worker's bit.
fn set_of(index: u32) -> NonZeroU32 {
    NonZeroU32::new(1 << (index % u32::BITS)).expect("it is one bit")
}

/// State of a slot, as held in its claim word: the low half of the ring position it was
/// published at, then the owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// Nobody's.
    Free,
    /// Published at a position and not taken yet.
    Queued(u32),
    /// Taken back by the router before a worker took it.
    Cancelled(u32),
    /// Taken by a worker.
    Taken(u32, Owner),
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
            index if index < Owner::LIMIT => {
                Claim::Taken(ticket, Owner { index, incarnation: (word >> 16) as u16 })
            }
            _ => Claim::Free,
        }
    }
}

/// The router's private side of the queue; the region's copies of these are hints for workers.
#[derive(Debug)]
pub struct Producer {
    tail: u64,
    free: Vec<u32>,
    /// The position at which each slot was published that is in use.
    published: Vec<Option<u64>>,
}

/// A request was not published: entries of cancelled requests lie between ones that workers have
/// yet to take.
#[derive(Debug, PartialEq, Eq)]
pub struct Full;

impl Producer {
    /// Takes possession of a fresh region.
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

    /// The most recently used free slot: its pages are in memory and in the caches.
    pub fn take_slot(&mut self) -> Option<u32> {
        self.free.pop()
    }

    /// Whether a slot is free.
    pub fn has_slot(&self) -> bool {
        !self.free.is_empty()
    }

    /// Gives a slot back that was taken and is not in a worker's hands.
    pub fn release<M: AsRef<[AtomicU64]>>(&mut self, region: &Region<M>, slot: u32) {
        if let Some(words) = region.slot(slot) {
            words.claim.store(Claim::Free.encode(), Release);
            debug_assert!(!self.free.contains(&slot), "slot {slot} released twice");
            self.free.push(slot);
            self.published[slot as usize] = None;
        }
    }

    /// Makes a staged request visible to workers. Returns its ticket and which sleeping worker
    /// must be woken, if any.
    pub fn publish<M: AsRef<[AtomicU64]>>(
        &mut self,
        region: &Region<M>,
        slot: u32,
    ) -> Result<(u32, Option<Call>), Full> {
        let Some(words) = region.slot(slot) else { return Err(Full) };
        if self.waiting(region) >= region.entries() {
            // Workers that are busy pass nothing, and idle ones do not look before they are told
            // of this very request.
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

    /// What in the region can only be the work of a worker that has written where it should not:
    /// requests would wait for ever, or workers leave. `None` if nothing is.
    pub fn damage<M: AsRef<[AtomicU64]>>(&self, region: &Region<M>) -> Option<&'static str> {
        // Read before the claims: workers move it on after they have taken a request.
        let head = region.head().load(SeqCst);
        let ahead = self.tail.wrapping_sub(head);
        if region.tail().load(Relaxed) != self.tail || ahead > region.entries() {
            return Some("the ends of the queue");
        }
        let most = u64::from(Owner::LIMIT);
        if region.retire_word().load(Relaxed) > most || region.shed_word().load(Relaxed) > most {
            return Some("the number of workers that shall leave");
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
                _ => return Some("who has a request"),
            }
        }
        None
    }

    /// Entries that nobody has passed.
    fn waiting<M: AsRef<[AtomicU64]>>(&self, region: &Region<M>) -> u64 {
        self.tail.wrapping_sub(region.head().load(Acquire))
    }
}

impl<M: AsRef<[AtomicU64]>> Region<M> {
    /// Fills a slot that [`Producer::take_slot`] gave, for router thread `thread`. The request
    /// must fit [`Geometry::request_bytes`](crate::region::Geometry); `false` if it does not.
    pub fn stage(&self, slot: u32, thread: u32, request: &[u8]) -> bool {
        let Some(words) = self.slot(slot) else { return false };
        if request.len() > self.geometry().request_bytes as usize {
            return false;
        }
        store_bytes(self.request_area(slot), request);
        words.request_len.store(request.len() as u64, Relaxed);
        words.thread.store(u64::from(thread), Relaxed);
        words.aborted.store(0, Relaxed);
        words.consumed.store(0, Relaxed);
        words.written.store(0, Relaxed);
        words.waiting.store(0, Relaxed);
        words.started.store(0, Relaxed);
        true
    }

    /// Who has a slot. Anything that a worker may have scribbled reads as some state.
    pub fn claim_of(&self, slot: u32) -> Claim {
        self.slot(slot).map_or(Claim::Free, |words| Claim::decode(words.claim.load(Acquire)))
    }

    /// Takes a request back that no worker has taken yet; `true` if that succeeded.
    pub fn cancel(&self, slot: u32, ticket: u32) -> bool {
        self.slot(slot).is_some_and(|words| {
            let (from, to) = (Claim::Queued(ticket), Claim::Cancelled(ticket));
            words.claim.compare_exchange(from.encode(), to.encode(), AcqRel, Acquire).is_ok()
        })
    }

    /// Moves the head past entries whose requests nobody can take any more, up to `tail`.
    fn pass_cancelled(&self, tail: u64) {
        // No more turns than there are entries, whatever a worker writes to the head meanwhile.
        for _ in 0..self.entries() {
            let head = self.head().load(Acquire);
            let slot = self.entry(head).load(Acquire) as u32;
            if head == tail || self.claim_of(slot) == Claim::Queued(head as u32) {
                return;
            }
            let _ = self.head().compare_exchange(head, head.wrapping_add(1), AcqRel, Acquire);
        }
    }

    /// Asks workers to leave as soon as they are idle, as many as `count` says.
    pub fn retire(&self, count: u64) {
        self.retire_word().fetch_add(count, SeqCst);
        self.wake_word().fetch_add(1, SeqCst);
    }

    /// This many workers shall leave before they take another request, even if requests wait; 0
    /// takes back what was asked before.
    pub fn shed(&self, count: u64) {
        self.shed_word().store(count, SeqCst);
        if count > 0 {
            self.wake_word().fetch_add(1, SeqCst);
        }
    }

    /// A worker has ended, perhaps while it slept. Called before another process gets its number.
    /// Returns which one must be woken in its place, as [`Region::awake`] does.
    pub fn ended(&self, worker: Owner) -> Option<Call> {
        self.awake(worker)
    }

    /// Returns true if a worker waits for a request, or did so when it ended and
    /// [`Region::ended`] has not been called yet.
    pub fn is_asleep(&self, worker: Owner) -> bool {
        self.sleeper(worker).is_some_and(|(sleepers, bit)| sleepers.load(SeqCst) & bit != 0)
    }

    /// Asks all workers to leave when nothing is queued any more.
    pub fn close(&self) {
        self.closing().store(1, SeqCst);
        self.wake_word().fetch_add(1, SeqCst);
    }

    /// Whether workers are asked to leave when nothing is queued any more.
    pub fn is_closing(&self) -> bool {
        self.closing().load(Acquire) != 0
    }

    fn call_worker(&self) -> Option<Call> {
        self.first_sleeper()?;
        if self.calling().swap(1, SeqCst) != 0 {
            return None;
        }
        let Some(first) = self.first_sleeper() else {
            // The one that slept a moment ago has ended its sleep, and perhaps the call before
            // this one; nobody would end this one.
            self.calling().store(0, SeqCst);
            return None;
        };
        self.wake_word().fetch_add(1, SeqCst);
        Some(Call(set_of(first)))
    }

    /// Number of a worker that sleeps.
    fn first_sleeper(&self) -> Option<u32> {
        let words = self.sleepers().iter().map(|sleepers| sleepers.load(SeqCst));
        let (index, word) = words.enumerate().find(|(_, word)| *word != 0)?;
        Some(index as u32 * u64::BITS + word.trailing_zeros())
    }
}

/// What an idle worker finds.
#[derive(Debug, PartialEq, Eq)]
pub enum Work {
    /// A request: slot, ticket and the router thread that waits for the answer.
    Request {
        /// The slot, now this worker's.
        slot: u32,
        /// Identifies the request among all that used this slot.
        ticket: u32,
        /// Router thread to notify.
        thread: u64,
    },
    /// Nothing to do.
    Idle,
    /// Leave.
    Leave,
}

impl<M: AsRef<[AtomicU64]>> Region<M> {
    /// Worker side: takes the oldest request, if there is one.
    pub fn take(&self, me: Owner) -> Work {
        let leave = |count: u64| count.checked_sub(1);
        if self.shed_word().load(Relaxed) > 0
            && self.shed_word().fetch_update(AcqRel, Acquire, leave).is_ok()
        {
            return Work::Leave;
        }
        loop {
            let head = self.head().load(Acquire);
            let waiting = self.tail().load(SeqCst).wrapping_sub(head);
            if waiting == 0 || waiting > self.entries() && head == self.head().load(Acquire) {
                // Nothing, or more than there are entries although nobody has moved the head
                // between the two looks: then another worker has written nonsense.
                break;
            }
            let slot = self.entry(head).load(Acquire) as u32;
            let ticket = head as u32;
            let mine = self.slot(slot).is_some_and(|words| {
                let (from, to) = (Claim::Queued(ticket), Claim::Taken(ticket, me));
                words.claim.compare_exchange(from.encode(), to.encode(), AcqRel, Acquire).is_ok()
            });
            // Whoever looked at the entry moves on, also past one that another worker has just
            // taken and not yet passed.
            let _ = self.head().compare_exchange(head, head.wrapping_add(1), AcqRel, Acquire);
            if mine {
                let thread = self.slot(slot).map_or(0, |words| words.thread.load(Relaxed));
                return Work::Request { slot, ticket, thread };
            }
        }
        if self.retire_word().fetch_update(AcqRel, Acquire, leave).is_ok() || self.is_closing() {
            return Work::Leave;
        }
        Work::Idle
    }

    /// Worker side: this worker looks for the next request in place of sleeping, so nobody needs to
    /// be called for it; [`Region::awake`] ends it. `false` if another one is on its way.
    pub fn stay_awake(&self) -> bool {
        self.calling().swap(1, SeqCst) == 0
    }

    /// Worker side: whether a request may be waiting.
    pub fn has_entries(&self) -> bool {
        self.tail().load(Relaxed) != self.head().load(Relaxed)
    }

    /// Worker side: announces that this worker is going to wait on [`Region::wake_word`] for a
    /// value other than the one returned, with its [`Owner::wait_set`]. Look for work once more before waiting, and once more
    /// after it; then call [`Region::awake`].
    pub fn going_to_sleep(&self, me: Owner) -> u32 {
        let sequence = self.wake_word().load(SeqCst) as u32;
        if let Some((sleepers, bit)) = self.sleeper(me) {
            sleepers.fetch_or(bit, SeqCst);
        }
        sequence
    }

    /// Worker side: ends what [`Region::going_to_sleep`] or [`Region::stay_awake`] announced. Returns which one must be woken
    /// as well, because there is more to do.
    pub fn awake(&self, me: Owner) -> Option<Call> {
        if let Some((sleepers, bit)) = self.sleeper(me) {
            sleepers.fetch_and(!bit, SeqCst);
        }
        // In this order: what is published before is seen here, and what is published afterwards
        // calls somebody itself.
        self.calling().store(0, SeqCst);
        if self.tail().load(SeqCst) == self.head().load(SeqCst) {
            return None;
        }
        self.call_worker()
    }

    fn sleeper(&self, worker: Owner) -> Option<(&AtomicU64, u64)> {
        let word = self.sleepers().get(usize::from(worker.index / 64))?;
        Some((word, 1 << (worker.index % 64)))
    }

    /// Worker side: copies the encoded request of a slot out of shared memory.
    pub fn request(&self, slot: u32, out: &mut Vec<u8>) {
        out.clear();
        if let Some(words) = self.slot(slot) {
            let len = words.request_len.load(Relaxed) as usize;
            let len = len.min(self.geometry().request_bytes as usize);
            load_bytes(self.request_area(slot), len, out);
        }
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
