//! Clocks: wall clock in the local time zone, and monotonic clock for durations across processes.

use std::fmt::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Returns the monotonic clock in microseconds; it is the same for all processes. Never 0.
pub fn monotonic_us() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    (now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1000).max(1)
}

/// Returns the seconds since 1970; 0 if the clock is set before that.
pub fn wall_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Appends the current local time as `2026/11/20 15:04:05`.
pub fn local_time(out: &mut String) {
    let tm = local(wall_seconds());
    let _ = write!(
        out,
        "{:04}/{:02}/{:02} {:02}:{:02}:{:02}",
        tm.tm_year + 1900,
        tm.tm_mon + 1,
        tm.tm_mday,
        tm.tm_hour,
        tm.tm_min,
        tm.tm_sec
    );
}

/// Appends a time, in seconds since 1970, in the format of access logs: `20/Nov/2026:15:04:05
/// +0100`.
pub fn log_date(seconds: u64, out: &mut String) {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let tm = local(seconds);
    let month = usize::try_from(tm.tm_mon).ok().and_then(|month| MONTHS.get(month));
    let minutes = tm.tm_gmtoff / 60;
    let sign = if minutes < 0 { '-' } else { '+' };
    let _ = write!(
        out,
        "{:02}/{}/{:04}:{:02}:{:02}:{:02} {sign}{:02}{:02}",
        tm.tm_mday,
        month.unwrap_or(&"Jan"),
        tm.tm_year + 1900,
        tm.tm_hour,
        tm.tm_min,
        tm.tm_sec,
        minutes.abs() / 60,
        minutes.abs() % 60
    );
}

/// Appends a local time, in seconds since 1970, as in ISO 8601: `2026-11-20T15:04:05+01:00`.
pub fn iso_date(seconds: u64, out: &mut String) {
    let tm = local(seconds);
    let minutes = tm.tm_gmtoff / 60;
    let sign = if minutes < 0 { '-' } else { '+' };
    let _ = write!(
        out,
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}{sign}{:02}:{:02}",
        tm.tm_year + 1900,
        tm.tm_mon + 1,
        tm.tm_mday,
        tm.tm_hour,
        tm.tm_min,
        tm.tm_sec,
        minutes.abs() / 60,
        minutes.abs() % 60
    );
}

/// Appends a time since 1970 in UTC as in RFC 3339, with milliseconds: `2026-11-20T15:04:05.678Z`.
pub fn utc_time(since_1970: Duration, out: &mut String) {
    let (seconds, milliseconds) = (since_1970.as_secs(), since_1970.subsec_millis());
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    // Days since 1 March of the year 0. Years that begin in March end with the leap day, so that
    // months have the same number of days in each of them; 400 years have 146,097 days.
    let days = seconds / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let _ = write!(
        out,
        "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milliseconds:03}Z"
    );
}

/// Returns the seconds by which local time is ahead of UTC at a time in seconds since 1970.
pub fn utc_offset(seconds: u64) -> i64 {
    local(seconds).tm_gmtoff
}

fn local(seconds: u64) -> libc::tm {
    let seconds = libc::time_t::try_from(seconds).unwrap_or(0);
    // SAFETY: `tm` consists of integers and a pointer, for which zero is a value.
    let mut tm: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to locals that live until the end of the call.
    unsafe { libc::localtime_r(&seconds, &mut tm) };
    tm
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_in_utc_has_the_format_of_rfc_3339() {
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
            utc_time(Duration::from_millis(milliseconds), &mut text);
            assert_eq!(text, expected);
        }
    }

    #[test]
    fn a_date_in_an_access_log_has_the_offset_of_its_zone() {
        let mut text = String::new();
        log_date(1_000_000_000, &mut text);
        let (date, zone) = text.split_once(' ').unwrap();
        assert!(date.ends_with("Sep/2001:01:46:40") || zone != "+0000", "{text}");
        assert_eq!((date.len(), zone.len()), (20, 5), "{text}");
        assert!(zone.starts_with(['+', '-']), "{text}");
    }
}
