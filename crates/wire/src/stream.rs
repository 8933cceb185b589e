//! Responses of workers: each slot has a byte ring of frames, written by the worker that has the
//! slot and read by the router thread that waits for it.
//!
//! A frame is a header word (kind in the low byte, length of the payload in the high half) and the
//! payload, padded to whole words. Positions count bytes since the request was staged. The writer
//! publishes complete frames only, marks the slot dirty for its router thread, and reports whether
//! the thread sleeps and must be woken; the reader checks every length against the number of bytes
//! written.

use std::sync::atomic::{AtomicU64, Ordering::*};

use howdah_sys::shared_copy;

use crate::region::Region;

/// Error: a worker has damaged the ring; with a description.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Corrupt(pub &'static str);

/// Values of the word that says whether a router thread sleeps.
const AWAKE: u64 = 0;
const SLEEPS: u64 = 1;
const SLEEPS_BRIEFLY: u64 = 2;

/// Result of a write: tells whether a router thread must be woken for the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// The thread is awake.
    NotNeeded,
    /// The thread sleeps, and its eventfd must be written.
    Needed,
    /// The thread sleeps for a moment: its eventfd may be written later, together with other
    /// responses.
    MayWait,
}

/// Writes the response into a slot. For workers.
#[derive(Debug)]
pub struct Writer {
    slot: u32,
    thread: u64,
    written: u64,
    published: u64,
}

impl Writer {
    /// Creates a writer for a slot that this worker has taken.
    pub fn new(slot: u32, thread: u64) -> Self {
        Writer { slot, thread, written: 0, published: 0 }
    }

    /// Returns the maximum payload of a frame in bytes: a quarter of the ring, so that the router
    /// can read one part while the worker writes the next.
    pub fn max_payload<M: AsRef<[AtomicU64]>>(region: &Region<M>) -> usize {
        region.geometry().response_bytes as usize / 4 - 8
    }

    /// Writes a frame without publishing it. Returns false if there is no room: the caller then
    /// publishes, waits for room, and tries again. `payload` must not exceed
    /// [`Writer::max_payload`].
    pub fn put<M: AsRef<[AtomicU64]>>(
        &mut self,
        region: &Region<M>,
        kind: u8,
        payload: &[u8],
    ) -> bool {
        let Some(words) = region.slot(self.slot) else { return false };
        let capacity = u64::from(region.geometry().response_bytes);
        let need = 8 + (payload.len() as u64).next_multiple_of(8);
        let used = self.written.wrapping_sub(words.consumed.load(Acquire));
        if need > capacity.saturating_sub(used) {
            return false;
        }
        let area = region.response_area(self.slot);
        let at = |position: u64| (position % capacity / 8) as usize;
        area[at(self.written)].store(u64::from(kind) | (payload.len() as u64) << 32, Relaxed);
        let start = at(self.written + 8);
        let until_end = (area.len() - start) * 8;
        let (first, second) = payload.split_at(payload.len().min(until_end));
        shared_copy::store(&area[start..], first);
        shared_copy::store(area, second);
        self.written += need;
        true
    }

    /// Returns the number of bytes written and not yet published.
    pub fn unpublished(&self) -> u64 {
        self.written - self.published
    }

    /// Returns true if frames have been published.
    pub fn has_published(&self) -> bool {
        self.published > 0
    }

    /// Publishes all written frames. Returns true if the router thread sleeps and its eventfd must
    /// be written.
    pub fn publish<M: AsRef<[AtomicU64]>>(&mut self, region: &Region<M>) -> bool {
        self.mark_dirty(region);
        region.take_sleep(self.thread)
    }

    /// Publishes the last frames of a response. Like [`Writer::publish`], but leaves a thread
    /// asleep that looks for responses by itself in a moment.
    pub fn publish_last<M: AsRef<[AtomicU64]>>(&mut self, region: &Region<M>) -> Wake {
        self.mark_dirty(region);
        let sleep = region.sleeping(self.thread).map_or(AWAKE, |word| word.load(SeqCst));
        if sleep == SLEEPS_BRIEFLY {
            Wake::MayWait
        } else if region.take_sleep(self.thread) {
            Wake::Needed
        } else {
            Wake::NotNeeded
        }
    }

    fn mark_dirty<M: AsRef<[AtomicU64]>>(&mut self, region: &Region<M>) {
        self.published = self.written;
        let Some(words) = region.slot(self.slot) else { return };
        words.written.store(self.written, Release);
        if let Some(dirty) = region.dirty(self.thread) {
            dirty[self.slot as usize / 64].fetch_or(1 << (self.slot % 64), SeqCst);
        }
    }

    /// Announces that this worker will wait on the slot's `space` word while it has the returned
    /// value; `None` if there is room for `payload` bytes by now.
    pub fn wait_for_room<M: AsRef<[AtomicU64]>>(
        &self,
        region: &Region<M>,
        payload: usize,
    ) -> Option<u32> {
        let words = region.slot(self.slot)?;
        let sequence = words.space.load(SeqCst) as u32;
        words.waiting.store(1, SeqCst);
        let used = self.written.wrapping_sub(words.consumed.load(SeqCst));
        let capacity = u64::from(region.geometry().response_bytes);
        let need = 8 + (payload as u64).next_multiple_of(8);
        if need <= capacity.saturating_sub(used) {
            words.waiting.store(0, SeqCst);
            return None;
        }
        Some(sequence)
    }
}

/// Frame at the front of the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// Type of the frame.
    pub kind: u8,
    /// Length of the payload in bytes.
    pub len: usize,
    /// Number of bytes in the ring after this frame.
    pub behind: usize,
}

/// Reads the response from a slot. For the router.
#[derive(Debug, Default)]
pub struct Reader {
    consumed: u64,
    /// Part of `consumed` that the worker may overwrite.
    released: u64,
}

impl Reader {
    /// Returns the next frame without taking it; `None` if there is none.
    ///
    /// Between two calls of [`Reader::release`] no more bytes are returned than the ring has: a
    /// worker that overwrites frames too early cannot keep the reader busy.
    pub fn peek<M: AsRef<[AtomicU64]>>(
        &self,
        region: &Region<M>,
        slot: u32,
    ) -> Result<Option<Frame>, Corrupt> {
        let Some(words) = region.slot(slot) else { return Err(Corrupt("no such slot")) };
        let capacity = u64::from(region.geometry().response_bytes);
        let written = words.written.load(Acquire);
        let available = written.wrapping_sub(self.consumed);
        if available == 0 {
            return Ok(None);
        }
        // Consumed bytes count until they are released. A counter that went back gives a very large
        // number.
        let held = written.wrapping_sub(self.released);
        if available > held || held > capacity || !available.is_multiple_of(8) {
            return Err(Corrupt("more than the ring holds"));
        }
        let area = region.response_area(slot);
        let header = area[(self.consumed % capacity / 8) as usize].load(Relaxed);
        let len = (header >> 32) as usize;
        let need = 8 + (len as u64).next_multiple_of(8);
        let Some(behind) = available.checked_sub(need) else {
            return Err(Corrupt("a frame longer than the bytes that were written"));
        };
        Ok(Some(Frame { kind: header as u8, len, behind: behind as usize }))
    }

    /// Takes the frame that [`Reader::peek`] has just returned, and appends its payload to `out`.
    pub fn take<M: AsRef<[AtomicU64]>>(
        &mut self,
        region: &Region<M>,
        slot: u32,
        frame: Frame,
        out: &mut Vec<u8>,
    ) {
        let capacity = u64::from(region.geometry().response_bytes);
        let area = region.response_area(slot);
        let start = ((self.consumed + 8) % capacity / 8) as usize;
        let first = frame.len.min((area.len() - start) * 8);
        shared_copy::load(&area[start..], first, out);
        shared_copy::load(area, frame.len - first, out);
        self.consumed += 8 + (frame.len as u64).next_multiple_of(8);
    }

    /// Takes the next frame. Returns its type and appends its payload to `out`.
    pub fn next<M: AsRef<[AtomicU64]>>(
        &mut self,
        region: &Region<M>,
        slot: u32,
        out: &mut Vec<u8>,
    ) -> Result<Option<u8>, Corrupt> {
        let Some(frame) = self.peek(region, slot)? else { return Ok(None) };
        self.take(region, slot, frame, out);
        Ok(Some(frame.kind))
    }

    /// Releases the bytes that were taken. Returns true if the worker waits for room and must be
    /// woken through the slot's `space` word.
    pub fn release<M: AsRef<[AtomicU64]>>(&mut self, region: &Region<M>, slot: u32) -> bool {
        let Some(words) = region.slot(slot) else { return false };
        self.released = self.consumed;
        words.consumed.store(self.consumed, SeqCst);
        if words.waiting.load(SeqCst) == 0 || words.waiting.swap(0, SeqCst) == 0 {
            return false;
        }
        words.space.fetch_add(1, SeqCst);
        true
    }
}

impl<M: AsRef<[AtomicU64]>> Region<M> {
    /// Returns true if a slot has been marked dirty. For the router.
    pub fn is_dirty(&self, thread: u32) -> bool {
        self.dirty(u64::from(thread))
            .is_some_and(|dirty| dirty.iter().any(|word| word.load(Relaxed) != 0))
    }

    /// Prepares a router thread for waiting: from now on workers write its eventfd. `is_brief`: the
    /// thread looks for responses within a few milliseconds anyway. Returns true if a slot is dirty
    /// already; then the thread must not wait.
    pub fn thread_sleeps(&self, thread: u32, is_brief: bool) -> bool {
        let thread = u64::from(thread);
        let (Some(dirty), Some(sleeping)) = (self.dirty(thread), self.sleeping(thread)) else {
            return false;
        };
        sleeping.store(if is_brief { SLEEPS_BRIEFLY } else { SLEEPS }, SeqCst);
        let found = dirty.iter().any(|word| word.load(SeqCst) != 0);
        if found {
            sleeping.store(AWAKE, SeqCst);
        }
        found
    }

    /// Ends the sleep of a router thread for a worker. Returns true if the thread has slept: then
    /// the worker must write its eventfd.
    pub fn take_sleep(&self, thread: u64) -> bool {
        self.sleeping(thread).is_some_and(|sleeping| {
            sleeping.load(SeqCst) != AWAKE && sleeping.swap(AWAKE, SeqCst) != AWAKE
        })
    }

    /// Ends the waiting of a router thread: workers need not write its eventfd.
    pub fn thread_wakes(&self, thread: u32) {
        if let Some(sleeping) = self.sleeping(u64::from(thread)) {
            sleeping.store(AWAKE, Relaxed);
        }
    }

    /// Calls `each` for every slot marked dirty since the last call. For the router.
    pub fn take_dirty(&self, thread: u32, mut each: impl FnMut(u32)) {
        let Some(dirty) = self.dirty(u64::from(thread)) else { return };
        for (index, word) in dirty.iter().enumerate() {
            if word.load(Relaxed) == 0 {
                continue;
            }
            let mut bits = word.swap(0, SeqCst);
            while bits != 0 {
                each(index as u32 * 64 + bits.trailing_zeros());
                bits &= bits - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests;
