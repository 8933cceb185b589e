//! Dates of the Gregorian calendar in UTC, and their forms in HTTP and in logs.

use std::fmt::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Names of days in three letters, from Sunday.
pub const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];

/// Names of months in three letters.
pub const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// A time in UTC, of the years 0 to 9999.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Date {
    /// Year of the Christian era.
    pub year: u16,
    /// 1 to 12.
    pub month: u8,
    /// 1 to 31.
    pub day: u8,
    /// 0 is Sunday.
    pub weekday: u8,
    /// 0 to 23.
    pub hour: u8,
    /// 0 to 59.
    pub minute: u8,
    /// 0 to 59.
    pub second: u8,
}

impl Date {
    /// Divides seconds since 1970. A time before the year 0 becomes its first second, one after the
    /// year 9999 its last.
    pub fn of(seconds: i64) -> Date {
        let seconds = seconds.clamp(FIRST_SECOND, LAST_SECOND) - FIRST_SECOND;
        let (days, second) = (seconds / 86_400, seconds % 86_400);
        // Years that begin in March end with the leap day, so that months have the same number of
        // days in each of them; 400 years have 146,097 days. The first of January of the year 0 is
        // 60 days before a March year.
        let shifted = days + 146_097 - 60;
        let (era, of_era) = (shifted / 146_097, shifted % 146_097);
        let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let march_month = (5 * of_year + 2) / 153;
        let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
        let year = (era - 1) * 400 + year_of_era + i64::from(month <= 2);
        // All of them are small: the time has limits.
        Date {
            year: year as u16,
            month: month as u8,
            day: (of_year - (153 * march_month + 2) / 5 + 1) as u8,
            weekday: ((days + 6) % 7) as u8,
            hour: (second / 3600) as u8,
            minute: (second / 60 % 60) as u8,
            second: (second % 60) as u8,
        }
    }

    /// Returns the name of the day of the week in three letters.
    pub fn day_name(&self) -> &'static str {
        DAYS[usize::from(self.weekday % 7)]
    }

    /// Returns the name of the month in three letters.
    pub fn month_name(&self) -> &'static str {
        MONTHS[usize::from(self.month.saturating_sub(1) % 12)]
    }
}

/// Returns the date of a time in seconds since 1970 as in fields of HTTP (RFC 9110, 5.6.7):
/// `Sun, 06 Nov 1994 08:49:37 GMT`. Times before the year 0 or after the year 9999 become its first
/// or last second.
pub fn http(seconds: impl TryInto<i64>) -> String {
    let date = Date::of(seconds.try_into().unwrap_or(i64::MAX));
    let (day_name, month) = (date.day_name(), date.month_name());
    let Date { year, day, hour, minute, second, .. } = date;
    format!("{day_name}, {day:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} GMT")
}

/// As [`http`], for a time of the system.
pub fn http_of(time: SystemTime) -> String {
    http(seconds_since_1970(time))
}

/// Parses a date in any of the three forms of RFC 9110, 5.6.7; returns seconds since 1970. The day
/// of the week may be a wrong one, as for Apache and nginx.
pub fn parse_http(value: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(value.trim_ascii()).ok()?;
    let date = httpdate::parse_http_date(text).ok().or_else(|| with_right_day(text))?;
    date.duration_since(UNIX_EPOCH).ok().map(|age| age.as_secs())
}

/// Appends a time since 1970 as in RFC 3339, with milliseconds: `2026-11-20T15:04:05.678Z`.
pub fn rfc3339(since_1970: Duration, out: &mut String) {
    let date = Date::of(i64::try_from(since_1970.as_secs()).unwrap_or(i64::MAX));
    let milliseconds = since_1970.subsec_millis();
    let Date { year, month, day, hour, minute, second, .. } = date;
    // Writing to a string does not fail.
    let _ = write!(
        out,
        "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milliseconds:03}Z"
    );
}

fn seconds_since_1970(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        // A part of a second before 1970 counts as a whole one.
        Err(error) => {
            i64::try_from(error.duration().as_secs()).map_or(i64::MIN, |before| -before - 1)
        }
    }
}

/// Parses a date with the day of the week that is right for it.
fn with_right_day(text: &str) -> Option<SystemTime> {
    let (day, rest) = text.split_once(' ').filter(|_| text.len() <= MAX_DATE_BYTES)?;
    LONG_DAYS.iter().find_map(|name| {
        let name = match day.strip_suffix(',') {
            Some(_) if rest.contains('-') => format!("{name},"),
            Some(_) => format!("{},", &name[..3]),
            None => name[..3].to_owned(),
        };
        httpdate::parse_http_date(&format!("{name} {rest}")).ok()
    })
}

/// First second of the year 0.
const FIRST_SECOND: i64 = -62_167_219_200;

/// Last second of the year 9999.
const LAST_SECOND: i64 = 253_402_300_799;

/// Days of the week in the long form of RFC 850; the other forms have their first three letters.
const LONG_DAYS: [&str; 7] =
    ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// Longest date of the three forms is `Wednesday, 09-Nov-94 08:49:37 GMT`.
const MAX_DATE_BYTES: usize = 33;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn dates_have_the_form_of_http() {
        for (seconds, expected) in [
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (-1, "Wed, 31 Dec 1969 23:59:59 GMT"),
            (i64::MAX, "Fri, 31 Dec 9999 23:59:59 GMT"),
            (i64::MIN, "Sat, 01 Jan 0000 00:00:00 GMT"),
        ] {
            assert_eq!(http(seconds), expected);
        }
        assert_eq!(http_of(UNIX_EPOCH - Duration::from_millis(1)), "Wed, 31 Dec 1969 23:59:59 GMT");
    }

    #[test]
    fn dates_of_http_have_three_forms() {
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
            // The day of the week is a wrong one.
            "Mon, 06 Nov 1994 08:49:37 GMT",
            "Friday, 06-Nov-94 08:49:37 GMT",
            "Tue Nov  6 08:49:37 1994",
        ] {
            assert_eq!(parse_http(text.as_bytes()), Some(784_111_777), "{text}");
        }
        for text in
            ["", "06 Nov 1994", "Sun, 06 Nov 1994 08:49:37 CET", "Sun, 31 Feb 1994 08:49:37 GMT"]
        {
            assert_eq!(parse_http(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_time_in_a_log_has_the_format_of_rfc_3339() {
        for (milliseconds, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (951_868_800_000, "2000-03-01T00:00:00.000Z"),
            (1_000_000_000_001, "2001-09-09T01:46:40.001Z"),
            (1_798_761_599_500, "2026-12-31T23:59:59.500Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            let mut text = String::new();
            rfc3339(Duration::from_millis(milliseconds), &mut text);
            assert_eq!(text, expected);
        }
    }

    proptest! {
        #[test]
        fn dates_are_those_of_the_crate_for_http(seconds in 0..=LAST_SECOND) {
            let text = http(seconds);
            let time = UNIX_EPOCH + Duration::from_secs(seconds.unsigned_abs());
            prop_assert_eq!(&text, &httpdate::fmt_http_date(time));
            prop_assert_eq!(parse_http(text.as_bytes()), Some(seconds.unsigned_abs()));
        }

        #[test]
        fn no_text_makes_a_date_panic(text: Vec<u8>, seconds: i64) {
            parse_http(&text);
            Date::of(seconds);
        }
    }
}
