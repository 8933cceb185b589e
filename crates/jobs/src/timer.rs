//! The times of a timer as they pass: when its command is due.

use std::time::{Duration, Instant, SystemTime};

use crate::cron::Cron;
use crate::zone::{CORRECTION, Zone, minute_of, unix_seconds};
use crate::{Now, Schedule};

/// Minutes that may be missed at once, as after a busy time, before that is a change of the clock.
const LATE: i64 = 5;

/// The times of a timer, from the time on at which it was made: earlier ones are not made up for.
#[derive(Debug)]
pub(crate) enum Times {
    /// Time of the next run, by a clock that nobody changes.
    Every { interval: Duration, next: Instant },
    /// As cron.
    Cron { cron: Cron, clock: Clock },
}

/// The clock of cron: the wall's, but for the minutes that are skipped and repeated when it changes.
#[derive(Debug)]
pub(crate) struct Clock {
    zone: Zone,
    /// The last minute of the wall that was looked at.
    seen: i64,
    /// The last minute whose fixed times have been due.
    reached: i64,
}

impl Times {
    pub(crate) fn new(schedule: &Schedule, zone: Zone, now: Now) -> Times {
        match schedule {
            Schedule::Every(interval) => {
                let interval = (*interval).max(Duration::from_secs(1));
                let since_1970 = now.wall.duration_since(SystemTime::UNIX_EPOCH);
                let passed = since_1970.unwrap_or_default().as_nanos() % interval.as_nanos();
                let passed = Duration::from_nanos(u64::try_from(passed).unwrap_or(0));
                Times::Every { interval, next: now.monotonic + (interval - passed) }
            }
            Schedule::Cron(cron) => {
                let minute = zone.local_minute(now.wall);
                let clock = Clock { zone, seen: minute, reached: minute };
                Times::Cron { cron: cron.clone(), clock }
            }
        }
    }

    /// Returns the time at which the command has become due since the last call, in seconds since
    /// 1970: the same one by the clocks of several servers, unless they are minutes apart.
    pub(crate) fn pass(&mut self, now: Now) -> Option<u64> {
        match self {
            Times::Every { next, .. } if *next > now.monotonic => None,
            Times::Every { interval, next } => {
                // Those that were missed are not made up for.
                let missed = (now.monotonic - *next).as_nanos() / interval.as_nanos();
                let missed = u32::try_from(missed).unwrap_or(u32::MAX);
                *next += interval.saturating_mul(missed.saturating_add(1));
                let wall = now.wall.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
                let interval = interval.as_secs().max(1);
                // The clock of the wall has not come to the full interval yet, or has passed it.
                Some((wall.as_secs() + interval / 2) / interval * interval)
            }
            Times::Cron { cron, clock } => {
                let passed = clock.pass(cron, now.wall)?;
                let minute = unix_seconds(now.wall).div_euclid(60) - passed;
                Some(u64::try_from(minute * 60).unwrap_or(0))
            }
        }
    }

    /// Returns the time at which to ask again.
    pub(crate) fn due(&self, now: Now) -> Instant {
        match self {
            Times::Every { next, .. } => *next,
            // At each minute: the clock of the wall may have changed meanwhile.
            Times::Cron { .. } => {
                let second = unix_seconds(now.wall).rem_euclid(60);
                let since_1970 = now.wall.duration_since(SystemTime::UNIX_EPOCH);
                let fraction = since_1970.unwrap_or_default().subsec_nanos();
                let passed = Duration::new(u64::try_from(second).unwrap_or(0), fraction);
                now.monotonic + (Duration::from_secs(60) - passed)
            }
        }
    }

    /// Returns the time of the next run.
    pub(crate) fn next(&self, now: Now) -> Option<SystemTime> {
        match self {
            Times::Every { next, .. } => {
                Some(now.wall + next.saturating_duration_since(now.monotonic))
            }
            Times::Cron { cron, clock } => clock.zone.next(cron, now.wall),
        }
    }
}

impl Clock {
    /// Returns how many minutes ago a minute of `cron` has come, if one has since the last call. The
    /// four cases are those of Vixie cron's main loop (`cron.c`), which looks at the clock once a
    /// minute, too.
    fn pass(&mut self, cron: &Cron, wall: SystemTime) -> Option<i64> {
        let minute = self.zone.local_minute(wall);
        if minute == self.seen {
            return None;
        }
        self.seen = minute;
        let is_in = |minute| minute_of(minute).is_some_and(|minute| cron.matches(minute));
        let passed = minute - self.reached;
        if !(-CORRECTION..=CORRECTION).contains(&passed) {
            // The clock was corrected.
            self.reached = minute;
            return is_in(minute).then_some(0);
        }
        let mut missed = self.reached + 1..=minute;
        self.reached = self.reached.max(minute);
        if cron.is_wildcard() && !(1..=LATE).contains(&passed) {
            is_in(minute).then_some(0)
        } else {
            // Empty while the clock repeats minutes.
            missed.find(|missed| is_in(*missed)).map(|missed| minute - missed)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// 28 March 2026, 12:00 UTC: the day before summer time begins in Europe.
    const SPRING: i64 = 1_774_699_200;
    /// 24 October 2026, 12:00 UTC: the day before it ends.
    const AUTUMN: i64 = 1_792_843_200;
    const BERLIN: &str = "CET-1CEST,M3.5.0,M10.5.0/3";

    fn wall(second: i64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(second.try_into().unwrap())
    }

    /// Returns the Unix minutes of a timer's runs if it looks at these walls' minutes in turn.
    fn runs(cron: &str, zone: &str, minutes: impl IntoIterator<Item = i64>) -> Vec<i64> {
        let monotonic = Instant::now();
        let now = |minute: i64| Now { monotonic, wall: wall(minute * 60) };
        let mut minutes = minutes.into_iter();
        let schedule = Schedule::Cron(Cron::parse(cron).unwrap());
        let mut times = Times::new(&schedule, Zone::of_rule(zone), now(minutes.next().unwrap()));
        minutes.filter(|minute| times.pass(now(*minute)).is_some()).collect()
    }

    #[test]
    fn a_clock_that_is_set_forward_an_hour_makes_up_for_fixed_times_only() {
        // 12:00, 12:01, 13:01, 13:02.
        let first = SPRING / 60;
        let minutes = [first, first + 1, first + 61, first + 62];
        assert_eq!(runs("30 12 * * *", "UTC0", minutes), [first + 61], "at once");
        assert_eq!(runs("30 * * * *", "UTC0", minutes), []);
        assert_eq!(runs("* * * * *", "UTC0", minutes), minutes[1..]);
        // By more than three hours, it was wrong before.
        let minutes = [first, first + 1, first + 241, first + 242];
        assert_eq!(runs("30 12 * * *", "UTC0", minutes), []);
        assert_eq!(runs("1 16 * * *", "UTC0", minutes), [first + 241]);
    }

    #[test]
    fn a_clock_that_is_set_back_an_hour_repeats_no_fixed_time() {
        // 12:00 to 12:30, then 11:31 to 12:40.
        let first = SPRING / 60;
        let minutes = || (first..=first + 30).chain(first - 29..=first + 40);
        assert_eq!(runs("20 12 * * *", "UTC0", minutes()), [first + 20], "once");
        assert_eq!(runs("35 12 * * *", "UTC0", minutes()), [first + 35]);
        assert_eq!(
            runs("20 * * * *", "UTC0", minutes()),
            [first + 20, first + 20],
            "it is wildcard"
        );
        // By more than three hours, it was wrong before.
        let minutes = (first..=first + 30).chain(first - 300..=first + 40);
        assert_eq!(runs("20 12 * * *", "UTC0", minutes), [first + 20, first + 20]);
    }

    #[test]
    fn a_late_look_loses_no_minute_and_none_counts_twice() {
        let first = SPRING / 60;
        assert_eq!(runs("2 12 * * *", "UTC0", [first, first + 4, first + 5]), [first + 4]);
        assert_eq!(runs("2 * * * *", "UTC0", [first, first + 4, first + 5]), [first + 4]);
        assert_eq!(runs("0 12 * * *", "UTC0", [first, first, first + 1]), [], "it was missed");
    }

    #[test]
    fn an_interval_begins_at_a_full_one_and_is_not_made_up_for() {
        let monotonic = Instant::now();
        let now = |passed: u64, step: i64| Now {
            monotonic: monotonic + Duration::from_secs(passed),
            wall: wall(SPRING + 50 + step),
        };
        let schedule = Schedule::Every(Duration::from_secs(60));
        let mut times = Times::new(&schedule, Zone::utc(), now(0, 0));
        assert_eq!(times.due(now(0, 0)), now(10, 0).monotonic, "the next full minute");
        assert_eq!(times.next(now(4, 4)), Some(wall(SPRING + 60)));
        let mut is_due = |passed, step| times.pass(now(passed, step)).is_some();
        assert!(!is_due(9, 9) && is_due(10, 10) && !is_due(11, 11));
        // The clock of the wall is set back an hour, and forward a day: it does not matter.
        assert!(!is_due(69, -3600) && is_due(70, 86_400));
        assert!(is_due(400, 400) && !is_due(429, 429), "missed ones");
        assert!(is_due(430, 430));
    }

    #[test]
    fn clocks_that_are_seconds_apart_and_late_looks_name_the_same_time() {
        let monotonic = Instant::now();
        let interval = Schedule::Every(Duration::from_secs(60));
        let cron = Schedule::Cron(Cron::parse("1 13 * * *").unwrap());
        for (schedule, late) in [(interval, 20), (cron, 200)] {
            for (error, passed) in [(0, 60), (-7, 67), (7, 53), (3, 57 + late)] {
                let now = |passed: i64| Now {
                    monotonic: monotonic + Duration::from_secs(passed.try_into().unwrap()),
                    wall: wall(SPRING + error + passed),
                };
                let mut times = Times::new(&schedule, Zone::of_rule(BERLIN), now(0));
                assert_eq!(times.pass(now(passed)), Some(SPRING as u64 + 60), "{error}");
            }
        }
    }

    /// A field of cron: `*`, a step, a number, a range or a list.
    fn field(min: u8, max: u8) -> impl Strategy<Value = String> {
        let number = min..=max;
        prop_oneof![
            Just("*".to_owned()),
            (1u8..=30).prop_map(|step| format!("*/{step}")),
            number.clone().prop_map(|number| number.to_string()),
            (number.clone(), number.clone()).prop_map(|(a, b)| format!("{},{}", a, b)),
            (number.clone(), number).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b))),
        ]
    }

    proptest! {
        // Each case has a day of minutes.
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// Looking at the clock each minute finds the times that [`Zone::next`] calculates, also
        /// over the changes of summer time.
        #[test]
        fn the_times_that_pass_are_those_that_are_predicted(
            minute in field(0, 59),
            hour in field(0, 23),
            weekday in field(0, 7),
            first in prop_oneof![Just(SPRING), Just(AUTUMN), Just(SPRING - 7 * 86_400)],
            zone in prop_oneof![
                Just(BERLIN),
                Just("UTC0"),
                // Half an hour; changes on 4 April and 4 October.
                Just("<+1030>-10:30<+11>-11,M10.5.0,M3.5.0"),
                // At midnight.
                Just("<-03>3<-02>,M3.5.0/0,M10.5.0/0"),
            ],
        ) {
            let text = format!("{minute} {hour} * * {weekday}");
            let first = first / 60;
            let passed = runs(&text, zone, first..=first + 24 * 60);
            let (cron, zone) = (Cron::parse(&text).unwrap(), Zone::of_rule(zone));
            let mut predicted = Vec::new();
            let mut time = wall(first * 60);
            while let Some(next) = zone.next(&cron, time) {
                if unix_seconds(next) > (first + 24 * 60) * 60 {
                    break;
                }
                predicted.push(unix_seconds(next) / 60);
                time = next;
            }
            prop_assert_eq!(passed, predicted, "{}", text);
        }
    }

    proptest! {
        /// Whatever the clock shows, the look at it ends, and no minute is due twice in a row.
        #[test]
        fn any_clock_is_survived(minutes in proptest::collection::vec(0i64..60_000_000, 2..50)) {
            let doubled: Vec<_> = minutes.iter().flat_map(|minute| [*minute, *minute]).collect();
            let found = runs("* * * * *", BERLIN, doubled);
            prop_assert!(found.windows(2).all(|pair| pair[0] != pair[1] || minutes.contains(&pair[0])));
            prop_assert!(found.len() <= minutes.len());
        }
    }
}
