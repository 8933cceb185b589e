//! Determines whether a process of the server answers: from its answers to pings, and from the
//! activity of its threads meanwhile.
//!
//! A process that has got no processor, or that was suspended with the machine, has not failed.
//! Time counts against it only if it could have answered:
//!
//! - No thread wants a processor, and none waits for a disk: it will not answer. It hangs after
//!   [`ASLEEP_LIMIT`].
//! - A thread wants a processor: the time counts that the threads have got. It hangs after
//!   [`BUSY_LIMIT`].
//! - Between two looks, at most [`MAX_STEP`] counts: the machine, or this process, may have been
//!   suspended.

use std::time::{Duration, Instant};

use howdah_sys::activity::Activity;

/// Interval of the looks at a process that has not answered.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum time between two looks that counts.
const MAX_STEP: Duration = Duration::from_secs(2);

/// Time without an answer and without work after which a process hangs.
const ASLEEP_LIMIT: Duration = Duration::from_secs(5);

/// Time without an answer after which a process hangs, in which it had a processor or wanted none.
const BUSY_LIMIT: Duration = Duration::from_secs(15);

/// The pings that a process has not answered.
#[derive(Debug, Default)]
pub(crate) struct Liveness {
    /// The first ping that was not answered.
    unanswered: Option<Unanswered>,
}

#[derive(Debug)]
struct Unanswered {
    number: u32,
    sent: Instant,
    looked: Instant,
    cpu: Option<Duration>,
    /// Time in which no thread wanted to run.
    asleep: Duration,
    /// Time in which the process could have answered.
    counted: Duration,
}

impl Liveness {
    /// Records a ping that was sent.
    pub(crate) fn asked(&mut self, number: u32, now: Instant) {
        self.unanswered.get_or_insert(Unanswered {
            number,
            sent: now,
            looked: now,
            cpu: None,
            asleep: Duration::ZERO,
            counted: Duration::ZERO,
        });
    }

    /// Records an answer, perhaps to an earlier ping than the last.
    pub(crate) fn heard(&mut self, number: u32) {
        self.unanswered.take_if(|unanswered| number.wrapping_sub(unanswered.number) as i32 >= 0);
    }

    /// Returns the time of the next [`Liveness::look`]; `None` if no answer is due.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.unanswered.as_ref().map(|unanswered| unanswered.looked + LOOK_INTERVAL)
    }

    /// Looks at the process, if it is time. Returns the time for which it has not answered, if it
    /// hangs. `activity`: the activity of the process; `None` if it is unknown.
    pub(crate) fn look(
        &mut self,
        now: Instant,
        activity: impl FnOnce() -> Option<Activity>,
    ) -> Option<Duration> {
        if self.due().is_none_or(|due| due > now) {
            return None;
        }
        let unanswered = self.unanswered.as_mut()?;
        let step = now.saturating_duration_since(unanswered.looked).min(MAX_STEP);
        unanswered.looked = now;
        unanswered.take(activity(), step);
        let hangs = unanswered.asleep >= ASLEEP_LIMIT || unanswered.counted >= BUSY_LIMIT;
        hangs.then(|| now.saturating_duration_since(unanswered.sent))
    }
}

impl Unanswered {
    fn take(&mut self, activity: Option<Activity>, step: Duration) {
        let Some(Activity { cpu, wants_processor, waits_for_disk }) = activity else {
            self.counted += step;
            return;
        };
        let before = self.cpu.replace(cpu);
        if wants_processor {
            // The first look has no earlier one to compare with.
            self.counted +=
                before.map_or(Duration::ZERO, |before| cpu.saturating_sub(before)).min(step);
            return;
        }
        self.counted += step;
        if !waits_for_disk {
            self.asleep += step;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Looks at a process each `step`, as often as `looks`. Returns the number of the look that
    /// finds it hanging.
    fn hangs_at(
        step: Duration,
        looks: u32,
        activity: impl Fn(u32) -> Option<Activity>,
    ) -> Option<u32> {
        let (mut liveness, start) = (Liveness::default(), Instant::now());
        liveness.asked(1, start);
        (1..=looks).find(|look| liveness.look(start + step * *look, || activity(*look)).is_some())
    }

    fn doing(cpu: Duration, wants_processor: bool, waits_for_disk: bool) -> Option<Activity> {
        Some(Activity { cpu, wants_processor, waits_for_disk })
    }

    #[test]
    fn a_process_that_sleeps_and_does_not_answer_hangs_soon() {
        assert_eq!(hangs_at(SECOND, 20, |_| doing(SECOND, false, false)), Some(5));
    }

    #[test]
    fn one_that_computes_or_waits_for_a_disk_has_more_time() {
        assert_eq!(hangs_at(SECOND, 30, |look| doing(SECOND * look, true, false)), Some(16));
        assert_eq!(hangs_at(SECOND, 30, |_| doing(SECOND, false, true)), Some(15));
        // Several threads get several seconds in one.
        assert_eq!(hangs_at(SECOND, 30, |look| doing(SECOND * look * 8, true, false)), Some(16));
        assert_eq!(hangs_at(SECOND, 30, |_| None), Some(15), "nothing is known");
    }

    #[test]
    fn one_that_gets_no_processor_does_not_hang() {
        assert_eq!(hangs_at(SECOND, 9999, |_| doing(SECOND, true, false)), None);
        let little = |look| doing(Duration::from_millis(10) * look, true, false);
        assert_eq!(hangs_at(SECOND, 1000, little), None);
        assert!(hangs_at(SECOND, 2000, little).is_some(), "it has had its time");
    }

    #[test]
    fn a_pause_of_the_machine_is_no_hang() {
        let hour = Duration::from_secs(3600);
        assert_eq!(hangs_at(hour, 2, |_| doing(SECOND, false, false)), None);
        let (mut liveness, start) = (Liveness::default(), Instant::now());
        liveness.asked(7, start);
        assert_eq!(liveness.look(start + hour, || doing(SECOND, false, false)), None);
        assert_eq!(liveness.look(start + hour, || unreachable!("not due")), None);
        liveness.heard(6);
        assert!(liveness.due().is_some(), "an answer to an earlier ping");
        liveness.heard(9);
        assert_eq!(liveness.due(), None);
    }
}
