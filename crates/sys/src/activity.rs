//! Activity of the threads of a process, from `/proc`.

use std::fs;
use std::time::Duration;

use crate::process;

/// Activity of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Activity {
    /// Processor time of all its threads since its start.
    pub cpu: Duration,
    /// A thread runs, or waits for a processor.
    pub wants_processor: bool,
    /// A thread is in an uninterruptible system call.
    pub waits_for_disk: bool,
}

impl Activity {
    /// Looks at a process; `None` if `/proc` does not show it.
    pub fn of(pid: u32) -> Option<Activity> {
        let (_, ticks) = parse(&process::read_proc_file(pid, "stat").ok()?)?;
        let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
        let states = threads.flatten().filter_map(|thread| {
            let stat = fs::read(thread.path().join("stat")).ok()?;
            Some(parse(&String::from_utf8_lossy(&stat))?.0)
        });
        let per_second = rustix::param::clock_ticks_per_second().max(1);
        let cpu = Duration::from_millis(ticks.saturating_mul(1000) / per_second);
        let none = Activity { cpu, wants_processor: false, waits_for_disk: false };
        Some(states.fold(none, |activity, state| Activity {
            wants_processor: activity.wants_processor || state == b'R',
            waits_for_disk: activity.waits_for_disk || state == b'D',
            ..activity
        }))
    }
}

/// Parses the state and the processor time, in ticks, of a `stat` file. The name of the program, in
/// parentheses, may contain any characters.
fn parse(stat: &str) -> Option<(u8, u64)> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    let mut times = fields.skip(10).map_while(|field| field.parse::<u64>().ok());
    Some((state, times.next()?.saturating_add(times.next()?)))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn the_fields_are_found_behind_any_name() {
        let stat = "12 (a) R 7 (b)) S 1 2 3 4 5 6 7 8 9 10 300 20 0 0";
        assert_eq!(parse(stat), Some((b'S', 320)));
        assert_eq!(parse("12 (a) R 1 2"), None);
    }

    #[test]
    fn a_process_that_waits_wants_no_processor_and_one_that_computes_does() {
        let itself = Activity::of(std::process::id()).unwrap();
        assert!(itself.wants_processor);
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        while Activity::of(child.id()).unwrap().wants_processor {}
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(Activity::of(child.id()), None);
    }
}
