//! Priority of a thread, and the time for which it may compute before others have their turn.

use std::time::Duration;
use std::{fs, io};

use rustix::thread::CapabilitySet;

/// The kernel's `struct sched_attr` in its first version (sched_setattr(2)); 48 bytes.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    /// Nanoseconds; for the normal policies the length of a turn.
    runtime: u64,
    deadline: u64,
    period: u64,
}

const SIZE: u32 = size_of::<Attributes>() as u32;

/// Flag of [`Attributes`]: new processes and threads have the usual priority.
const RESET_ON_FORK: u64 = 1;

/// Nice value of the highest priority.
const HIGHEST: i32 = -20;

/// Gives the calling thread, and those that it starts from now on, turns of this length (from 0.1
/// to 100 ms).
///
/// Its share of the processors stays the same. A thread with shorter turns than another takes the
/// processor from the other when it wakes, instead of waiting until the turn of the other has ended
/// (1.4 to 3 ms). Linux does so from version 6.12 on; an older kernel accepts the call and changes
/// nothing.
pub fn set_turn(turn: Duration) -> io::Result<()> {
    let mut attributes = Attributes::get()?;
    // A turn means something else with the policies of real-time threads.
    if !attributes.is_normal() {
        return Ok(());
    }
    attributes.runtime = u64::try_from(turn.as_nanos()).unwrap_or(u64::MAX);
    attributes.set()
}

/// The highest priority for the calling thread until the value is dropped, and for its session
/// where the kernel schedules by session. New processes get the usual one.
#[derive(Debug)]
pub struct Raised {
    before: Attributes,
    /// The session was changed.
    has_session: bool,
}

impl Raised {
    /// Raises the priority. Error: without `CAP_SYS_NICE`.
    pub fn new() -> io::Result<Raised> {
        let before = Attributes::get()?;
        let mut raised = Raised { before, has_session: false };
        if before.is_normal() {
            let flags = before.flags | RESET_ON_FORK;
            Attributes { flags, nice: HIGHEST, ..before }.set()?;
            // Others may change a session ten times a second, so that it could not be changed back.
            let is_administrator = rustix::thread::capabilities(None)
                .is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN));
            raised.has_session =
                is_administrator && fs::write(SESSION, HIGHEST.to_string()).is_ok();
        }
        Ok(raised)
    }
}

impl Drop for Raised {
    fn drop(&mut self) {
        if self.before.is_normal() {
            let _ = self.before.set();
        }
        // Its former value may be that of another server of the session, whose priority is high.
        if self.has_session {
            let _ = fs::write(SESSION, self.before.nice.to_string());
        }
    }
}

/// The file for the priority of the session of this process.
const SESSION: &str = "/proc/self/autogroup";

impl Attributes {
    /// Returns the attributes of the calling thread.
    fn get() -> io::Result<Attributes> {
        let mut read = Attributes::default();
        // SAFETY: the kernel writes at most `SIZE` bytes to the attributes, which outlive the call.
        let result = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut read, SIZE, 0) };
        if result == 0 { Ok(read) } else { Err(io::Error::last_os_error()) }
    }

    /// Sets the attributes of the calling thread.
    fn set(&self) -> io::Result<()> {
        // SAFETY: the kernel reads `size` bytes of the attributes, at most `SIZE`: it has set them.
        match unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const *self, 0) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Returns true for the policies of threads that have a nice value and are not idle.
    fn is_normal(&self) -> bool {
        matches!(self.policy as i32, libc::SCHED_OTHER | libc::SCHED_BATCH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_inherited_and_leaves_the_priority_alone() {
        let seen = std::thread::spawn(|| {
            let before = nice();
            set_turn(Duration::from_micros(200)).unwrap();
            assert_eq!(nice(), before);
            std::thread::spawn(|| fs::read_to_string("/proc/thread-self/sched")).join().unwrap()
        });
        // Kernels say it only if they are built with the scheduler's statistics.
        let Ok(seen) = seen.join().unwrap() else { return };
        let turn = seen
            .lines()
            .find_map(|line| line.strip_prefix("se.slice"))
            .map(|rest| rest.trim_start_matches([' ', ':']).parse::<u64>().unwrap());
        if let Some(turn) = turn.filter(|_| has_turns()) {
            assert_eq!(turn, 200_000);
        }
    }

    #[test]
    fn a_raised_priority_ends_and_is_not_inherited() {
        let seen = std::thread::spawn(|| {
            let before = nice();
            let Ok(raised) = Raised::new() else { return };
            assert_eq!(nice(), HIGHEST);
            assert_eq!(std::thread::spawn(nice).join().unwrap(), 0);
            drop(raised);
            assert_eq!(nice(), before);
        });
        seen.join().unwrap();
    }

    fn nice() -> i32 {
        rustix::process::getpriority_process(None).unwrap()
    }

    /// Returns true if the kernel is 6.12 or newer.
    fn has_turns() -> bool {
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        let mut numbers =
            release.split(|c: char| !c.is_ascii_digit()).map_while(|n| n.parse::<u32>().ok());
        (numbers.next(), numbers.next()) >= (Some(6), Some(12))
    }
}
