//! Queue for the output of a script that the client has not taken yet: bounded memory, then an
//! unlinked temporary file, which has a limit, too.

use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::io::Errno;

use howdah_sys::full_disk;

use super::spilled::Spilled;
use super::{large_buffers, temporary_files};
use crate::memory::{Charge, FILES, FREE_BYTES, Owner, RESPONSES};

/// Maximum number of bytes of a response that wait for the client, in memory and file; above it
/// their source waits (nginx's `fastcgi_max_temp_file_size`).
pub const MAX_WAITING: u64 = 1 << 30;

/// Maximum number of bytes of one response in memory; as much as nginx's eight buffers of 4 or 8
/// KiB and a socket buffer.
pub const MAX_MEMORY_BYTES: usize = 128 * 1024;
/// Maximum number of bytes that [`Spool::pop`] returns.
const PIECE_SIZE: usize = 64 * 1024;
/// Length in bytes below which parts are copied together. A separate part costs an allocation in
/// memory, and a system call in the file.
pub const SMALL_PART_BYTES: usize = 4096;
/// Number of bytes of short parts that are copied together.
pub(super) const GATHER_SIZE: usize = 16 * 1024;
/// Bytes that a part in memory takes in addition to its content: its handle and its allocation.
const PART_OVERHEAD: usize = 128;

/// A queue of bytes.
#[derive(Debug)]
pub struct Spool {
    directory: Arc<Path>,
    memory: VecDeque<Bytes>,
    /// Number of bytes in `memory`.
    memory_len: usize,
    /// Short parts, which follow those in `memory`.
    gathered: Vec<u8>,
    file: Option<Spilled>,
    /// Number of bytes that [`Spool::pop`] has returned last: the client has received all earlier
    /// ones.
    popped: usize,
    /// Counts the bytes in memory, and those returned last, for the owner.
    charge: Option<Charge>,
}

impl Spool {
    /// Creates an empty queue, whose file will be in `directory`.
    pub fn new(directory: Arc<Path>) -> Self {
        let (memory, gathered) = (VecDeque::new(), Vec::new());
        Spool { directory, memory, memory_len: 0, gathered, file: None, popped: 0, charge: None }
    }

    /// Counts the bytes in memory, and in the file, as those of a response of `owner`. Beyond a
    /// limit, bytes go to the file, and beyond that of files they are refused
    /// ([`is_without_room`]).
    #[must_use]
    pub fn of(self, owner: Owner) -> Self {
        Spool { charge: Some(Charge::new(&RESPONSES, owner)), ..self }
    }

    /// Counts as many bytes. Returns false, and counts as before, if they may not stay in memory.
    fn hold(&mut self, bytes: usize) -> bool {
        self.charge.as_mut().is_none_or(|charge| charge.hold(bytes))
    }

    fn hold_rest(&mut self) {
        let rest = self.in_memory() + self.popped;
        self.hold(rest); // less than before always fits
    }

    /// Returns true if the bytes that [`Spool::pop`] has returned last count until the next call.
    pub fn is_counted(&self) -> bool {
        self.charge.is_some()
    }

    /// Appends bytes. While the file has unread bytes, all further bytes go to the file.
    pub fn push(&mut self, bytes: Bytes) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        if self.fits(bytes.len()) {
            // The first part may be the only one.
            if bytes.len() < SMALL_PART_BYTES && !self.is_empty() {
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
                let owner = self.charge.as_ref().map(Charge::owner);
                none.insert(Spilled::new(&self.directory, owner)?)
            }
        };
        spilled.push(&bytes)
    }

    fn gather(&mut self, bytes: &[u8]) {
        let is_full = self.gathered.capacity() - self.gathered.len() < bytes.len();
        if is_full && self.gathered.len() + bytes.len() > GATHER_SIZE {
            self.end_gathering(); // to grow the buffer would copy it
        }
        self.gathered.extend_from_slice(bytes);
    }

    /// Returns a buffer to append `len` bytes to, in place of [`Spool::push`], if they may stay in
    /// memory. All bytes appended to it are returned as one part. `more` is the number of bytes
    /// that are likely to follow.
    pub fn room(&mut self, len: usize, more: usize) -> Option<&mut Vec<u8>> {
        if !self.fits(len) {
            return None;
        }
        let more = more.min(MAX_MEMORY_BYTES.saturating_sub(self.occupied() + len));
        if self.gathered.capacity() == 0 {
            self.gathered = large_buffers::take(len + more);
        } else {
            self.gathered.reserve_exact(len + more);
        }
        Some(&mut self.gathered)
    }

    fn fits(&mut self, len: usize) -> bool {
        self.file.is_none()
            && (self.in_memory() + self.popped == 0 || self.occupied() + len <= MAX_MEMORY_BYTES)
            && self.hold(self.in_memory() + self.popped + len)
    }

    /// Returns the number of bytes of memory in use, with those that the client is being sent.
    fn occupied(&self) -> usize {
        self.in_memory() + self.popped + self.memory.len() * PART_OVERHEAD
    }

    fn in_memory(&self) -> usize {
        self.memory_len + self.gathered.len()
    }

    fn end_gathering(&mut self) {
        if !self.gathered.is_empty() {
            self.memory_len += self.gathered.len();
            self.memory.push_back(large_buffers::share(std::mem::take(&mut self.gathered)));
        }
    }

    /// Removes and returns the first bytes.
    pub fn pop(&mut self) -> io::Result<Option<Bytes>> {
        if self.memory.is_empty() {
            self.end_gathering();
        }
        if let Some(front) = self.memory.front_mut() {
            // In pieces, so that most bytes count until the client has taken them.
            let bytes = front.split_to(front.len().min(PIECE_SIZE));
            if front.is_empty() {
                self.memory.pop_front();
            }
            self.memory_len -= bytes.len();
            self.popped = bytes.len();
            self.hold_rest();
            return Ok(Some(bytes));
        }
        if self.file.is_none() {
            self.popped = 0;
            self.hold_rest();
            return Ok(None);
        }
        self.popped = if self.hold(PIECE_SIZE) { PIECE_SIZE } else { FREE_BYTES };
        let Some(spilled) = &mut self.file else { return Ok(None) };
        let piece = spilled.pop(self.popped)?;
        if spilled.len() == 0 {
            self.file = None;
        }
        self.popped = piece.len();
        self.hold_rest();
        Ok(Some(piece))
    }

    /// Removes all bytes.
    pub fn clear(&mut self) {
        self.memory.clear();
        self.memory_len = 0;
        self.gathered = Vec::new();
        (self.file, self.popped) = (None, 0);
        self.hold_rest();
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> u64 {
        let file = self.file.as_ref().map_or(0, Spilled::len);
        self.in_memory() as u64 + file
    }

    /// Returns true if there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes and returns all bytes as one piece, if they are in memory.
    pub fn take_all(&mut self) -> Option<Bytes> {
        if self.file.is_some() {
            return None;
        }
        self.end_gathering();
        (self.memory_len, self.popped) = (0, 0);
        self.hold_rest();
        if self.memory.len() <= 1 {
            return Some(self.memory.pop_front().unwrap_or_default());
        }
        let mut all = Vec::with_capacity(self.memory.iter().map(Bytes::len).sum());
        self.memory.drain(..).for_each(|bytes| all.extend_from_slice(&bytes));
        Some(all.into())
    }
}

/// Error of a temporary file whose owner has as many bytes in files as it may have. The budget is
/// reported to the log.
#[derive(Debug)]
pub(super) struct NoRoom;

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unread responses have the disk space that they may have")
    }
}

impl std::error::Error for NoRoom {}

impl From<NoRoom> for io::Error {
    fn from(error: NoRoom) -> io::Error {
        io::Error::new(io::ErrorKind::QuotaExceeded, error)
    }
}

/// Returns true if unread responses of a client or site have as much disk space as they may have,
/// which is logged elsewhere.
pub fn is_without_room(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|error| error.is::<NoRoom>())
}

/// Creates a file with a response that its client does not read, or a part of it. Its space is that
/// of the owner, as long as the charge is kept.
pub fn unread_file(directory: &Path, owner: Owner, bytes: &[u8]) -> io::Result<(File, Charge)> {
    let mut charge = Charge::new(&FILES, owner);
    if !charge.hold(bytes.len()) {
        return Err(NoRoom.into());
    }
    let file = create_temporary_file(directory)?;
    write_temporary(&file, directory, bytes, 0)?;
    Ok((file, charge))
}

/// Creates an unlinked file in `directory`, which is deleted when its last descriptor is closed.
pub fn create_temporary_file(directory: &Path) -> io::Result<File> {
    temporary_files::open(directory).map_err(|error| {
        temporary_files::record(directory, &error, 0);
        directory_error(directory, &error)
    })
}

/// Writes to a [`create_temporary_file`] file in `directory`, at `offset`.
pub fn write_temporary(file: &File, directory: &Path, bytes: &[u8], offset: u64) -> io::Result<()> {
    file.write_all_at(bytes, offset).map_err(|error| {
        temporary_files::record(directory, &error, offset + bytes.len() as u64);
        directory_error(directory, &error)
    })
}

/// Creates a read-only descriptor of a [`create_temporary_file`] file for a worker. The worker
/// cannot write to the file or extend it, since it counts against the quota of the server's user,
/// and cannot link it to a name.
pub fn reopen_read_only(file: File, directory: &Path) -> io::Result<OwnedFd> {
    read_only(file).map_err(|error| directory_error(directory, &error))
}

fn read_only(file: File) -> io::Result<OwnedFd> {
    match seal(&file) {
        // Only the memory files that `open` creates can be sealed.
        Ok(()) => return Ok(file.into()),
        Err(Errno::INVAL | Errno::PERM) => {}
        Err(error) => return Err(error.into()),
    }
    // The kernel's link to the open file, which has no name.
    let link = format!("/proc/self/fd/{}", file.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY;
    Ok(rustix::fs::open(link, flags, Mode::empty())?)
}

/// Creates a file in memory with these bytes, whose content cannot be changed.
pub fn sealed_memfd(bytes: &[u8]) -> io::Result<OwnedFd> {
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

/// Checks that temporary files can be created in `directory`. A full disk is no error: it may have
/// room when a file is needed.
pub fn check_directory(directory: &Path) -> io::Result<()> {
    match temporary_files::open(directory).and_then(read_only) {
        Err(error) if !full_disk::is_full(&error) => Err(error),
        _ => Ok(()),
    }
}

/// Adds to the error of a temporary file its directory, and advice.
pub fn directory_error(directory: &Path, error: &io::Error) -> io::Error {
    let text =
        format!("temporary file in {}: {}", directory.display(), temporary_files::advised(error));
    io::Error::new(error.kind(), text)
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
            // Each part is a slice of a larger buffer, like data received from a server.
            while writes.len() < 8 {
                spool.push(read.slice(..len)).unwrap();
                pushed += len;
                match &spool.file {
                    None => {
                        let pieces =
                            spool.memory.iter().filter(|piece| piece.len() < GATHER_SIZE - len);
                        assert!(pieces.count() <= 1, "{len}");
                        let kept: usize = spool.memory.iter().map(Bytes::len).sum();
                        memory = kept + spool.gathered.capacity();
                        assert!(memory <= 2 * MAX_MEMORY_BYTES, "{len}: {memory}");
                    }
                    Some(spilled) => {
                        assert!(spilled.tail.capacity() <= 2 * GATHER_SIZE, "{len}");
                        if writes.last() != Some(&spilled.written) {
                            writes.push(spilled.written);
                        }
                    }
                }
            }
            assert!(memory >= MAX_MEMORY_BYTES * 9 / 10, "{len}: memory is used: {memory}");
            let gaps = writes.windows(2).map(|two| two[1] - two[0]);
            assert!(gaps.min() >= Some(GATHER_SIZE as u64), "{len}: {writes:?}");
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
        let read = Bytes::from(vec![7; SMALL_PART_BYTES]);
        while spool.file.is_none() {
            spool.push(read.clone()).unwrap();
        }
        assert!(spool.memory.iter().all(|piece| piece.as_ptr() == read.as_ptr()));
        assert_eq!(spool.memory.len(), MAX_MEMORY_BYTES / (SMALL_PART_BYTES + PART_OVERHEAD));
    }

    #[test]
    fn what_a_client_is_being_sent_counts_as_memory_until_it_asks_for_more() {
        let mut spool = Spool::new(std::env::temp_dir().into());
        let part = Bytes::from(vec![7; 32 << 10]);
        spool.push(part.clone()).unwrap();
        assert_eq!(spool.pop().unwrap(), Some(part.clone()));
        while spool.file.is_none() {
            spool.push(part.clone()).unwrap();
        }
        assert!(spool.in_memory() + part.len() <= MAX_MEMORY_BYTES);
        while spool.pop().unwrap().is_some() {}
        assert!(spool.popped == 0 && spool.is_empty());
    }

    #[test]
    fn the_space_of_what_was_read_is_given_back() {
        use std::os::unix::fs::MetadataExt;
        const MIB: usize = 1 << 20;
        let directory = tempfile::tempdir().unwrap();
        let owner = crate::fixture::request("/", &[]).owner();
        let mut spool = Spool::new(directory.path().into()).of(owner);
        let part = Bytes::from(vec![7; 64 << 10]);
        let mut read = 0;
        for round in 0..64 * 16 {
            spool.push(part.clone()).unwrap();
            if round >= 4 * 16 {
                read += spool.pop().unwrap().map_or(0, |piece| piece.len());
            }
            if let Some(spilled) = &spool.file {
                let space = spilled.file.metadata().unwrap().blocks() as usize * 512;
                assert!(space < 8 * MIB, "{space} bytes after {round} parts");
            }
        }
        assert!(read > 32 * MIB && spool.len() > 2 * MIB as u64);
    }

    #[test]
    fn a_client_has_a_limited_space_in_files() {
        let directory = tempfile::tempdir().unwrap();
        let mut request = crate::fixture::request("/", &[]);
        request.connection = std::sync::Arc::new(crate::message::ConnectionInfo {
            peer: Some(([203, 0, 113, 7], 1).into()),
            ..Default::default()
        });
        let owner = request.owner();
        let space = 2 << 30; // a quarter of 8 GiB
        let mut others = Charge::new(&FILES, owner.clone());
        assert!(others.hold(space - (1 << 20)));
        let mut spool = Spool::new(directory.path().into()).of(owner.clone());
        let part = Bytes::from(vec![7; 64 << 10]);
        let failed = std::iter::repeat_with(|| spool.push(part.clone())).find_map(Result::err);
        let failed = failed.expect("it has a limit");
        assert!(is_without_room(&failed), "{failed}");
        assert!(spool.len() >= 1 << 20 && spool.len() <= (1 << 20) + (256 << 10));
        assert!(unread_file(directory.path(), owner.clone(), &part).is_err());
        spool.clear();
        assert!(unread_file(directory.path(), owner, &part).is_ok());
    }

    #[test]
    fn a_worker_can_only_read_a_body_and_nobody_can_give_it_a_name() {
        use rustix::fs::{AtFlags, CWD, linkat};
        let directory = tempfile::tempdir().unwrap();
        let in_memory = memfd_create("spool", MemfdFlags::ALLOW_SEALING).unwrap();
        for file in [create_temporary_file(directory.path()).unwrap(), in_memory.into()] {
            file.write_all_at(b"body", 0).unwrap();
            let given = File::from(reopen_read_only(file, directory.path()).unwrap());
            assert_eq!(std::io::read_to_string(&given).unwrap(), "body");
            assert!(given.write_all_at(b"more", 4).is_err() && given.set_len(1 << 20).is_err());
            let (link, name) = (format!("/proc/self/fd/{}", given.as_raw_fd()), "named");
            let name = directory.path().join(name);
            assert!(linkat(CWD, link, CWD, &name, AtFlags::SYMLINK_FOLLOW).is_err());
        }
        let text = File::from(sealed_memfd(b"text").unwrap());
        assert!(text.write_all_at(b"more", 0).is_err() && text.set_len(0).is_err());
        let mut read = [0; 4];
        text.read_exact_at(&mut read, 0).unwrap();
        assert_eq!(&read, b"text");
    }
}
