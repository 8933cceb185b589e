//! What a script has written and the client has not taken yet: bounded memory, then an unlinked
//! temporary file.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::io::Errno;

/// Bytes kept in memory for one response; as much as nginx's eight buffers of 4 or 8 KiB and
/// what a connection's socket buffer takes beside.
pub const MEMORY: usize = 128 * 1024;
/// Bytes taken from memory or read from the file at once.
const PIECE: usize = 64 * 1024;
/// Parts shorter than this are copied together: each that is kept by itself costs an allocation, or
/// a share of one that holds more, and each that goes to the file by itself a system call.
pub const SMALL: usize = 4096;
/// Bytes of short parts that are gathered at once.
const GATHER: usize = 16 * 1024;
/// What a part in memory costs beside its bytes, as so many bytes: its handle and its allocation.
const OVERHEAD: usize = 128;

/// A queue of bytes.
#[derive(Debug)]
pub struct Spool {
    directory: Arc<Path>,
    memory: VecDeque<Bytes>,
    /// Bytes in `memory`.
    memory_len: usize,
    /// What small parts are gathered in; behind `memory`.
    gathered: Vec<u8>,
    file: Option<Spilled>,
}

#[derive(Debug)]
struct Spilled {
    file: File,
    read: u64,
    written: u64,
    /// Short parts that follow what is written; fewer than [`GATHER`] bytes.
    tail: Vec<u8>,
}

impl Spilled {
    fn push(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.len() < SMALL {
            self.tail.extend_from_slice(bytes);
            return if self.tail.len() < GATHER { Ok(()) } else { self.write_tail() };
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
        self.file.write_all_at(bytes, self.written)?;
        self.written += bytes.len() as u64;
        Ok(())
    }

    /// Bytes that wait.
    fn len(&self) -> u64 {
        self.written - self.read + self.tail.len() as u64
    }

    /// The next bytes.
    fn pop(&mut self) -> io::Result<Bytes> {
        let len = (self.written - self.read).min(PIECE as u64) as usize;
        if len == 0 {
            return Ok(std::mem::take(&mut self.tail).into());
        }
        let mut piece = vec![0; len];
        self.file.read_exact_at(&mut piece, self.read)?;
        self.read += len as u64;
        Ok(piece.into())
    }
}

impl Spool {
    /// Files go to `directory`.
    pub fn new(directory: Arc<Path>) -> Self {
        let (memory, gathered) = (VecDeque::new(), Vec::new());
        Spool { directory, memory, memory_len: 0, gathered, file: None }
    }

    /// Adds bytes at the end. Once something went to the file, what follows goes there too,
    /// until the file has been read to its end.
    pub fn push(&mut self, bytes: Bytes) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        if self.fits(bytes.len()) {
            // The first one may be all there is.
            if bytes.len() < SMALL && !self.is_empty() {
                self.gather(&bytes);
                return Ok(());
            }
            self.end_gathering();
            self.memory_len += bytes.len();
            self.memory.push_back(bytes);
            return Ok(());
        }
        let spilled = match &mut self.file {
            Some(spilled) => spilled,
            none => {
                let (file, tail) = (temporary(&self.directory)?, Vec::new());
                none.insert(Spilled { file, read: 0, written: 0, tail })
            }
        };
        spilled.push(&bytes).map_err(|error| trouble(&self.directory, &error))
    }

    fn gather(&mut self, bytes: &[u8]) {
        let is_full = self.gathered.capacity() - self.gathered.len() < bytes.len();
        if is_full && self.gathered.len() + bytes.len() > GATHER {
            self.end_gathering(); // to grow it would copy all of it
        }
        self.gathered.extend_from_slice(bytes);
    }

    /// Where to append `len` bytes in place of [`Spool::push`], if they may stay in memory. Other
    /// parts leave as they came; what is appended here leaves together. As much as `more` says is
    /// likely to follow.
    pub fn room(&mut self, len: usize, more: usize) -> Option<&mut Vec<u8>> {
        if !self.fits(len) {
            return None;
        }
        let more = more.min(MEMORY.saturating_sub(self.occupied() + len));
        self.gathered.reserve_exact(len + more);
        Some(&mut self.gathered)
    }

    fn fits(&self, len: usize) -> bool {
        self.file.is_none() && (self.in_memory() == 0 || self.occupied() + len <= MEMORY)
    }

    /// Bytes of memory that what is kept there takes.
    fn occupied(&self) -> usize {
        self.in_memory() + self.memory.len() * OVERHEAD
    }

    fn in_memory(&self) -> usize {
        self.memory_len + self.gathered.len()
    }

    fn end_gathering(&mut self) {
        if !self.gathered.is_empty() {
            self.memory_len += self.gathered.len();
            self.memory.push_back(std::mem::take(&mut self.gathered).into());
        }
    }

    /// Takes bytes from the front.
    pub fn pop(&mut self) -> io::Result<Option<Bytes>> {
        if self.memory.is_empty() {
            self.end_gathering();
        }
        if let Some(front) = self.memory.front_mut() {
            // In parts, so that little of it is counted no more while the client takes it.
            let bytes = front.split_to(front.len().min(PIECE));
            if front.is_empty() {
                self.memory.pop_front();
            }
            self.memory_len -= bytes.len();
            return Ok(Some(bytes));
        }
        let Some(spilled) = &mut self.file else { return Ok(None) };
        let piece = spilled.pop()?;
        if spilled.len() == 0 {
            self.file = None;
        }
        Ok(Some(piece))
    }

    /// Throws away what waits.
    pub fn clear(&mut self) {
        self.memory.clear();
        self.memory_len = 0;
        self.gathered = Vec::new();
        self.file = None;
    }

    /// Bytes that wait.
    pub fn len(&self) -> u64 {
        let file = self.file.as_ref().map_or(0, Spilled::len);
        self.in_memory() as u64 + file
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes everything as one piece if it is in memory.
    pub fn take_all(&mut self) -> Option<Bytes> {
        if self.file.is_some() {
            return None;
        }
        self.end_gathering();
        self.memory_len = 0;
        if self.memory.len() <= 1 {
            return Some(self.memory.pop_front().unwrap_or_default());
        }
        let mut all = Vec::with_capacity(self.memory.iter().map(Bytes::len).sum());
        self.memory.drain(..).for_each(|bytes| all.extend_from_slice(&bytes));
        Some(all.into())
    }
}

/// An unlinked file in `directory`, gone when its last descriptor is closed.
pub fn temporary(directory: &Path) -> io::Result<File> {
    open(directory).map_err(|error| trouble(directory, &error))
}

/// A descriptor of such a file for a worker, which reads it from its start and can neither write to
/// it nor make it longer: it counts as the server's, whatever quota the worker's user has. Nor can
/// anybody give it a name.
pub fn for_worker(file: File, directory: &Path) -> io::Result<OwnedFd> {
    read_only(file).map_err(|error| trouble(directory, &error))
}

fn open(directory: &Path) -> io::Result<File> {
    // With O_EXCL no link can be made to the file (open(2)); its mode is for whoever opens it again.
    let flags = OFlags::TMPFILE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
    match rustix::fs::open(directory, flags, Mode::RUSR) {
        Ok(fd) => Ok(fd.into()),
        // A file system without such files (overlay of old kernels, NFS).
        Err(Errno::OPNOTSUPP | Errno::ISDIR) => {
            let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
            Ok(memfd_create("howdah-spool", flags)?.into())
        }
        Err(error) => Err(error.into()),
    }
}

fn read_only(file: File) -> io::Result<OwnedFd> {
    match seal(&file) {
        // Only memory that `open` has made can be sealed.
        Ok(()) => return Ok(file.into()),
        Err(Errno::INVAL | Errno::PERM) => {}
        Err(error) => return Err(error.into()),
    }
    // The kernel's link to the open file itself, so that it need not have a name.
    let link = format!("/proc/self/fd/{}", file.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY;
    Ok(rustix::fs::open(link, flags, Mode::empty())?)
}

/// A file in memory whose content nobody can change any more.
pub fn sealed(bytes: &[u8]) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let mut file = File::from(memfd_create("howdah-request", flags)?);
    file.write_all(bytes)?;
    seal(&file)?;
    Ok(file.into())
}

fn seal(file: &File) -> Result<(), Errno> {
    let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    fcntl_add_seals(file, seals)
}

/// Whether this user can have temporary files in `directory`. A disk that is full now may have room
/// when it is needed.
pub fn usable(directory: &Path) -> io::Result<()> {
    match open(directory).and_then(read_only) {
        Err(error) if !is_full(&error) => Err(error),
        _ => Ok(()),
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// What has happened to a temporary file in `directory`, and what helps.
pub fn trouble(directory: &Path, error: &io::Error) -> io::Error {
    let advice = match error.kind() {
        _ if is_full(error) => "make room there",
        io::ErrorKind::PermissionDenied => "let the server's user write there",
        _ => "see to it",
    };
    let place = directory.display();
    let other = "or choose another directory with --tmp or settings/http/body_temp_path";
    io::Error::new(error.kind(), format!("temporary file in {place}: {error}; {advice}, {other}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_out_as_they_went_in_whatever_went_to_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let mut spool = Spool::new(directory.path().into());
        let (mut expected, mut got) = (Vec::new(), Vec::new());
        for round in 0..200u32 {
            let bytes: Vec<u8> = (0..(round * 37) % 9000).map(|i| (i ^ round) as u8).collect();
            expected.extend_from_slice(&bytes);
            match spool.room(bytes.len(), 99).filter(|_| round % 2 == 0) {
                Some(room) => room.extend_from_slice(&bytes),
                None => spool.push(bytes.into()).unwrap(),
            }
            if round % 3 == 0 {
                got.extend(spool.pop().unwrap().into_iter().flatten());
            }
        }
        assert!(spool.file.is_some());
        while let Some(bytes) = spool.pop().unwrap() {
            got.extend_from_slice(&bytes);
        }
        assert!(got == expected && spool.is_empty());
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn short_parts_take_little_memory_and_few_writes() {
        let directory = tempfile::tempdir().unwrap();
        let read = Bytes::from(vec![7; 64 * 1024]);
        for len in [1, 100] {
            let mut spool = Spool::new(directory.path().into());
            let (mut memory, mut writes, mut pushed) = (0, Vec::new(), 0);
            // Each is part of something larger, as what was read from a server is.
            while writes.len() < 8 {
                spool.push(read.slice(..len)).unwrap();
                pushed += len;
                match &spool.file {
                    None => {
                        let pieces = spool.memory.iter().filter(|piece| piece.len() < GATHER - len);
                        assert!(pieces.count() <= 1, "{len}");
                        let kept: usize = spool.memory.iter().map(Bytes::len).sum();
                        memory = kept + spool.gathered.capacity();
                        assert!(memory <= 2 * MEMORY, "{len}: {memory}");
                    }
                    Some(spilled) => {
                        assert!(spilled.tail.capacity() <= 2 * GATHER, "{len}");
                        if writes.last() != Some(&spilled.written) {
                            writes.push(spilled.written);
                        }
                    }
                }
            }
            assert!(memory >= MEMORY * 9 / 10, "{len}: memory is used: {memory}");
            let gaps = writes.windows(2).map(|two| two[1] - two[0]);
            assert!(gaps.min() >= Some(GATHER as u64), "{len}: {writes:?}");
            assert_eq!(spool.len(), pushed as u64);
            let mut got = 0;
            while let Some(bytes) = spool.pop().unwrap() {
                assert!(bytes.iter().all(|byte| *byte == 7));
                got += bytes.len();
            }
            assert!(got == pushed && spool.is_empty() && spool.file.is_none());
        }
    }

    #[test]
    fn long_parts_are_not_copied_and_their_number_is_bounded() {
        let mut spool = Spool::new(std::env::temp_dir().into());
        let read = Bytes::from(vec![7; SMALL]);
        while spool.file.is_none() {
            spool.push(read.clone()).unwrap();
        }
        assert!(spool.memory.iter().all(|piece| piece.as_ptr() == read.as_ptr()));
        assert_eq!(spool.memory.len(), MEMORY / (SMALL + OVERHEAD));
    }

    #[test]
    fn a_worker_can_only_read_a_body_and_nobody_can_give_it_a_name() {
        use rustix::fs::{AtFlags, CWD, linkat};
        let directory = tempfile::tempdir().unwrap();
        let in_memory = memfd_create("spool", MemfdFlags::ALLOW_SEALING).unwrap();
        for file in [temporary(directory.path()).unwrap(), in_memory.into()] {
            file.write_all_at(b"body", 0).unwrap();
            let given = File::from(for_worker(file, directory.path()).unwrap());
            assert_eq!(std::io::read_to_string(&given).unwrap(), "body");
            assert!(given.write_all_at(b"more", 4).is_err() && given.set_len(1 << 20).is_err());
            let (link, name) = (format!("/proc/self/fd/{}", given.as_raw_fd()), "named");
            let name = directory.path().join(name);
            assert!(linkat(CWD, link, CWD, &name, AtFlags::SYMLINK_FOLLOW).is_err());
        }
        let text = File::from(sealed(b"text").unwrap());
        assert!(text.write_all_at(b"more", 0).is_err() && text.set_len(0).is_err());
        let mut read = [0; 4];
        text.read_exact_at(&mut read, 0).unwrap();
        assert_eq!(&read, b"text");
    }
}
