//! Times of renewals and of new attempts. The current time and random numbers are arguments.

use std::time::{Duration, SystemTime};

/// Validity period of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    pub not_before: SystemTime,
    pub not_after: SystemTime,
}

/// Renewal window that the authority suggests (ARI, RFC 9773, 4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window {
    pub start: SystemTime,
    pub end: SystemTime,
}

/// Pause after the first failure. Let's Encrypt allows five failures an hour for a name.
const FIRST_PAUSE: Duration = Duration::from_secs(120);
/// Longest pause while the current certificate is valid.
const MAX_PAUSE: Duration = Duration::from_secs(6 * 3600);
/// Longest pause without a valid certificate.
const MAX_URGENT_PAUSE: Duration = Duration::from_secs(3600);
/// Longest `Retry-After` that delays the next attempt or the next request for the window.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(24 * 3600);

impl Validity {
    /// Returns the length of the period.
    fn length(&self) -> Duration {
        self.not_after.duration_since(self.not_before).unwrap_or_default()
    }

    /// Returns the time until the end of the period; zero after it.
    pub fn remaining(&self, now: SystemTime) -> Duration {
        self.not_after.duration_since(now).unwrap_or_default()
    }
}

/// Returns the time to renew a certificate: a random moment of the authority's window (RFC 9773,
/// 4.2), or, without a window, after two thirds of the validity period. Never later than when a
/// twentieth of the period is left, which leaves time for further attempts. `jitter` is a random
/// number from 0 to 1, the same for all calls for one certificate.
pub(super) fn renewal(validity: &Validity, window: Option<Window>, jitter: f64) -> SystemTime {
    let period = validity.length();
    let latest = validity.not_after.checked_sub(period / 20).unwrap_or(validity.not_before);
    let jitter = if jitter.is_finite() { jitter.clamp(0.0, 1.0) } else { 0.0 };
    let at = match window {
        Some(Window { start, end }) => {
            // A window that ends before it begins is over: its length counts as zero.
            let length = end.duration_since(start).unwrap_or_default().min(period);
            start.checked_add(length.mul_f64(jitter)).unwrap_or(start)
        }
        // The jitter spreads certificates that were issued at the same time.
        None => {
            let part = period * 2 / 3;
            validity
                .not_before
                .checked_add(part + (period / 50).mul_f64(jitter))
                .unwrap_or(validity.not_before)
        }
    };
    at.min(latest)
}

/// Returns the pause after this many failures in a row. It doubles with each failure, up to a
/// maximum that shrinks with the remaining validity of `current`. `jitter`, a random number from 0
/// to 1, makes it up to a quarter shorter or longer, so that servers that fail together do not
/// retry together. `asked` is the authority's `Retry-After`; up to a day, the pause is not shorter.
pub(super) fn pause(
    failures: u32,
    asked: Option<Duration>,
    current: Option<&Validity>,
    now: SystemTime,
    jitter: f64,
) -> Duration {
    let (first, longest) = match current {
        None => (FIRST_PAUSE, MAX_URGENT_PAUSE),
        Some(validity) => {
            let left = validity.remaining(now);
            // Certificates may be valid for as little as a minute.
            let first = (validity.length() / 20).clamp(Duration::from_secs(1), FIRST_PAUSE);
            let longest =
                if left.is_zero() { MAX_URGENT_PAUSE } else { (left / 8).clamp(first, MAX_PAUSE) };
            (first, longest)
        }
    };
    let doubled = first
        .saturating_mul(1u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX).max(1));
    let jitter = if jitter.is_finite() { jitter.clamp(0.0, 1.0) } else { 0.0 };
    let own = doubled.min(longest).mul_f64(0.75 + jitter / 2.0);
    own.max(asked.unwrap_or_default().min(MAX_RETRY_AFTER))
}

/// Returns the time until the authority is asked again for its window. `asked` is its
/// `Retry-After`.
pub(super) fn next_check(asked: Duration, validity: &Validity) -> Duration {
    let shortest = (validity.length() / 10).min(Duration::from_secs(3600));
    asked.clamp(shortest, MAX_RETRY_AFTER)
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
        Validity { not_before: at(since * DAY), not_after: at(until * DAY) }
    }

    #[test]
    fn a_certificate_is_renewed_when_two_thirds_of_its_time_are_over() {
        let validity = days(1000, 1090);
        assert_eq!(renewal(&validity, None, 0.0), at(1060 * DAY));
        let late = renewal(&validity, None, 1.0);
        assert!(late > at(1061 * DAY) && late < at(1063 * DAY));
        // Periods of six days and of a minute.
        assert_eq!(renewal(&days(0, 6), None, 0.0), at(4 * DAY));
        let short = Validity { not_before: at(0), not_after: at(60) };
        assert_eq!(renewal(&short, None, 0.0), at(40));
    }

    #[test]
    fn the_authoritys_window_counts_unless_it_comes_too_late() {
        let validity = days(1000, 1090);
        let window = |start, end| Some(Window { start: at(start * DAY), end: at(end * DAY) });
        assert_eq!(renewal(&validity, window(1010, 1012), 0.5), at(1011 * DAY));
        // The authority revokes certificates: the window is in the past.
        assert_eq!(renewal(&validity, window(0, 1), 0.0), at(0));
        assert_eq!(renewal(&validity, window(5000, 5001), 0.0), at(1085 * DAY + DAY / 2));
        assert_eq!(renewal(&validity, window(1012, 1010), 0.9), at(1012 * DAY));
    }

    #[test]
    fn failures_come_at_growing_intervals_however_many_they_are() {
        let now = at(0);
        let plain = |failures| pause(failures, None, None, now, 0.5);
        let seconds: Vec<_> = [1, 2, 3, 4, 5].map(|n| plain(n).as_secs()).to_vec();
        assert_eq!(seconds, [120, 240, 480, 960, 1920]);
        for failures in [0, 6, 31, 32, 33, 64, 1000, u32::MAX] {
            let pause = plain(failures);
            assert!(pause >= Duration::from_secs(120) && pause <= MAX_URGENT_PAUSE, "{failures}");
        }
        // Long pauses while much time is left, short ones when it is not.
        let long = days(0, 90);
        assert_eq!(pause(20, None, Some(&long), at(60 * DAY), 0.5), MAX_PAUSE);
        assert_eq!(pause(20, None, Some(&long), at(90 * DAY - 28_800), 0.5), MAX_URGENT_PAUSE);
        assert_eq!(pause(20, None, Some(&long), at(91 * DAY), 0.5), MAX_URGENT_PAUSE);
        let short = Validity { not_before: at(0), not_after: at(60) };
        assert_eq!(pause(1, None, Some(&short), at(40), 0.5), Duration::from_secs(3));
    }

    #[test]
    fn what_the_authority_asks_for_is_respected_within_reason() {
        let hour = Duration::from_secs(3600);
        assert_eq!(pause(1, Some(hour), None, at(0), 0.0), hour);
        assert_eq!(pause(1, Some(hour * 24 * 365), None, at(0), 0.0), MAX_RETRY_AFTER);
        assert!(pause(1, Some(Duration::ZERO), None, at(0), 0.0) >= Duration::from_secs(90));
        assert_eq!(next_check(Duration::ZERO, &days(0, 90)), hour);
        assert_eq!(next_check(hour * 1000, &days(0, 90)), MAX_RETRY_AFTER);
    }

    proptest! {
        #[test]
        fn no_time_and_no_chance_breaks_it(
            since in 0u64..1 << 40, life in 0u64..1 << 40, now in 0u64..1 << 40,
            start in 0u64..1 << 40, end in 0u64..1 << 40, failures: u32,
            asked in proptest::option::of(any::<u64>()), chance: f64,
        ) {
            let validity = Validity { not_before: at(since), not_after: at(since + life) };
            let window = Window { start: at(start), end: at(end) };
            prop_assert!(renewal(&validity, Some(window), chance) <= validity.not_after);
            let due = renewal(&validity, None, chance);
            prop_assert!(due <= validity.not_after && due >= validity.not_before);
            let asked = asked.map(Duration::from_secs);
            let pause = pause(failures, asked, Some(&validity), at(now), chance);
            prop_assert!(pause >= Duration::from_millis(500) && pause <= MAX_RETRY_AFTER);
        }
    }
}
