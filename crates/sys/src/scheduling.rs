//! Time for which a process may compute before others have their turn.

use std::io;
use std::time::Duration;

/// The kernel's `struct sched_attr` in its first version (sched_setattr(2)); 48 bytes.
#[repr(C)]
#[derive(Debug, Default)]
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

/// Gives the calling thread, and those that it starts from now on, turns of this length (from 0.1
/// to 100 ms).
///
/// Its share of the processors stays the same. A thread with shorter turns than another takes the
/// processor from the other when it wakes, instead of waiting until the turn of the other has ended
/// (1.4 to 3 ms). Linux does so from version 6.12 on; an older kernel accepts the call and changes
/// nothing.
pub fn set_turn(turn: Duration) -> io::Result<()> {
    let mut attributes = Attributes::default();
    // SAFETY: the kernel writes at most `SIZE` bytes to the attributes, which outlive the call.
    let result = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, SIZE, 0) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // A turn means something else with the policies of real-time threads.
    if !matches!(attributes.policy as i32, libc::SCHED_OTHER | libc::SCHED_BATCH) {
        return Ok(());
    }
    attributes.runtime = u64::try_from(turn.as_nanos()).unwrap_or(u64::MAX);
    // SAFETY: the kernel reads `size` bytes of the attributes, which it has set to at most `SIZE`.
    match unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

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
