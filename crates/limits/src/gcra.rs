//! The generic cell rate algorithm (ITU-T I.371): a rate and a burst from one time for each key.
//!
//! A key has a due time: the time at which its requests so far would have arrived, had they come at
//! the configured rate. Each admitted request moves it by one interval. A request conforms if the
//! due time is then at most a burst ahead. No timer runs between requests, and the result does not
//! depend on when or on which thread they are checked.
//!
//! Without a burst, a request that comes a moment after the due time would move all later ones by
//! that moment, and a client that asks all the time would get less than the rate. The due time may
//! therefore be behind the present by a grace, which later requests make up for.

use crate::{Nanos, SECOND};

/// A rate and the burst beyond it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Time between two requests at this rate.
    interval: Nanos,
    /// Time by which the due time of a key may be ahead of the present after a request.
    tolerance: Nanos,
    /// Requests that may come at once.
    quota: u64,
    /// Time by which the due time may be behind the present.
    grace: Nanos,
}

/// Maximum of the grace. Two requests are never closer than half an interval.
const MAX_GRACE: Nanos = SECOND / 100;

/// Answer to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conformance {
    /// The request conforms. The due time has been moved.
    Conforms {
        /// Time until the request would have arrived at exactly the configured rate; 0 without
        /// a burst.
        ahead: Nanos,
    },
    /// The request exceeds the rate and the burst. The due time is unchanged.
    Exceeds {
        /// Time until the next request conforms.
        wait: Nanos,
    },
}

impl Rate {
    /// Creates a rate of `requests` in each `period` (nanoseconds), and `burst` further requests
    /// at once. A rate of 0 is one of 1.
    pub fn new(requests: u32, period: Nanos, burst: u32) -> Rate {
        let interval = (period / u64::from(requests.max(1))).max(1);
        let quota = u64::from(burst) + 1;
        let grace = if burst == 0 { (interval / 2).min(MAX_GRACE) } else { 0 };
        Rate { interval, tolerance: interval.saturating_mul(quota), quota, grace }
    }

    /// Checks a request of a key with this due time, and moves the due time if it conforms.
    pub fn request(&self, due: &mut Nanos, now: Nanos) -> Conformance {
        let begin = (*due).max(now.saturating_sub(self.grace));
        let next = begin.saturating_add(self.interval);
        match next.saturating_sub(now) {
            ahead if ahead <= self.tolerance => {
                *due = next;
                Conformance::Conforms { ahead: begin.saturating_sub(now) }
            }
            ahead => Conformance::Exceeds { wait: ahead - self.tolerance },
        }
    }

    /// Returns the time from which a key with this due time is like one that was never seen.
    pub fn forgotten_at(&self, due: Nanos) -> Nanos {
        due.saturating_add(self.grace)
    }

    /// Returns the time by which the due time may be behind the present.
    pub fn grace(&self) -> Nanos {
        self.grace
    }

    /// Takes back a request that conformed, and was refused for another reason.
    pub fn take_back(&self, due: &mut Nanos) {
        *due = due.saturating_sub(self.interval);
    }

    /// Returns the time until a request of a key with this debt conforms.
    pub fn wait(&self, debt: Nanos) -> Nanos {
        debt.saturating_add(self.interval).saturating_sub(self.tolerance)
    }

    /// Returns the time by which the due time of a key may be ahead of the present after a request.
    pub fn tolerance(&self) -> Nanos {
        self.tolerance
    }

    /// Returns the due time for which no request conforms until `time`.
    pub fn blocked_until(&self, time: Nanos) -> Nanos {
        time.saturating_add(self.tolerance).saturating_sub(self.interval)
    }

    /// Returns the number of requests that conform at once.
    pub fn remaining(&self, due: Nanos, now: Nanos) -> u64 {
        self.tolerance.saturating_sub(due.saturating_sub(now)) / self.interval
    }

    /// Returns the number of requests that a key without debt may send at once.
    pub fn quota(&self) -> u64 {
        self.quota
    }

    /// Returns the time between two requests at this rate.
    pub fn interval(&self) -> Nanos {
        self.interval
    }

    /// Returns the whole seconds, rounded up, after which a key that has used its quota has all of
    /// it again.
    pub fn window(&self) -> u64 {
        self.tolerance.div_ceil(SECOND)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn conforms(rate: &Rate, due: &mut Nanos, now: Nanos) -> bool {
        matches!(rate.request(due, now), Conformance::Conforms { .. })
    }

    #[test]
    fn a_burst_is_admitted_and_then_one_request_each_interval() {
        let (rate, mut due) = (Rate::new(10, SECOND, 4), 0);
        let now = 7 * SECOND;
        assert_eq!(rate.quota(), 5);
        for admitted in 0..5 {
            assert_eq!(rate.remaining(due, now), 5 - admitted);
            let ahead = admitted * SECOND / 10;
            assert_eq!(rate.request(&mut due, now), Conformance::Conforms { ahead });
        }
        let wait = SECOND / 10;
        assert_eq!(rate.request(&mut due, now), Conformance::Exceeds { wait });
        assert!(!conforms(&rate, &mut due, now + wait - 1));
        assert!(conforms(&rate, &mut due, now + wait));
        assert!(!conforms(&rate, &mut due, now + wait));
    }

    #[test]
    fn a_request_that_is_taken_back_leaves_no_trace() {
        let (rate, mut due) = (Rate::new(1, 60 * SECOND, 1), 0);
        assert!(conforms(&rate, &mut due, SECOND) && conforms(&rate, &mut due, SECOND));
        rate.take_back(&mut due);
        assert!(conforms(&rate, &mut due, SECOND) && !conforms(&rate, &mut due, SECOND));
    }

    #[test]
    fn a_blocked_key_conforms_again_at_the_end_of_its_block() {
        let rate = Rate::new(5, SECOND, 3);
        let end = 100 * SECOND;
        let mut due = rate.blocked_until(end);
        assert!(!conforms(&rate, &mut due, end - 1));
        assert!(conforms(&rate, &mut due, end));
        assert!(!conforms(&rate, &mut due, end), "the burst comes back at the rate");
    }

    /// Requests arrive at moments that do not fit the rate.
    #[test]
    fn the_rate_is_exact_without_a_burst_too() {
        for requests in [5, 100, 1000, 3000] {
            let (rate, mut due, mut forgotten_at) = (Rate::new(requests, SECOND, 0), 0, 0);
            let (mut now, mut admitted, mut last) = (SECOND, 0u64, 0);
            while now < 11 * SECOND {
                if forgotten_at <= now {
                    due = 0;
                }
                if conforms(&rate, &mut due, now) {
                    forgotten_at = rate.forgotten_at(due);
                    assert!(now - last >= rate.interval() / 2, "two are never that close");
                    (admitted, last) = (admitted + 1, now);
                }
                now += 83_217;
            }
            let expected = u64::from(requests) * 10;
            // The first one comes at once.
            let difference = (admitted - 1).abs_diff(expected);
            assert!(difference * 100 <= expected, "{admitted} of {expected}");
        }
    }

    #[test]
    fn a_client_that_was_quiet_gains_no_more_than_the_grace() {
        let rate = Rate::new(1, 3600 * SECOND, 0);
        let mut due = 0;
        assert!(conforms(&rate, &mut due, SECOND));
        assert_eq!(
            rate.request(&mut due, SECOND),
            Conformance::Exceeds { wait: 3600 * SECOND - MAX_GRACE }
        );
        assert_eq!(Rate::new(1, SECOND, 1).grace(), 0);
    }

    proptest! {
        /// However requests are spread, the number admitted in any time is the rate and the burst.
        #[test]
        fn no_more_is_admitted_than_rate_and_burst(
            requests in 1u32..100_000, burst in 0u32..100,
            gaps in proptest::collection::vec(0u64..SECOND / 50, 1..400),
        ) {
            let (rate, mut due, mut now, mut admitted) =
                (Rate::new(requests, SECOND, burst), 0, SECOND, 0u64);
            for gap in &gaps {
                now += gap;
                admitted += u64::from(conforms(&rate, &mut due, now));
            }
            let most = (now - SECOND + rate.grace()) / rate.interval() + rate.quota();
            prop_assert!(admitted <= most, "{admitted} of {most}");
        }

        /// A client that asks all the time gets the rate, within one in a hundred.
        #[test]
        fn the_rate_is_exact_over_ten_seconds(requests in 10u32..400) {
            let (rate, mut due, mut admitted) = (Rate::new(requests, SECOND, 0), 0, 0u64);
            let step = rate.interval() / 3 + 1;
            let mut now = SECOND;
            while now < 11 * SECOND {
                admitted += u64::from(conforms(&rate, &mut due, now));
                now += step;
            }
            let expected = 10 * u64::from(requests);
            let tolerated = expected / 100 + 1;
            // A client that asks at its own pace misses each turn by up to one step; the due time
            // is not moved for it, so that a burst is needed to catch up.
            let rate = Rate::new(requests, SECOND, 1);
            let (mut due, mut caught_up, mut now) = (0, 0u64, SECOND);
            while now < 11 * SECOND {
                caught_up += u64::from(conforms(&rate, &mut due, now));
                now += step;
            }
            prop_assert!(admitted <= expected + tolerated);
            prop_assert!(caught_up.abs_diff(expected) <= tolerated, "{caught_up} of {expected}");
        }
    }
}
