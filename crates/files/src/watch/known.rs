//! The facts below a root. Pure: neither the kernel nor a clock is asked.

use std::collections::HashMap;
use std::time::Instant;

use crate::REVALIDATION_INTERVAL;
use crate::inspect::Inspected;

/// Everything that is known below a root. Paths are those below it, from their first slash on;
/// those of directories have a slash at their end.
#[derive(Debug)]
pub(super) struct Known<T, A> {
    pub directories: HashMap<Box<[u8]>, Directory<T>>,
    /// Entries of watched directories; `None` for names that are not there.
    entries: HashMap<Box<[u8]>, Entry>,
    /// Answers that depend on directories and entries on the way to a path only.
    answers: HashMap<Box<[u8]>, Answer<A>>,
    /// Approximate memory of entries and answers, in bytes.
    bytes: usize,
}

#[derive(Debug)]
struct Answer<A> {
    at: Instant,
    answer: A,
    /// Memory of the answer, in bytes.
    bytes: usize,
}

/// Approximate memory in bytes of an entry or an answer, beside its path and the content of the
/// answer.
const OVERHEAD: usize = 192;

/// A directory whose path has no link below the root.
#[derive(Debug)]
pub(super) struct Directory<T> {
    /// Watch of its entries; `None` if it cannot be watched.
    pub watch: Option<i32>,
    /// Watch of the file that its value was made from.
    pub file_watch: Option<i32>,
    /// Device and inode number.
    pub id: (u64, u64),
    /// Time at which it was last compared with the directory at its path.
    pub checked: Instant,
    pub value: Option<T>,
}

#[derive(Debug)]
struct Entry {
    at: Instant,
    found: Option<Inspected>,
}

impl<T, A> Default for Known<T, A> {
    fn default() -> Self {
        Known {
            directories: HashMap::new(),
            entries: HashMap::new(),
            answers: HashMap::new(),
            bytes: 0,
        }
    }
}

impl<T, A: Clone> Known<T, A> {
    /// Returns the result of the last look-up of a path, if it is stored and young enough.
    pub fn entry(&self, path: &[u8], now: Instant) -> Option<Option<Inspected>> {
        let entry = self.entries.get(path).filter(|entry| is_fresh(entry.at, now))?;
        Some(entry.found)
    }

    /// Returns the approximate memory of entries and answers, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Stores the result of a look-up of a path.
    pub fn put_entry(&mut self, path: &[u8], found: Option<Inspected>, at: Instant) {
        self.forget_entry(path);
        self.entries.insert(path.into(), Entry { at, found });
        self.bytes += path.len() + OVERHEAD;
    }

    /// Forgets an entry, and the answer for its path.
    pub fn forget_entry(&mut self, path: &[u8]) {
        if self.entries.remove(path).is_some() {
            self.bytes -= path.len() + OVERHEAD;
        }
        self.forget_answer(path);
    }

    /// Forgets all entries and answers.
    pub fn forget_entries(&mut self) {
        self.entries = HashMap::new();
        self.answers = HashMap::new();
        self.bytes = 0;
    }

    /// Returns the answer for a path, if it is young enough.
    pub fn answer(&self, path: &[u8], now: Instant) -> Option<A> {
        let known = self.answers.get(path)?;
        is_fresh(known.at, now).then(|| known.answer.clone())
    }

    /// Stores the answer for a path. `bytes` is its memory.
    pub fn put_answer(&mut self, path: &[u8], answer: A, bytes: usize, at: Instant) {
        self.forget_answer(path);
        self.answers.insert(path.into(), Answer { at, answer, bytes });
        self.bytes += path.len() + bytes + OVERHEAD;
    }

    fn forget_answer(&mut self, path: &[u8]) {
        if let Some(known) = self.answers.remove(path) {
            self.bytes -= path.len() + known.bytes + OVERHEAD;
        }
    }

    /// Forgets all answers: a value that they depend on has changed.
    pub fn forget_answers(&mut self) {
        let bytes = |(path, known): (Box<[u8]>, Answer<A>)| path.len() + known.bytes + OVERHEAD;
        let forgotten: usize = std::mem::take(&mut self.answers).into_iter().map(bytes).sum();
        self.bytes -= forgotten;
    }

    /// Forgets a directory and everything below it. Returns the directories that were known.
    pub fn take(&mut self, directory: &[u8]) -> Vec<(Box<[u8]>, Directory<T>)> {
        let entries = self.entries.extract_if(|path, _| path.starts_with(directory));
        let forgotten: usize = entries.map(|(path, _)| path.len() + OVERHEAD).sum();
        self.bytes -= forgotten;
        self.forget_answers();
        self.directories.extract_if(|path, _| path.starts_with(directory)).collect()
    }
}

/// Returns true if something that was looked at then need not be looked at again. All changes
/// should be reported; should one not be, it is noticed after this time.
pub(super) fn is_fresh(at: Instant, now: Instant) -> bool {
    now.saturating_duration_since(at) < REVALIDATION_INTERVAL
}

/// Returns true if each segment of a path is the name of an entry. The path begins with a slash.
pub(super) fn is_plain(path: &[u8]) -> bool {
    let Some(names) = path.strip_prefix(b"/") else { return false };
    let is_name = |name: &[u8]| {
        (1..=MAX_NAME_BYTES).contains(&name.len())
            && !matches!(name, b"." | b"..")
            && memchr::memchr(0, name).is_none()
    };
    let mut count = 0;
    names.split(|byte| *byte == b'/').all(|name| {
        count += 1;
        count <= MAX_DEPTH && is_name(name)
    })
}

/// Most segments of a path that is watched.
pub(super) const MAX_DEPTH: usize = 64;

/// Longest name (Linux).
const MAX_NAME_BYTES: usize = 255;
