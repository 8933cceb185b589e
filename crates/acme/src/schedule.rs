//! When to renew a certificate, and when to try again. Time and chance are arguments.

use std::time::{Duration, SystemTime};

/// How long a certificate counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    pub since: SystemTime,
    pub until: SystemTime,
}

/// When the authority would like a certificate to be renewed (ARI, RFC 9773).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window {
    pub start: SystemTime,
    pub end: SystemTime,
}

/// The first pause after a failure. Let's Encrypt allows five failures an hour for a name.
const FIRST_PAUSE: Duration = Duration::from_secs(120);
/// The longest pause of our own making.
const LONGEST_PAUSE: Duration = Duration::from_secs(6 * 3600);
/// The longest while nothing that counts can be shown.
const URGENT_PAUSE: Duration = Duration::from_secs(3600);
/// The longest that an authority can ask for.
const MOST_PATIENCE: Duration = Duration::from_secs(24 * 3600);

impl Validity {
    fn life(&self) -> Duration {
        self.until.duration_since(self.since).unwrap_or_default()
    }

    /// What is left of it.
    pub fn left(&self, now: SystemTime) -> Duration {
        self.until.duration_since(now).unwrap_or_default()
    }
}

/// When to renew: at some moment of the window, as RFC 9773, 4.2 says, and otherwise when two
/// thirds of the time are over. In any case while there is time left for other tries. `chance` is
/// from 0 to 1, and stays the same for a certificate.
pub(super) fn renewal(validity: &Validity, window: Option<Window>, chance: f64) -> SystemTime {
    let life = validity.life();
    let latest = validity.until.checked_sub(life / 20).unwrap_or(validity.since);
    let chance = if chance.is_finite() { chance.clamp(0.0, 1.0) } else { 0.0 };
    let at = match window {
        Some(Window { start, end }) => {
            // A window that ends before it begins is over.
            let length = end.duration_since(start).unwrap_or_default().min(life);
            start.checked_add(length.mul_f64(chance)).unwrap_or(start)
        }
        // Not all certificates of a server that was set up at once in the same second.
        None => {
            let part = life * 2 / 3;
            validity.since.checked_add(part + (life / 50).mul_f64(chance)).unwrap_or(validity.since)
        }
    };
    at.min(latest)
}

/// How long to wait after so many failures in a row: twice as long each time, with as much chance
/// in it that servers which fail together do not come back together. What the authority asks for
/// is respected, within reason.
pub(super) fn pause(
    failures: u32,
    asked: Option<Duration>,
    current: Option<&Validity>,
    now: SystemTime,
    chance: f64,
) -> Duration {
    let (first, longest) = match current {
        None => (FIRST_PAUSE, URGENT_PAUSE),
        Some(validity) => {
            let left = validity.left(now);
            // The less time is left, the more often; those that live for a minute included.
            let first = (validity.life() / 20).clamp(Duration::from_secs(1), FIRST_PAUSE);
            let longest = match left.is_zero() {
                true => URGENT_PAUSE,
                false => (left / 8).clamp(first, LONGEST_PAUSE),
            };
            (first, longest)
        }
    };
    let doubled = first
        .saturating_mul(1u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX).max(1));
    let chance = if chance.is_finite() { chance.clamp(0.0, 1.0) } else { 0.0 };
    let own = doubled.min(longest).mul_f64(0.75 + chance / 2.0);
    own.max(asked.unwrap_or_default().min(MOST_PATIENCE))
}

/// How long what an authority says about the time for renewal may be relied on.
pub(super) fn next_look(asked: Duration, validity: &Validity) -> Duration {
    let often = (validity.life() / 10).min(Duration::from_secs(3600));
    asked.clamp(often, MOST_PATIENCE)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DAY: u64 = 86_400;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn days(since: u64, until: u64) -> Validity {
        Validity { since: at(since * DAY), until: at(until * DAY) }
    }

    #[test]
    fn a_certificate_is_renewed_when_two_thirds_of_its_time_are_over() {
        let validity = days(1000, 1090);
        assert_eq!(renewal(&validity, None, 0.0), at(1060 * DAY));
        let late = renewal(&validity, None, 1.0);
        assert!(late > at(1061 * DAY) && late < at(1063 * DAY));
        // Those for six days, and for a minute, just so.
        assert_eq!(renewal(&days(0, 6), None, 0.0), at(4 * DAY));
        let short = Validity { since: at(0), until: at(60) };
        assert_eq!(renewal(&short, None, 0.0), at(40));
    }

    #[test]
    fn the_authoritys_window_counts_unless_it_comes_too_late() {
        let validity = days(1000, 1090);
        let window = |start, end| Some(Window { start: at(start * DAY), end: at(end * DAY) });
        assert_eq!(renewal(&validity, window(1010, 1012), 0.5), at(1011 * DAY));
        // It takes certificates back: the window is in the past.
        assert_eq!(renewal(&validity, window(0, 1), 0.0), at(0));
        assert_eq!(renewal(&validity, window(5000, 5001), 0.0), at(1085 * DAY + DAY / 2));
        assert_eq!(renewal(&validity, window(1012, 1010), 0.9), at(1012 * DAY));
    }

    #[test]
    fn hardening_47_failures_come_at_growing_intervals_however_many_they_are() {
        let now = at(0);
        let plain = |failures| pause(failures, None, None, now, 0.5);
        let seconds: Vec<_> = [1, 2, 3, 4, 5].map(|n| plain(n).as_secs()).to_vec();
        assert_eq!(seconds, [120, 240, 480, 960, 1920]);
        for failures in [0, 6, 31, 32, 33, 64, 1000, u32::MAX] {
            let pause = plain(failures);
            assert!(pause >= Duration::from_secs(120) && pause <= URGENT_PAUSE, "{failures}");
        }
        // With time left there is no hurry, and with little there is some.
        let long = days(0, 90);
        assert_eq!(pause(20, None, Some(&long), at(60 * DAY), 0.5), LONGEST_PAUSE);
        assert_eq!(pause(20, None, Some(&long), at(90 * DAY - 28_800), 0.5), URGENT_PAUSE);
        assert_eq!(pause(20, None, Some(&long), at(91 * DAY), 0.5), URGENT_PAUSE);
        let short = Validity { since: at(0), until: at(60) };
        assert_eq!(pause(1, None, Some(&short), at(40), 0.5), Duration::from_secs(3));
    }

    #[test]
    fn what_the_authority_asks_for_is_respected_within_reason() {
        let hour = Duration::from_secs(3600);
        assert_eq!(pause(1, Some(hour), None, at(0), 0.0), hour);
        assert_eq!(pause(1, Some(hour * 24 * 365), None, at(0), 0.0), MOST_PATIENCE);
        assert!(pause(1, Some(Duration::ZERO), None, at(0), 0.0) >= Duration::from_secs(90));
        assert_eq!(next_look(Duration::ZERO, &days(0, 90)), hour);
        assert_eq!(next_look(hour * 1000, &days(0, 90)), MOST_PATIENCE);
    }

    proptest! {
        #[test]
        fn no_time_and_no_chance_breaks_it(
            since in 0u64..1 << 40, life in 0u64..1 << 40, now in 0u64..1 << 40,
            start in 0u64..1 << 40, end in 0u64..1 << 40, failures: u32,
            asked in proptest::option::of(any::<u64>()), chance: f64,
        ) {
            let validity = Validity { since: at(since), until: at(since + life) };
            let window = Window { start: at(start), end: at(end) };
            prop_assert!(renewal(&validity, Some(window), chance) <= validity.until);
            let due = renewal(&validity, None, chance);
            prop_assert!(due <= validity.until && due >= validity.since);
            let asked = asked.map(Duration::from_secs);
            let pause = pause(failures, asked, Some(&validity), at(now), chance);
            prop_assert!(pause >= Duration::from_millis(500) && pause <= MOST_PATIENCE);
        }
    }
}
