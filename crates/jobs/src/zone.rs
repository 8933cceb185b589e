//! Time zones: from the time of the world to the clock of the wall.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};

use crate::cron::{Cron, Day, Minute};

/// Maximum length of the name of a time zone, in bytes.
pub const MAX_ZONE_NAME_BYTES: usize = 64;

/// Minutes that are skipped or repeated at once, beyond which the clock was corrected: such a change
/// is followed, and nothing is made up for. cron has three hours.
pub(crate) const CORRECTION: i64 = 180;

const MINUTES_OF_DAY: i64 = 24 * 60;

/// Days that are searched for the next minute of a timer: 29 February is a Sunday at least once in
/// 40 years.
const MAX_SEARCHED_DAYS: i64 = 41 * 366;

/// A time zone.
#[derive(Debug, Clone)]
pub struct Zone(TimeZone);

impl Zone {
    /// Returns the time zone UTC.
    pub fn utc() -> Zone {
        Zone(TimeZone::UTC)
    }

    /// Reads a file of the system's database of time zones (RFC 9636). Error: the reason in words.
    pub fn of_file(name: &str, contents: &[u8]) -> Result<Zone, String> {
        TimeZone::tzif(name, contents).map(Zone).map_err(|error| error.to_string())
    }

    /// Returns true if a text has the form of the name of a time zone, such as `Europe/Berlin`: a
    /// relative path without `.` and `..`, of at most [`MAX_ZONE_NAME_BYTES`].
    pub fn is_name(name: &str) -> bool {
        let is_part = |part: &str| {
            let mut bytes = part.bytes();
            bytes.next().is_some_and(|first| first.is_ascii_alphabetic())
                && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"_+-".contains(&byte))
        };
        name.len() <= MAX_ZONE_NAME_BYTES && name.split('/').all(is_part)
    }

    /// Returns the minutes since 1970-01-01 00:00 by the clock of the wall.
    pub(crate) fn local_minute(&self, time: SystemTime) -> i64 {
        let second = unix_seconds(time);
        let offset = Timestamp::from_second(second).map(|time| self.0.to_offset(time).seconds());
        (second + i64::from(offset.unwrap_or(0))).div_euclid(60)
    }

    /// Returns the first time after `after` at which a timer runs if nobody changes the clock;
    /// `None` if there is none within decades.
    ///
    /// Minutes that are skipped when summer time begins are made up for at once, and minutes that
    /// are repeated when it ends count once. If [`Cron::is_wildcard`], the clock of the wall is
    /// followed instead: no minute is made up for, and a repeated one counts again.
    pub fn next(&self, cron: &Cron, after: SystemTime) -> Option<SystemTime> {
        let after = unix_seconds(after);
        let passed = self.local_minute(of_unix_seconds(after));
        let first = passed + 1 - self.minutes_to_repeat(after);
        let first_day = first.div_euclid(MINUTES_OF_DAY);
        // The second, and the last minute by the clock that may have an earlier one.
        let mut found: Option<(i64, i64)> = None;
        for day in first_day..first_day + MAX_SEARCHED_DAYS {
            let midnight = day * MINUTES_OF_DAY;
            if found.is_some_and(|(_, last)| midnight > last) {
                break;
            }
            let civil = civil_of(midnight)?;
            if !cron.matches_day(day_of(civil)) {
                continue;
            }
            for (hour, minute) in cron.times() {
                let local = midnight + i64::from(hour) * 60 + i64::from(minute);
                if found.is_some_and(|(_, last)| local > last) {
                    break;
                }
                let Ok(time) = civil.with().hour(hour).minute(minute).build() else { continue };
                for (index, second) in self.runs(cron, time).into_iter().enumerate() {
                    let is_earlier = |second: i64| found.is_none_or(|(found, _)| second < found);
                    if let Some(second) = second
                        && local >= first
                        && second > after
                        && is_earlier(second)
                    {
                        // Before a minute comes again, later ones come for the first time.
                        let more = if index == 0 { 0 } else { MINUTES_OF_DAY };
                        found = Some((second, local + more));
                    }
                }
            }
        }
        found.map(|(second, _)| of_unix_seconds(second))
    }

    /// Returns how many minutes up to now the clock of the wall will show again soon.
    fn minutes_to_repeat(&self, now: i64) -> i64 {
        let Ok(time) = Timestamp::from_second(now) else { return 0 };
        let Some(change) = self.0.following(time).next() else { return 0 };
        let back = i64::from(self.0.to_offset(time).seconds() - change.offset().seconds());
        let is_soon = change.timestamp().as_second() - now <= back;
        if is_soon { (back + 59).div_euclid(60).max(0) } else { 0 }
    }

    /// Returns when a timer runs for a minute by the clock of the wall, in Unix seconds.
    fn runs(&self, cron: &Cron, time: DateTime) -> [Option<i64>; 2] {
        let is_fixed = !cron.is_wildcard();
        let with = |offset: Offset| offset.to_timestamp(time).ok().map(|time| time.as_second());
        match self.0.to_ambiguous_timestamp(time).offset() {
            AmbiguousOffset::Unambiguous { offset } => [with(offset), None],
            AmbiguousOffset::Fold { before, after } => {
                let repeated = i64::from(before.seconds() - after.seconds()) / 60;
                let again = if is_fixed && repeated <= CORRECTION { None } else { with(after) };
                [with(before), again]
            }
            AmbiguousOffset::Gap { before, after } => {
                let skipped = i64::from(after.seconds() - before.seconds()) / 60;
                let is_made_up = is_fixed && skipped < CORRECTION;
                [if is_made_up { self.change_before(with(before)) } else { None }, None]
            }
        }
    }

    /// Returns the first full minute after the last change of the clock before a time.
    fn change_before(&self, second: Option<i64>) -> Option<i64> {
        let time = Timestamp::from_second(second?.checked_add(1)?).ok()?;
        let change = self.0.preceding(time).next()?.timestamp().as_second();
        Some((change + 59).div_euclid(60) * 60)
    }
}

/// Returns a minute since 1970-01-01 00:00 by the clock of the wall, with its day.
pub(crate) fn minute_of(local_minute: i64) -> Option<Minute> {
    let time = civil_of(local_minute)?;
    Some(Minute { minute: time.minute(), hour: time.hour(), day: day_of(time) })
}

fn civil_of(local_minute: i64) -> Option<DateTime> {
    let time = Timestamp::from_second(local_minute.checked_mul(60)?).ok()?;
    Some(Offset::UTC.to_datetime(time))
}

fn day_of(time: DateTime) -> Day {
    let weekday = time.weekday().to_sunday_zero_offset();
    Day { day: time.day(), month: time.month(), weekday }
}

/// Returns seconds since 1970; 0 before.
pub(crate) fn unix_seconds(time: SystemTime) -> i64 {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    i64::try_from(seconds).unwrap_or(i64::MAX)
}

fn of_unix_seconds(seconds: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

#[cfg(test)]
impl Zone {
    /// Returns the zone of a `TZ` variable of POSIX.
    pub(crate) fn of_rule(rule: &str) -> Zone {
        Zone(TimeZone::posix(rule).unwrap())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BERLIN: &str = "CET-1CEST,M3.5.0,M10.5.0/3";

    /// Returns the next three times after one, each as text in UTC.
    fn next_three(cron: &str, zone: &str, after: &str) -> Vec<String> {
        let (cron, zone) = (Cron::parse(cron).unwrap(), Zone::of_rule(zone));
        let after: Timestamp = after.parse().unwrap();
        let mut time = of_unix_seconds(after.as_second());
        let mut next = || {
            time = zone.next(&cron, time)?;
            Some(Timestamp::from_second(unix_seconds(time)).unwrap().to_string())
        };
        (0..3).map_while(|_| next()).collect()
    }

    #[test]
    fn a_time_of_the_day_follows_summer_time_and_runs_once_on_each_day() {
        assert_eq!(
            next_three("30 2 * * *", BERLIN, "2026-03-27T20:00:00Z"),
            // 29 March has no 02:30: it runs at 03:00, the first minute of summer time.
            ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]
        );
        assert_eq!(
            next_three("30 2 * * *", BERLIN, "2026-10-24T20:00:00Z"),
            // 25 October has 02:30 twice.
            ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z", "2026-10-27T01:30:00Z"]
        );
    }

    #[test]
    fn what_runs_each_hour_follows_the_clock() {
        assert_eq!(
            next_three("30 * * * *", BERLIN, "2026-10-25T00:00:00Z"),
            ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:30:00Z"]
        );
        assert_eq!(
            next_three("30 * * * *", BERLIN, "2026-03-29T00:00:00Z"),
            ["2026-03-29T00:30:00Z", "2026-03-29T01:30:00Z", "2026-03-29T02:30:00Z"]
        );
        assert_eq!(
            next_three("0 */2 * * *", BERLIN, "2026-03-28T23:00:00Z"),
            // 02:00 does not exist.
            ["2026-03-29T02:00:00Z", "2026-03-29T04:00:00Z", "2026-03-29T06:00:00Z"]
        );
    }

    #[test]
    fn rare_days_are_found() {
        assert_eq!(
            next_three("0 0 29 2 *", "UTC0", "2096-03-01T00:00:00Z"),
            ["2104-02-29T00:00:00Z", "2108-02-29T00:00:00Z", "2112-02-29T00:00:00Z"]
        );
        assert_eq!(
            next_three("0 0 29 2 */7", "UTC0", "2026-03-01T00:00:00Z")[..2],
            ["2032-02-29T00:00:00Z", "2060-02-29T00:00:00Z"]
        );
        // India has half an hour.
        assert_eq!(
            next_three("@yearly", "IST-5:30", "2026-03-01T00:00:00Z")[0],
            "2026-12-31T18:30:00Z"
        );
    }

    #[test]
    fn names_of_zones_lead_to_no_other_file() {
        for name in ["UTC", "Europe/Berlin", "America/Argentina/Ushuaia", "Etc/GMT+5", "EST5EDT"] {
            assert!(Zone::is_name(name), "{name}");
        }
        for name in
            ["", "/etc/passwd", "../x", "Europe/../x", "Europe//Berlin", "a b", ".", "a\0", "a/"]
        {
            assert!(!Zone::is_name(name), "{name}");
        }
        assert!(!Zone::is_name(&"a".repeat(65)));
        for damaged in [&b""[..], b"TZif", &[b"TZif2".as_slice(), &[255; 40]].concat()] {
            assert!(Zone::of_file("x", damaged).is_err());
        }
    }
}
