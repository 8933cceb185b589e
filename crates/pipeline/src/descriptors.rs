//! The limit of open files, and how a router thread notices that they run short.
//!
//! No thread counts the open files of the process. The kernel gives out the lowest descriptor that
//! is free, so at least as many files are open as the number of the newest descriptor says.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::process::{Resource, getrlimit};

/// Limit of open files of the process, and its division between connections and all else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DescriptorLimit {
    /// `RLIMIT_NOFILE`; `u64::MAX` without a limit.
    limit: u64,
}

impl DescriptorLimit {
    /// Reads the limit of this process.
    pub fn of_process() -> Self {
        DescriptorLimit { limit: getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX) }
    }

    /// Returns the limit itself.
    pub fn get(self) -> u64 {
        self.limit
    }

    /// Returns the maximum number of connections. A quarter of the limit is for other files.
    fn connections(self) -> u64 {
        (self.limit - self.limit / 4).max(1)
    }

    /// Returns the number of open files from which on no connection is accepted. The last eighth of
    /// the limit is for requests in progress, the control API and the log.
    fn files(self) -> u64 {
        (self.limit - self.limit / 8).max(1)
    }

    /// Returns the maximum number of files that the cache of each of `threads` threads keeps open.
    /// All caches together have a sixteenth of the limit.
    pub fn cached_files(self, threads: u64) -> usize {
        usize::try_from(self.limit / 16 / threads.max(1)).unwrap_or(usize::MAX)
    }
}

/// State of a router thread: how short of descriptors the process is, and which closed connections
/// are not in the log yet.
#[derive(Debug)]
pub struct Shortage {
    limit: Cell<DescriptorLimit>,
    /// Open files beyond [`DescriptorLimit::files`], as the newest descriptor shows; 0 for none.
    excess: Cell<usize>,
    /// Time of the last line in the log.
    logged: Cell<Option<Instant>>,
    /// Connections closed since then.
    closed: Cell<usize>,
}

/// Minimum interval between two lines of a thread about closed connections.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

impl Shortage {
    /// Starts without a shortage.
    pub fn new(limit: DescriptorLimit) -> Self {
        Shortage {
            limit: Cell::new(limit),
            excess: Cell::new(0),
            logged: Cell::new(None),
            closed: Cell::new(0),
        }
    }

    /// Returns the limit of open files, which may have been lowered since the start.
    pub fn limit(&self) -> DescriptorLimit {
        self.limit.get()
    }

    /// Returns the number of open files beyond the limit of files; 0 without a shortage.
    pub fn excess(&self) -> usize {
        self.excess.get()
    }

    /// Takes the shortage for over until a new descriptor shows that it is not.
    pub fn reset(&self) {
        self.excess.set(0);
    }

    /// Records the number of a new descriptor. All lower numbers are in use.
    pub fn note(&self, fd: impl AsFd) {
        let number = u64::try_from(fd.as_fd().as_raw_fd()).unwrap_or_default();
        let excess = (number + 1).saturating_sub(self.limit.get().files());
        if excess > 0 {
            self.excess.set(excess as usize);
        }
    }

    /// Records a failure to accept. Returns true if the process has run out of descriptors
    /// (`EMFILE`).
    pub fn note_failure(&self, error: &io::Error) -> bool {
        let is_short = Errno::from_io_error(error) == Some(Errno::MFILE);
        if is_short {
            // The limit may have been lowered since the start.
            let limit = DescriptorLimit::of_process();
            self.limit.set(limit);
            let excess = limit.get().saturating_sub(limit.files());
            self.excess.set(usize::try_from(excess).unwrap_or(usize::MAX).max(1));
        }
        is_short
    }

    /// Returns true if there is no room for another connection beside `open` ones.
    pub fn is_full(&self, open: u64, socket: impl AsFd) -> bool {
        open >= self.limit.get().connections() || self.is_short(socket)
    }

    /// Returns true if [`DescriptorLimit::files`] are open. Costs system calls only after a
    /// descriptor has shown that.
    fn is_short(&self, socket: impl AsFd) -> bool {
        let excess = self.excess.take();
        if excess == 0 {
            return false;
        }
        match fcntl_dupfd_cloexec(socket, 0) {
            Ok(fd) => self.note(&fd),
            Err(_) => self.excess.set(excess),
        }
        self.excess.get() > 0
    }

    /// Counts closed connections. Returns how many have been closed since the last line in the log
    /// if the next one is due now, at most once in [`LOG_INTERVAL`].
    pub fn count_closed(&self, count: usize, now: Instant) -> Option<usize> {
        let closed = self.closed.get() + count;
        if self.logged.get().is_some_and(|then| now.duration_since(then) < LOG_INTERVAL) {
            self.closed.set(closed);
            return None;
        }
        self.logged.set(Some(now));
        self.closed.set(0);
        Some(closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_left_for_what_requests_need() {
        let shared = |limit| {
            let limit = DescriptorLimit { limit };
            (limit.connections(), limit.files(), limit.cached_files(2))
        };
        assert_eq!(shared(1024), (768, 896, 32));
        assert_eq!(shared(3), (3, 3, 0));
        assert_eq!(shared(0), (1, 1, 0));
        let (connections, files, cached) = shared(u64::MAX);
        assert!(connections > u64::MAX / 2 && files > connections && cached > 1 << 50);
    }
}
