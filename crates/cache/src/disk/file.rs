//! A file as threads of requests use it: writes are handed to the thread of the file, removals are
//! done at once.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::index::{Index, Missed};
use super::journal::{self, Record};
use super::record::{self, PREFIX, Prefix, Stored, variant_of};
use super::trouble::Trouble;
use crate::entry::{Content, Entry};
use crate::memory::Owner;
use crate::space::content::DiskContent;
use crate::space::layout::{self, Geometry, Sum, hash_of_key};
use crate::space::{Object, Space};

/// Content up to this size goes into memory; larger content is sent from the file. Static files
/// have the same limit.
pub const MAX_IN_MEMORY: u64 = 256 << 10;

/// Memory that an object takes in the index, roughly.
const INDEX_BYTES: u64 = 256;

/// Maximum number of bytes that wait to be written.
const MAX_WAITING: u64 = 16 << 20;

/// Bytes per read of content that is compared with its checksum.
const READ: usize = 256 << 10;

/// The file of a store.
#[derive(Debug)]
pub struct Disk {
    size: u64,
    pub(super) max_objects: usize,
    state: Mutex<State>,
    pub(super) journal: Mutex<Option<Journal>>,
    opened: OnceLock<Opened>,
    /// Bytes that wait to be written.
    pub(super) waiting: AtomicU64,
    pub(super) has_failed: AtomicBool,
    trouble: Mutex<Trouble>,
    /// Number of failed reads and writes.
    pub errors: AtomicU64,
    /// Number of responses that were read.
    pub reads: AtomicU64,
}

/// The index of the file, and the changes that it does not have yet.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) index: Index,
    /// `None` once the index has the contents of the file.
    pub(super) missed: Option<Missed>,
}

#[derive(Debug)]
struct Opened {
    space: Arc<Space>,
    jobs: Sender<Job>,
}

/// Work of the thread.
#[derive(Debug)]
pub(super) enum Job {
    /// Writes a response.
    Write {
        /// Number of the object.
        id: u64,
        /// Hash of the key.
        hash: u128,
        /// Hash of the fields that select it.
        variant: u64,
        /// Bytes that count as waiting.
        weight: u64,
        /// The key.
        key: Box<[u8]>,
        /// The owner.
        owner: Arc<Owner>,
        /// The response.
        entry: Arc<Entry>,
    },
    /// Ends the use of the file, and says so.
    Close(Sender<()>),
}

/// The half of the journal that is in use.
#[derive(Debug)]
pub(super) struct Journal {
    pub(super) space: Arc<Space>,
    pub(super) half: usize,
    pub(super) generation: u64,
    /// Offset of the next record.
    pub(super) end: usize,
}

impl Disk {
    /// Returns a file of at most `size` bytes that is not open yet, for a store with so much
    /// memory.
    pub fn new(size: u64, memory: u64) -> Disk {
        Disk {
            size,
            max_objects: usize::try_from(memory / INDEX_BYTES).unwrap_or(usize::MAX),
            state: Mutex::new(State { missed: Some(Missed::default()), ..State::default() }),
            journal: Mutex::default(),
            opened: OnceLock::new(),
            waiting: AtomicU64::new(0),
            has_failed: AtomicBool::new(false),
            trouble: Mutex::default(),
            errors: AtomicU64::new(0),
            reads: AtomicU64::new(0),
        }
    }

    /// Takes the open file, which has no other user. Returns the space and the jobs for its thread;
    /// `None` if there is a file already.
    pub(super) fn take(&self, file: File) -> Option<(Arc<Space>, Receiver<Job>)> {
        let space = Space::new(file, Geometry::of(self.size));
        let (jobs, receiver) = channel();
        let opened = Opened { space: Arc::clone(&space), jobs };
        if !self.is_open() {
            *self.trouble() = Trouble::default();
        }
        self.opened.set(opened).is_ok().then_some((space, receiver))
    }

    /// Returns true if the file has been given.
    pub fn is_open(&self) -> bool {
        self.opened.get().is_some()
    }

    /// Records why it cannot be opened. When it is open at last, that is forgotten.
    pub fn cannot_be_opened(&self, error: &str) {
        self.trouble().cannot_be_opened(error);
    }

    /// Returns why responses are not kept in the file, and the remedy; `None` if they are.
    pub fn problem(&self, now: Instant) -> Option<String> {
        self.trouble().problem(self.is_open(), now)
    }

    pub(super) fn trouble(&self) -> MutexGuard<'_, Trouble> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if the file is in use.
    pub fn is_ready(&self) -> bool {
        self.state().missed.is_none() && !self.has_failed.load(Relaxed)
    }

    /// Returns the maximum size.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the number of objects, and the bytes of their chunks.
    pub fn usage(&self) -> (u64, u64) {
        let objects = self.state().index.objects() as u64;
        let used = self.opened.get().map_or(0, |opened| {
            u64::from(opened.space.geometry.chunks - opened.space.free()) * layout::CHUNK
        });
        (objects, used)
    }

    /// Queues a response for writing; it replaces the older one. Returns the objects to
    /// [`Disk::erase`].
    pub fn put(&self, key: &[u8], owner: &Arc<Owner>, entry: &Arc<Entry>) -> Vec<Arc<Object>> {
        let (hash, variant) = (hash_of_key(key), variant_of(entry));
        let mut state = self.state();
        if let Some(missed) = &mut state.missed {
            missed.add(hash);
            return Vec::new();
        }
        let Some(opened) = self.opened.get().filter(|_| !self.has_failed.load(Relaxed)) else {
            return Vec::new();
        };
        let (id, removed) = state.index.reserve(hash, variant);
        let weight = entry.weight() as u64;
        let waiting = self.waiting.fetch_add(weight, Relaxed);
        let job = Job::Write {
            id,
            hash,
            variant,
            weight,
            key: key.into(),
            owner: Arc::clone(owner),
            entry: Arc::clone(entry),
        };
        if waiting > MAX_WAITING || opened.jobs.send(job).is_err() {
            self.waiting.fetch_sub(weight, Relaxed);
            state.index.remove(hash, |_, other| other == id);
        }
        removed
    }

    /// Removes the responses of a key. Returns the objects to [`Disk::erase`].
    pub fn remove(&self, key: &[u8]) -> Vec<Arc<Object>> {
        let mut state = self.state();
        let hash = hash_of_key(key);
        match &mut state.missed {
            Some(missed) => {
                missed.add(hash);
                Vec::new()
            }
            None => state.index.remove(hash, |_, _| true),
        }
    }

    /// Removes one response of a key. Returns the objects to [`Disk::erase`].
    pub fn remove_one(&self, key: &[u8], entry: &Entry) -> Vec<Arc<Object>> {
        let wanted = variant_of(entry);
        self.state().index.remove(hash_of_key(key), |variant, _| variant == wanted)
    }

    /// Removes everything that a purge of everything concerns, which the journal has.
    pub fn clear(&self) {
        let mut state = self.state();
        match &mut state.missed {
            Some(missed) => missed.add_all(),
            None => state.index.clear(),
        }
    }

    /// Sees to it that removed objects do not exist after a restart.
    pub fn erase(&self, removed: &[Arc<Object>]) {
        for object in removed {
            if !self.has_failed.load(Relaxed) && object.erase().is_err() {
                self.fail();
            }
        }
    }

    /// Returns the objects of a key but those like the responses that memory has.
    pub fn find(&self, key: &[u8], known: &[Arc<Entry>]) -> Vec<Arc<Object>> {
        let known: Vec<_> = known.iter().map(|entry| variant_of(entry)).collect();
        self.state().index.find(hash_of_key(key), &known)
    }

    /// Returns all objects, the newest first. Takes time in proportion to their number.
    pub fn all(&self) -> Vec<Arc<Object>> {
        let mut all = self.state().index.all();
        all.sort_unstable_by_key(|object| std::cmp::Reverse(object.line.id));
        all
    }

    /// Returns true if the file has this response of a key, too.
    pub fn has_entry(&self, key: &[u8], entry: &Entry) -> bool {
        self.state().index.has_variant(hash_of_key(key), variant_of(entry))
    }

    /// Returns true if an object has not been replaced or removed.
    pub fn has(&self, object: &Object) -> bool {
        self.state().index.has(object)
    }

    /// Reads an object. `None` if it is not that of the key, or damaged; then it is removed.
    /// Blocks.
    pub fn read(&self, object: &Arc<Object>, key: &[u8]) -> Option<Stored> {
        let read = read(object).ok().flatten();
        if read.is_none() {
            self.errors.fetch_add(1, Relaxed);
        }
        let read = read.filter(|stored| stored.key == key);
        self.reads.fetch_add(1, Relaxed);
        if read.is_none() {
            let id = object.line.id;
            let removed = self.state().index.remove(object.line.key, |_, other| other == id);
            self.erase(&removed);
        }
        read
    }

    /// Writes the effect of a purge, which has taken place. `state` returns that of all purges, by
    /// group.
    pub fn record(&self, record: &Record, state: impl FnOnce() -> Vec<Vec<Record>>) {
        let mut journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        let written = match &mut *journal {
            Some(journal) => journal.append(record, state),
            None => Ok(()), // the state is written when the file is ready
        };
        if written.is_err() {
            self.fail();
        }
    }

    /// Ends the use of the file, so that it can be used after a restart of the machine. Waits for
    /// that at most for `timeout`.
    pub fn close(&self, timeout: Duration) {
        let Some(opened) = self.opened.get() else { return };
        let (done, closed) = channel();
        if opened.jobs.send(Job::Close(done)).is_ok() {
            let _ = closed.recv_timeout(timeout);
        }
    }

    /// Uses the file no more, and makes it worthless for the next start: its responses could not be
    /// removed.
    pub(super) fn fail(&self) {
        self.errors.fetch_add(1, Relaxed);
        self.trouble().given_up();
        self.has_failed.store(true, Relaxed);
        self.state().index.clear();
        if let Some(opened) = self.opened.get() {
            let file = &opened.space.file;
            // Without its header, the file begins empty at the next start. Its content stays: it
            // may be on its way to clients, and a response that is being written would fill the
            // rest with zeros.
            let _ = file.write_all_at(&[0; 64], 0).or_else(|_| file.set_len(0));
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Journal {
    fn append(
        &mut self,
        record: &Record,
        state: impl FnOnce() -> Vec<Vec<Record>>,
    ) -> io::Result<()> {
        let geometry = &self.space.geometry;
        let size = usize::try_from(geometry.journal).unwrap_or(0);
        let mut bytes = Vec::new();
        journal::frame(record, self.generation, &mut bytes);
        if self.end + bytes.len() > size {
            return self.rotate(state());
        }
        let place = geometry.half(self.half) + self.end as u64;
        self.space.file.write_all_at(&bytes, place)?;
        self.end += bytes.len();
        Ok(())
    }

    /// Continues in the other half, with the state of all purges.
    pub(super) fn rotate(&mut self, state: Vec<Vec<Record>>) -> io::Result<()> {
        let geometry = &self.space.geometry;
        let size = usize::try_from(geometry.journal).unwrap_or(0);
        let (half, generation) = (1 - self.half, self.generation + 1);
        let (bytes, end) = journal::half(generation, state, size);
        let place = geometry.half(half);
        // The header at last: it makes the half valid.
        let (header, rest) = bytes.split_at(journal::HEADER.min(bytes.len()));
        self.space.file.write_all_at(&[0; journal::HEADER], place)?;
        self.space.file.write_all_at(rest, place + header.len() as u64)?;
        self.space.file.write_all_at(header, place)?;
        // Otherwise damage to this header would make the old half, without later purges, count.
        self.space.file.write_all_at(&[0; journal::HEADER], geometry.half(self.half))?;
        (self.half, self.generation, self.end) = (half, generation, end);
        Ok(())
    }
}

/// Reads an object and compares it with its checksums. `None` if it is damaged.
fn read(object: &Arc<Object>) -> io::Result<Option<Stored>> {
    let Some((prefix, description)) = description(object)? else { return Ok(None) };
    let content = if prefix.content <= MAX_IN_MEMORY {
        let mut bytes = vec![0; usize::try_from(prefix.content).map_err(io::Error::other)?];
        object.read(prefix.head(), &mut bytes)?;
        let is_whole = layout::sum(&[&bytes]) == prefix.content_sum;
        is_whole.then(|| Content::from(Bytes::from(bytes)))
    } else {
        let is_whole = object.is_verified.load(Relaxed) || verify(object, &prefix)?;
        object.is_verified.store(is_whole, Relaxed);
        let content = || DiskContent::new(Arc::clone(object), prefix.head(), prefix.content);
        is_whole.then(|| Content::Disk(content()))
    };
    Ok(content.and_then(|content| record::decode(&description, content)))
}

/// Reads the description of an object. `None` if it is damaged.
fn description(object: &Object) -> io::Result<Option<(Prefix, Vec<u8>)>> {
    let mut start = [0; PREFIX];
    object.read(0, &mut start)?;
    let Some(prefix) = Prefix::decode(&start) else { return Ok(None) };
    let fits = prefix.total().is_some_and(|total| total <= object.capacity());
    if prefix.id != object.line.id || !fits {
        return Ok(None);
    }
    let mut description = vec![0; prefix.description];
    object.read(PREFIX as u64, &mut description)?;
    Ok(prefix.is_of(&start, &description).then_some((prefix, description)))
}

/// Reads an object without its content. `None` if it cannot be read. Blocks.
pub fn peek(object: &Arc<Object>) -> Option<Stored> {
    let (prefix, description) = description(object).ok().flatten()?;
    let content = DiskContent::new(Arc::clone(object), prefix.head(), prefix.content);
    record::decode(&description, Content::Disk(content))
}

fn verify(object: &Object, prefix: &Prefix) -> io::Result<bool> {
    let mut sum = Sum::default();
    let mut buffer = vec![0; READ];
    let (mut at, end) = (prefix.head(), prefix.head() + prefix.content);
    while at < end {
        let count = usize::try_from(end - at).unwrap_or(READ).min(READ);
        let part = buffer.get_mut(..count).unwrap_or_default();
        object.read(at, part)?;
        sum.add(part);
        at += count as u64;
    }
    Ok(sum.finish() == prefix.content_sum)
}
