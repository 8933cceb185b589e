//! Clocks: wall clock in the local time zone, and monotonic clock for durations across processes.

use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

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
    let tm = local(seconds);
    let month =
        usize::try_from(tm.tm_mon).ok().and_then(|month| howdah_text::date::MONTHS.get(month));
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
    fn a_date_in_an_access_log_has_the_offset_of_its_zone() {
        let mut text = String::new();
        log_date(1_000_000_000, &mut text);
        let (date, zone) = text.split_once(' ').unwrap();
        assert!(date.ends_with("Sep/2001:01:46:40") || zone != "+0000", "{text}");
        assert_eq!((date.len(), zone.len()), (20, 5), "{text}");
        assert!(zone.starts_with(['+', '-']), "{text}");
    }
}
