//! Documents that are read by another process, which a drive that does not answer may stop: before
//! the supervisor runs, and for a reload.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use howdah_sys::{process, signals};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::file_helper::{Answer, Helper, Work, file_progress};
use crate::memory::{memory_file, read_memory_file};
use crate::usage::busy_time;

/// Maximum time without progress. Time for which the process runs, or waits for a processor, does
/// not count.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Interval at which it is looked whether the process makes progress.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

/// Maximum time for the end of a process that was killed. One that a disk stops ends later.
const END_TIMEOUT: Duration = Duration::from_millis(200);

/// Interval at which it is looked whether a process has ended.
const END_INTERVAL: Duration = Duration::from_millis(2);

/// The outcome of reading files.
#[derive(Debug, PartialEq, Eq)]
pub enum Apart {
    /// What was read, or the reason why it cannot be.
    Done(Result<Vec<u8>, String>),
    /// The file system of a file does not answer.
    Hangs {
        /// The last place that [`file_progress`](crate::file_progress) has named.
        place: String,
        /// The problem, and what to do.
        problem: String,
    },
}

/// Reads files by another process. The caller must have one thread.
///
/// # Errors
///
/// There can be no process, or it has ended early.
pub fn read_apart(read: &dyn Fn() -> Result<Vec<u8>, String>) -> io::Result<Apart> {
    let helper = Helper::start(&Once(read))?;
    let pid = helper.pid();
    let (mut place, mut last, mut since) = (String::new(), None, Instant::now());
    let mut busy = busy_time(pid);
    let outcome = loop {
        match helper.receive() {
            Answer::Begun => {}
            Answer::Done(outcome) => {
                let read = |file: Option<OwnedFd>| {
                    let text = read_memory_file(file.into_iter().collect(), u64::MAX);
                    text.map_err(|error| error.to_string())
                };
                break Ok(Apart::Done(outcome.and_then(read)));
            }
            Answer::Gone => break Err(io::Error::other("the process that reads files has ended")),
            Answer::Nothing => {
                if let Some((at, next)) = helper.progress()
                    && last != Some(at)
                {
                    (place, last, since, busy) = (next, Some(at), Instant::now(), busy_time(pid));
                }
                let idle = since.elapsed().saturating_sub(busy_time(pid).saturating_sub(busy));
                let left = TIMEOUT.saturating_sub(idle);
                if left.is_zero() {
                    let problem = crate::file_helpers::not_answered("", TIMEOUT);
                    break Ok(Apart::Hangs { place, problem });
                }
                let mut polled = [PollFd::new(helper.socket(), PollFlags::IN)];
                file_progress(&place);
                let left = Timespec::try_from(left.min(PROGRESS_INTERVAL)).ok();
                rustix::io::retry_on_intr(|| poll(&mut polled, left.as_ref()))?;
            }
        }
    };
    end(pid);
    outcome
}

/// Kills a child, and waits a moment for its end.
pub(crate) fn end(pid: u32) {
    let _ = signals::send(pid, signals::SIGKILL);
    let deadline = Instant::now() + END_TIMEOUT;
    while !process::reap_child(pid) && Instant::now() < deadline {
        std::thread::sleep(END_INTERVAL);
    }
}

/// The only task of a process.
struct Once<'a>(&'a dyn Fn() -> Result<Vec<u8>, String>);

impl Work for Once<'_> {
    fn first(&self) -> Result<Option<OwnedFd>, String> {
        let text = (self.0)()?;
        memory_file("document", &text).map(Some).map_err(|error| error.to_string())
    }

    fn next(&self, _: &[u8]) -> Result<Option<OwnedFd>, String> {
        Err("there is no other task".to_owned())
    }
}
