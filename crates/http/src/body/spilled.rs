//! The part of a response that waits in an unlinked file until its client takes it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use rustix::fs::{FallocateFlags, fallocate};
use tokio::runtime::Handle;

use super::spool::{GATHER_SIZE, NoRoom, SMALL_PART_BYTES, create_temporary_file, write_temporary};
use crate::memory::{Charge, FILES, Owner};

/// Number of bytes that were read from a file before their space is given back.
const FREED_SIZE: u64 = 1 << 20;
/// Number of bytes in a file from which on it is not closed by the thread itself.
const SLOW_CLOSE_SIZE: u64 = 4 << 20;

/// Bytes in an unlinked file, the last of them in memory.
#[derive(Debug)]
pub(crate) struct Spilled {
    pub(super) file: File,
    directory: PathBuf,
    read: u64,
    pub(super) written: u64,
    /// Gives back the space of the bytes that were read.
    freeing: Arc<Freeing>,
    /// Space in the file that counts for the owner.
    charge: Option<Charge>,
    /// Short parts that are not written yet; fewer than [`GATHER_SIZE`] bytes.
    pub(super) tail: Vec<u8>,
}

impl Spilled {
    /// Creates a queue with a file in `directory`, whose space is that of the owner.
    pub fn new(directory: &Path, owner: Option<&Owner>) -> io::Result<Spilled> {
        let (file, tail) = (create_temporary_file(directory)?, Vec::new());
        let charge = owner.map(|owner| Charge::new(&FILES, owner.clone()));
        let directory = directory.to_owned();
        let freeing = Arc::default();
        Ok(Spilled { file, directory, read: 0, written: 0, freeing, charge, tail })
    }

    /// Appends bytes.
    pub fn push(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.len() < SMALL_PART_BYTES {
            self.tail.extend_from_slice(bytes);
            return if self.tail.len() < GATHER_SIZE { Ok(()) } else { self.write_tail() };
        }
        self.write_tail()?;
        self.write(bytes)
    }

    fn write_tail(&mut self) -> io::Result<()> {
        let mut tail = std::mem::take(&mut self.tail);
        let result = self.write(&tail);
        tail.clear();
        self.tail = tail;
        result
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let written = self.written + bytes.len() as u64;
        if !self.hold(written - self.freeing.freed()) {
            return Err(NoRoom.into());
        }
        write_temporary(&self.file, &self.directory, bytes, self.written)?;
        self.written = written;
        Ok(())
    }

    fn hold(&mut self, bytes: u64) -> bool {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        self.charge.as_mut().is_none_or(|charge| charge.hold(bytes))
    }

    /// Gives back the space of the bytes that were read, if the file system supports it. A helper
    /// thread does this, since file systems may write the file first.
    fn free(&mut self) {
        if self.freeing.is_to_begin(self.read) {
            let freeing = Arc::clone(&self.freeing);
            match (Handle::try_current(), self.file.try_clone()) {
                (Ok(runtime), Ok(file)) => drop(runtime.spawn_blocking(move || freeing.run(&file))),
                _ => freeing.run(&self.file),
            }
        }
        self.hold(self.space()); // less than before always fits
    }

    /// Returns the number of bytes that the file takes.
    fn space(&self) -> u64 {
        self.written - self.freeing.freed()
    }

    /// Returns the number of bytes not read yet.
    pub fn len(&self) -> u64 {
        self.written - self.read + self.tail.len() as u64
    }

    /// Removes and returns the first bytes, at most `max` of those in the file.
    pub fn pop(&mut self, max: usize) -> io::Result<Bytes> {
        let len = (self.written - self.read).min(max as u64) as usize;
        if len == 0 {
            return Ok(std::mem::take(&mut self.tail).into());
        }
        let mut piece = vec![0; len];
        self.file.read_exact_at(&mut piece, self.read)?;
        self.read += len as u64;
        self.free();
        Ok(piece.into())
    }
}

impl Drop for Spilled {
    /// Lets a helper thread close a large file: the kernel takes 0.1 s to free the space of a
    /// gigabyte.
    fn drop(&mut self) {
        if self.space() >= SLOW_CLOSE_SIZE
            && let Ok(runtime) = Handle::try_current()
            && let Ok(last) = self.file.try_clone()
        {
            let space = self.charge.take();
            runtime.spawn_blocking(move || {
                drop(last);
                drop(space); // it counts until then
            });
        }
    }
}

/// Numbers of bytes at the beginning of a file that were read, and whose space was given back.
#[derive(Debug, Default)]
struct Freeing(Mutex<Progress>);

#[derive(Debug, Default)]
struct Progress {
    /// Number of bytes that were read.
    read: u64,
    /// Number of bytes whose space was given back.
    freed: u64,
    /// A thread gives space back, or the file system cannot.
    is_running: bool,
}

impl Freeing {
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of bytes whose space was given back.
    fn freed(&self) -> u64 {
        self.progress().freed
    }

    /// Records the number of bytes that were read. Returns true if the caller has to have
    /// [`Freeing::run`] called.
    fn is_to_begin(&self, read: u64) -> bool {
        let mut progress = self.progress();
        progress.read = read;
        let is_to_begin = !progress.is_running && read - progress.freed >= FREED_SIZE;
        progress.is_running |= is_to_begin;
        is_to_begin
    }

    /// Gives back the space of the bytes that were read, including bytes that are read meanwhile,
    /// until less than `FREED_SIZE` is left.
    fn run(&self, file: &File) {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        loop {
            let (from, bytes) = {
                let mut progress = self.progress();
                let bytes = progress.read - progress.freed;
                if bytes < FREED_SIZE {
                    progress.is_running = false;
                    return;
                }
                (progress.freed, bytes)
            };
            if fallocate(file, flags, from, bytes).is_err() {
                return; // and never again
            }
            self.progress().freed = from + bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn space_of_what_is_read_meanwhile_is_given_back_too() {
        let directory = std::env::temp_dir();
        let file = create_temporary_file(&directory).unwrap();
        write_temporary(&file, &directory, &[7; 4 << 20], 0).unwrap();
        let freeing = Freeing::default();
        assert!(!freeing.is_to_begin(FREED_SIZE - 1), "little has been read");
        assert!(freeing.is_to_begin(FREED_SIZE));
        assert!(!freeing.is_to_begin(3 << 20), "a thread is to run already");
        freeing.run(&file);
        // Some file systems cannot free parts of files.
        if freeing.freed() > 0 {
            assert_eq!(freeing.freed(), 3 << 20);
            assert!(file.metadata().unwrap().blocks() * 512 < 2 << 20);
            assert!(freeing.is_to_begin(4 << 20), "the thread has ended");
        }
    }
}
