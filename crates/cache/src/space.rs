//! The chunks of a file, and the objects that have them.
//!
//! An object keeps its chunks until its last reader is done, also if it was removed from the index:
//! no chunk is written again while it is being sent.

pub mod content;
pub mod layout;

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use self::layout::{CHUNK, Geometry, LINE, Line};
use crate::sieve::{Element, Marks};

/// The chunks of a file.
#[derive(Debug)]
pub struct Space {
    /// The file.
    pub file: Arc<File>,
    /// Places of the parts of the file.
    pub geometry: Geometry,
    free: Mutex<Free>,
}

/// The free chunks.
#[derive(Debug)]
struct Free {
    /// A bit for each chunk.
    used: Vec<u64>,
    count: u32,
    /// Chunk at which the search for free chunks continues.
    cursor: u32,
}

impl Space {
    /// Returns the chunks of a file, all of them free.
    pub fn new(file: File, geometry: Geometry) -> Arc<Space> {
        let used = vec![0; geometry.chunks.div_ceil(64) as usize];
        let free = Mutex::new(Free { used, count: geometry.chunks, cursor: 0 });
        Arc::new(Space { file: Arc::new(file), geometry, free })
    }

    /// Returns the number of free chunks.
    pub fn free(&self) -> u32 {
        self.lock().count
    }

    /// Takes free chunks. `None` if there are too few.
    pub fn allocate(self: &Arc<Self>, count: u32) -> Option<Box<[Range<u32>]>> {
        let mut free = self.lock();
        if count == 0 || free.count < count {
            return None;
        }
        let mut runs: Vec<Range<u32>> = Vec::new();
        let mut left = count;
        let mut at = free.cursor;
        while left > 0 {
            if at >= self.geometry.chunks {
                at = 0;
            }
            if at.is_multiple_of(64) && free.used.get(at as usize / 64) == Some(&u64::MAX) {
                at = at.saturating_add(64);
                continue;
            }
            if free.set(at, true) {
                left -= 1;
                match runs.last_mut() {
                    Some(run) if run.end == at => run.end += 1,
                    _ => runs.push(at..at + 1),
                }
            }
            at += 1;
        }
        free.cursor = at;
        free.count -= count;
        Some(runs.into())
    }

    /// Takes chunks that an object had before a restart. False if one of them is taken.
    pub fn claim(&self, chunks: &[u32]) -> bool {
        let mut free = self.lock();
        if !chunks.iter().all(|chunk| *chunk < self.geometry.chunks && !free.is_used(*chunk)) {
            return false;
        }
        for chunk in chunks {
            free.set(*chunk, true);
        }
        free.count -= u32::try_from(chunks.len()).unwrap_or(0);
        true
    }

    /// Gives chunks back.
    pub fn release(&self, runs: &[Range<u32>]) {
        let mut free = self.lock();
        for chunk in runs.iter().cloned().flatten() {
            if free.set(chunk, false) {
                free.count += 1;
                // The first chunks are used again first, so that the file has no more blocks than
                // it needs.
                free.cursor = free.cursor.min(chunk);
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Free> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Free {
    fn is_used(&self, chunk: u32) -> bool {
        self.used.get(chunk as usize / 64).is_some_and(|word| word & bit(chunk) != 0)
    }

    /// Marks a chunk. Returns false if it was so before, or does not exist.
    fn set(&mut self, chunk: u32, is_used: bool) -> bool {
        let Some(word) = self.used.get_mut(chunk as usize / 64) else { return false };
        let is_changed = (*word & bit(chunk) != 0) != is_used;
        if is_used {
            *word |= bit(chunk)
        } else {
            *word &= !bit(chunk)
        }
        is_changed
    }
}

fn bit(chunk: u32) -> u64 {
    1 << (chunk % 64)
}

/// State of the first line of an object in the table. Without it, the object does not exist after a
/// restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Head {
    Unwritten,
    Written,
    Erased,
}

/// An object in the file.
#[derive(Debug)]
pub struct Object {
    /// Its line of the table; `index` is 0.
    pub line: Line,
    /// Its chunks, in order.
    pub runs: Box<[Range<u32>]>,
    /// Its content was read, and is as it was written.
    pub is_verified: AtomicBool,
    space: Arc<Space>,
    head: Mutex<Head>,
    marks: Marks,
}

impl Element for Object {
    fn marks(&self) -> &Marks {
        &self.marks
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        self.space.release(&self.runs);
    }
}

impl Object {
    /// Returns an object that is new, or whose head was found in the table.
    pub fn new(line: Line, runs: Box<[Range<u32>]>, space: Arc<Space>, is_found: bool) -> Object {
        let head = Mutex::new(if is_found { Head::Written } else { Head::Unwritten });
        let is_verified = AtomicBool::new(false);
        Object { line, runs, is_verified, space, head, marks: Marks::default() }
    }

    /// Returns the file.
    pub fn file(&self) -> &Arc<File> {
        &self.space.file
    }

    /// Returns the number of bytes that its chunks have.
    pub fn capacity(&self) -> u64 {
        u64::from(self.line.count) * CHUNK
    }

    /// Returns where a byte of the object is in the file, and how many follow it there.
    pub fn place(&self, at: u64) -> Option<(u64, u64)> {
        let mut before = 0;
        for run in &self.runs {
            let length = u64::from(run.end - run.start) * CHUNK;
            if at < before + length {
                let offset = at - before;
                return Some((self.space.geometry.chunk(run.start) + offset, length - offset));
            }
            before += length;
        }
        None
    }

    /// Reads bytes. Blocks.
    pub fn read(&self, mut at: u64, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            let (offset, length) = self.place(at).ok_or(io::ErrorKind::UnexpectedEof)?;
            let count = usize::try_from(length).unwrap_or(usize::MAX).min(buffer.len());
            let (now, rest) = buffer.split_at_mut(count);
            self.space.file.read_exact_at(now, offset)?;
            at += count as u64;
            buffer = rest;
        }
        Ok(())
    }

    /// Writes bytes. Blocks.
    pub fn write(&self, mut at: u64, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let (offset, length) = self.place(at).ok_or(io::ErrorKind::StorageFull)?;
            let count = usize::try_from(length).unwrap_or(usize::MAX).min(bytes.len());
            let (now, rest) = bytes.split_at(count);
            self.space.file.write_all_at(now, offset)?;
            at += count as u64;
            bytes = rest;
        }
        Ok(())
    }

    /// Writes the lines of the table but the first.
    pub fn write_tail(&self) -> io::Result<()> {
        let mut index = 0;
        for run in &self.runs {
            let mut lines = Vec::new();
            for chunk in run.clone() {
                match index {
                    0 => lines.extend_from_slice(&[0; LINE as usize]),
                    _ => lines.extend_from_slice(&Line { index, ..self.line }.encode(chunk)),
                }
                index += 1;
            }
            self.space.file.write_all_at(&lines, self.space.geometry.line(run.start))?;
        }
        Ok(())
    }

    /// Writes the first line of the table, unless the object was erased meanwhile.
    pub fn write_head(&self) -> io::Result<()> {
        let mut head = self.head.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(run) = self.runs.first().filter(|_| *head == Head::Unwritten) else {
            return Ok(());
        };
        let place = self.space.geometry.line(run.start);
        self.space.file.write_all_at(&self.line.encode(run.start), place)?;
        *head = Head::Written;
        Ok(())
    }

    /// Sees to it that the object does not exist after a restart.
    pub fn erase(&self) -> io::Result<()> {
        let mut head = self.head.lock().unwrap_or_else(PoisonError::into_inner);
        let was = std::mem::replace(&mut *head, Head::Erased);
        let Some(run) = self.runs.first().filter(|_| was == Head::Written) else { return Ok(()) };
        self.space.file.write_all_at(&[0; LINE as usize], self.space.geometry.line(run.start))
    }

    /// Marks it as used.
    pub fn use_it(&self) {
        self.marks.use_it();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space() -> Arc<Space> {
        Space::new(tempfile::tempfile().unwrap(), Geometry::of(16 << 20))
    }

    fn object(space: &Arc<Space>, count: u32) -> Object {
        let line = Line { id: 1, index: 0, count, key: 0, owner: 0, epoch: 0, variant: 0 };
        Object::new(line, space.allocate(count).unwrap(), Arc::clone(space), false)
    }

    #[test]
    fn chunks_are_free_again_when_the_last_reader_has_gone() {
        let space = space();
        let all = space.free();
        let one = Arc::new(object(&space, 3));
        let reader = Arc::clone(&one);
        drop(one);
        assert_eq!(space.free(), all - 3);
        assert!(space.allocate(all).is_none());
        drop(reader);
        assert_eq!(space.free(), all);
    }

    #[test]
    fn an_object_in_pieces_is_read_as_it_was_written() {
        let space = space();
        let objects: Vec<_> = (0..space.geometry.chunks).map(|_| object(&space, 1)).collect();
        let kept: Vec<_> = objects.into_iter().step_by(2).collect();
        let object = object(&space, 5);
        assert_eq!(object.runs.len(), 5);
        let bytes: Vec<_> = (0..5 * CHUNK).map(|at| (at % 251) as u8).collect();
        object.write(0, &bytes).unwrap();
        let mut read = vec![0; 20_000];
        object.read(10_000, &mut read).unwrap();
        assert_eq!(read, bytes[10_000..30_000]);
        assert!(object.read(5 * CHUNK - 1, &mut [0; 2]).is_err());
        drop(kept);
    }

    #[test]
    fn what_was_erased_is_not_written_afterwards() {
        let space = space();
        let object = object(&space, 2);
        object.write_tail().unwrap();
        object.erase().unwrap();
        object.write_head().unwrap();
        let mut line = [0; LINE as usize];
        let start = object.runs[0].start;
        let _ = space.file.read_at(&mut line, space.geometry.line(start));
        assert_eq!(Line::decode(&line, start), None);
    }
}
