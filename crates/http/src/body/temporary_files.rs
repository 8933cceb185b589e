//! Creating temporary files, and the last failure until one can be written again.
//!
//! Requests and responses that do not fit in memory fail one by one. That they do is a state of the
//! server, which is shown until there is room.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use howdah_sys::full_disk;
use rustix::fs::{MemfdFlags, Mode, OFlags, memfd_create};
use rustix::io::Errno;

static LAST: Mutex<Option<Failure>> = Mutex::new(None);

/// A thread looks whether a file can be written.
static IS_LOOKING: AtomicBool = AtomicBool::new(false);

/// Minimum and maximum number of bytes that are written to test a directory.
const MIN_BYTES: u64 = 4096;
const MAX_BYTES: u64 = 1 << 20;

/// Time after which room for a file as long as the one that has failed is no longer required: that
/// file may have been larger than the disk.
const SIZE_REQUIRED_FOR: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Failure {
    directory: PathBuf,
    /// The error, and the remedy.
    problem: String,
    /// Length of the file, including the bytes that could not be written.
    bytes: u64,
    at: Instant,
}

impl Failure {
    fn new(directory: &Path, error: &io::Error, bytes: u64, now: Instant) -> Failure {
        Failure { directory: directory.to_owned(), problem: advised(error), bytes, at: now }
    }

    /// Returns the number of bytes that must fit.
    fn wanted(&self, now: Instant) -> u64 {
        if now.saturating_duration_since(self.at) < SIZE_REQUIRED_FOR {
            self.bytes.clamp(MIN_BYTES, MAX_BYTES)
        } else {
            MIN_BYTES
        }
    }
}

fn last() -> MutexGuard<'static, Option<Failure>> {
    LAST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Records that a file, whose length would have been `bytes`, could not be created or written.
pub(super) fn record(directory: &Path, error: &io::Error, bytes: u64) {
    *last() = Some(Failure::new(directory, error, bytes, Instant::now()));
}

/// Returns the directory in which no file could be written, and the reason; `None` if the last one
/// could.
pub fn problem() -> Option<(PathBuf, String)> {
    last().as_ref().map(|failure| (failure.directory.clone(), failure.problem.clone()))
}

/// Tries to write a file where one has failed. Blocks; one thread at a time does it.
pub fn look() {
    let Some(failure) = last().clone() else { return };
    if IS_LOOKING.swap(true, Relaxed) {
        return;
    }
    let now = Instant::now();
    let written = write(&failure.directory, failure.wanted(now));
    IS_LOOKING.store(false, Relaxed);
    let mut last = last();
    // A failure that was recorded meanwhile counts.
    if last.as_ref() == Some(&failure) {
        *last = written.err().map(|error| {
            let Failure { bytes, at, .. } = failure;
            Failure { at, ..Failure::new(&failure.directory, &error, bytes, now) }
        });
    }
}

fn write(directory: &Path, bytes: u64) -> io::Result<()> {
    let file = open(directory)?;
    let bytes = usize::try_from(bytes).map_err(|_| io::Error::from(ErrorKind::FileTooLarge))?;
    file.write_all_at(&vec![0; bytes], 0)
}

/// Creates an unlinked file in `directory`.
pub(super) fn open(directory: &Path) -> io::Result<File> {
    // With O_EXCL the file cannot be linked (open(2)); the mode applies when it is opened again.
    let flags = OFlags::TMPFILE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
    match rustix::fs::open(directory, flags, Mode::RUSR) {
        Ok(fd) => Ok(fd.into()),
        // File systems without unlinked files (overlay of old kernels, NFS).
        Err(Errno::OPNOTSUPP | Errno::ISDIR) => {
            let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
            Ok(memfd_create("howdah-spool", flags)?.into())
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns the text of an error of a temporary file, with advice.
pub(super) fn advised(error: &io::Error) -> String {
    let advice = match error.kind() {
        _ if full_disk::is_full(error) => "make room there",
        io::ErrorKind::PermissionDenied => "let the server's user write there",
        _ => "see to it",
    };
    let other = "or choose another directory with --tmp or settings/http/body_temp_path";
    format!("{error}; {advice}, {other}")
}

#[cfg(test)]
mod tests {
    use super::super::spool::create_temporary_file;
    use super::*;

    #[test]
    fn a_file_that_was_larger_than_the_disk_is_forgotten() {
        let (error, now) = (ErrorKind::StorageFull.into(), Instant::now());
        let failure = |bytes| Failure::new(Path::new("/tmp"), &error, bytes, now);
        assert_eq!(failure(0).wanted(now), MIN_BYTES);
        assert_eq!(failure(50_000).wanted(now), 50_000);
        assert_eq!(failure(u64::MAX).wanted(now), MAX_BYTES);
        assert_eq!(failure(u64::MAX).wanted(now + SIZE_REQUIRED_FOR), MIN_BYTES);
    }

    #[test]
    fn a_failure_is_told_until_a_file_can_be_written() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("tmp");
        assert!(create_temporary_file(&directory).is_err());
        let told = || problem().filter(|(place, _)| *place == directory);
        look();
        let (_, reason) = told().unwrap();
        assert!(reason.starts_with("No such file or directory"), "{reason}");
        std::fs::create_dir(&directory).unwrap();
        // Other tests may record failures of their own meanwhile.
        while told().is_some() {
            look();
        }
    }
}
