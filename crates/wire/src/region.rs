//! Layout of the memory that the router shares with the workers of one application.
//!
//! The region is an array of 64-bit atomics, so that no access is a data race, regardless of other
//! processes. All offsets follow from the [`Geometry`], which all processes get from the
//! supervisor's messages and never from the region.
//!
//! ```text
//! head line      producer's tail │ consumers' head
//!                wake sequence, calling │ retire, closing, shed, ended profile
//! sleepers       one bit per worker: whether it sleeps
//! entries        ring of slot numbers, twice as many as there are slots
//! threads        per router thread: sleeping flag, then one dirty bit per slot
//! slots          per slot: claim, owner thread, lengths, flags │ written, waiting
//! requests       per slot: the encoded request
//! responses      per slot: a byte ring of frames
//! ```

use std::sync::atomic::AtomicU64;

/// Number of words per cache line. Words that different processors write are on different lines.
const LINE: usize = 8;

/// Number of words per page. Payload areas begin on a page, so that an unused slot costs no memory.
const PAGE: usize = 512;

/// Sizes of a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Maximum number of requests queued in slots or running; a power of two, at most 4096.
    pub slots: u32,
    /// Number of router threads, 1 to 64.
    pub threads: u32,
    /// Size in bytes of a slot's area for the encoded request; a multiple of 4096.
    pub request_bytes: u32,
    /// Size in bytes of a slot's response ring; a power of two, at least 8192.
    pub response_bytes: u32,
}

impl Geometry {
    /// Returns a geometry for `workers` workers and as many waiting requests.
    pub fn for_pool(workers: u32, threads: u32) -> Self {
        Geometry {
            slots: (workers.clamp(1, 2048) * 2).next_power_of_two(),
            threads: threads.clamp(1, 64),
            request_bytes: 32 * 1024,
            response_bytes: 128 * 1024,
        }
    }

    /// Checks a geometry from a message.
    pub fn check(self) -> Result<Self, &'static str> {
        if !self.slots.is_power_of_two() || self.slots > 4096 {
            return Err("slots: not a power of two up to 4096");
        }
        if self.threads == 0 || self.threads > 64 {
            return Err("threads: not within 1 to 64");
        }
        if self.request_bytes == 0
            || !self.request_bytes.is_multiple_of(4096)
            || self.request_bytes > 1 << 24
        {
            return Err("request_bytes: not a multiple of 4096 up to 16 MiB");
        }
        let response = self.response_bytes;
        if !response.is_power_of_two() || !(8192..=1 << 24).contains(&response) {
            return Err("response_bytes: not a power of two from 8 KiB to 16 MiB");
        }
        Ok(self)
    }

    /// Returns the size of the region in bytes, a multiple of the page size.
    pub fn region_bytes(self) -> usize {
        Layout::new(self).total * 8
    }
}

/// Word offsets, computed from a geometry.
#[derive(Debug, Clone, Copy)]
struct Layout {
    sleepers: usize,
    entries: usize,
    threads: usize,
    thread_words: usize,
    slots: usize,
    requests: usize,
    request_words: usize,
    responses: usize,
    response_words: usize,
    total: usize,
}

const TAIL: usize = 0;
const HEAD: usize = LINE;
const WAKE: usize = 2 * LINE;
const CALLING: usize = 2 * LINE + 1;
const RETIRE: usize = 3 * LINE;
const CLOSING: usize = 3 * LINE + 1;
const SHED: usize = 3 * LINE + 2;
const ENDED_PROFILE: usize = 3 * LINE + 3;
const FIXED: usize = 4 * LINE;

const SLOT_WORDS: usize = 2 * LINE;

impl Layout {
    fn new(geometry: Geometry) -> Self {
        let slots = geometry.slots as usize;
        let sleepers = FIXED;
        let entries = (sleepers + slots.div_ceil(64)).next_multiple_of(LINE);
        let threads = (entries + slots * 2).next_multiple_of(LINE);
        let thread_words = LINE + slots.div_ceil(64).next_multiple_of(LINE);
        let slot_lines = threads + thread_words * geometry.threads as usize;
        let requests = (slot_lines + slots * SLOT_WORDS).next_multiple_of(PAGE);
        let request_words = geometry.request_bytes as usize / 8;
        let responses = requests + slots * request_words;
        let response_words = geometry.response_bytes as usize / 8;
        Layout {
            sleepers,
            entries,
            threads,
            thread_words,
            slots: slot_lines,
            requests,
            request_words,
            responses,
            response_words,
            total: responses + slots * response_words,
        }
    }
}

/// A mapped region. `M` owns the mapping.
#[derive(Debug)]
pub struct Region<M> {
    memory: M,
    geometry: Geometry,
    layout: Layout,
}

/// Control words of one slot.
#[derive(Debug)]
pub struct SlotWords<'a> {
    /// Owner of the slot; see [`crate::queue::Claim`].
    pub claim: &'a AtomicU64,
    /// Router thread that waits for the response.
    pub thread: &'a AtomicU64,
    /// Length of the encoded request in bytes.
    pub request_len: &'a AtomicU64,
    /// Not 0 once the client has closed its connection.
    pub aborted: &'a AtomicU64,
    /// Number of bytes of the response ring that the router has taken.
    pub consumed: &'a AtomicU64,
    /// Counter, incremented when the router has made room; workers wait on it.
    pub space: &'a AtomicU64,
    /// Number of bytes of the response ring that the worker has written.
    pub written: &'a AtomicU64,
    /// Not 0 while the worker waits for room.
    pub waiting: &'a AtomicU64,
    /// Time at which the worker took the request, on the monotonic clock in microseconds; 0 before.
    pub started: &'a AtomicU64,
}

impl<M: AsRef<[AtomicU64]>> Region<M> {
    /// Creates a region in memory of at least [`Geometry::region_bytes`]; `None` if it is smaller.
    pub fn new(memory: M, geometry: Geometry) -> Option<Self> {
        let layout = Layout::new(geometry);
        (memory.as_ref().len() >= layout.total).then_some(Region { memory, geometry, layout })
    }

    /// Returns the geometry of this region.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        &self.memory.as_ref()[index]
    }

    pub(crate) fn tail(&self) -> &AtomicU64 {
        self.word(TAIL)
    }

    pub(crate) fn head(&self) -> &AtomicU64 {
        self.word(HEAD)
    }

    /// Returns the wake counter, incremented when idle workers are woken; they wait on its low
    /// half.
    pub fn wake_word(&self) -> &AtomicU64 {
        self.word(WAKE)
    }

    /// Returns the `calling` word: not 0 from waking a worker until one has woken.
    pub(crate) fn calling(&self) -> &AtomicU64 {
        self.word(CALLING)
    }

    /// Returns the words with one bit for each worker, set while it sleeps. There are at least
    /// twice as many bits as workers.
    pub(crate) fn sleepers(&self) -> &[AtomicU64] {
        let start = self.layout.sleepers;
        &self.memory.as_ref()[start..start + (self.geometry.slots as usize).div_ceil(64)]
    }

    pub(crate) fn retire_word(&self) -> &AtomicU64 {
        self.word(RETIRE)
    }

    pub(crate) fn closing(&self) -> &AtomicU64 {
        self.word(CLOSING)
    }

    pub(crate) fn shed_word(&self) -> &AtomicU64 {
        self.word(SHED)
    }

    /// Returns the word with the [`end_us`](crate::profile::Order::end_us) of the profile that ended
    /// last: workers take no more samples for it, although its time may not be over.
    pub fn ended_profile(&self) -> &AtomicU64 {
        self.word(ENDED_PROFILE)
    }

    /// Returns the ring entry for a position. The ring has twice as many entries as there are
    /// slots, because an entry of a cancelled request stays until a worker has passed it.
    pub(crate) fn entry(&self, position: u64) -> &AtomicU64 {
        self.word(self.layout.entries + (position % self.entries()) as usize)
    }

    pub(crate) fn entries(&self) -> u64 {
        u64::from(self.geometry.slots) * 2
    }

    /// Returns the sleeping flag of a router thread; `None` if the thread does not exist.
    pub(crate) fn sleeping(&self, thread: u64) -> Option<&AtomicU64> {
        (thread < u64::from(self.geometry.threads))
            .then(|| self.word(self.layout.threads + self.layout.thread_words * thread as usize))
    }

    /// Returns the dirty bits of a router thread, 64 slots a word.
    pub(crate) fn dirty(&self, thread: u64) -> Option<&[AtomicU64]> {
        if thread >= u64::from(self.geometry.threads) {
            return None;
        }
        let start = self.layout.threads + self.layout.thread_words * thread as usize + LINE;
        Some(&self.memory.as_ref()[start..start + (self.geometry.slots as usize).div_ceil(64)])
    }

    /// Returns the control words of a slot; `None` if the slot does not exist.
    pub fn slot(&self, slot: u32) -> Option<SlotWords<'_>> {
        if slot >= self.geometry.slots {
            return None;
        }
        let start = self.layout.slots + SLOT_WORDS * slot as usize;
        let words = &self.memory.as_ref()[start..][..SLOT_WORDS];
        Some(SlotWords {
            claim: &words[0],
            thread: &words[1],
            request_len: &words[2],
            aborted: &words[3],
            consumed: &words[4],
            space: &words[5],
            written: &words[LINE],
            waiting: &words[LINE + 1],
            started: &words[LINE + 2],
        })
    }

    pub(crate) fn request_area(&self, slot: u32) -> &[AtomicU64] {
        let start = self.layout.requests + self.layout.request_words * slot as usize;
        &self.memory.as_ref()[start..start + self.layout.request_words]
    }

    pub(crate) fn response_area(&self, slot: u32) -> &[AtomicU64] {
        let start = self.layout.responses + self.layout.response_words * slot as usize;
        &self.memory.as_ref()[start..start + self.layout.response_words]
    }
}

#[cfg(test)]
mod tests;
