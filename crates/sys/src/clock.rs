//! Clocks: wall clock in the local time zone, and monotonic clock for durations across processes.

use std::ffi::CString;
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

/// Maximum length of a time in the format of a user, in bytes.
const MAX_FORMATTED: usize = 128;

/// Appends a local time, in seconds since 1970, in a format of `strftime`; nothing if the text would be
/// longer than 127 bytes.
pub fn formatted(seconds: u64, format: &str, out: &mut Vec<u8>) {
    let Ok(format) = CString::new(format) else { return };
    let (tm, mut buffer) = (local(seconds), [0_u8; MAX_FORMATTED]);
    // SAFETY: `buffer` is as long as the call is told, `format` ends with a NUL, and `tm` was filled by
    // `localtime_r`, whose name of the time zone is static.
    let len =
        unsafe { libc::strftime(buffer.as_mut_ptr().cast(), MAX_FORMATTED, format.as_ptr(), &tm) };
    out.extend_from_slice(buffer.get(..len).unwrap_or_default());
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

    #[test]
    fn a_format_of_strftime_is_obeyed_and_cut_to_nothing_if_it_is_too_long() {
        let of = |format: &str| {
            let mut out = Vec::new();
            formatted(1_000_000_000, format, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(of("%Y-%m %% %s"), "2001-09 % 1000000000");
        for none in ["", "a\0b", &"%Y".repeat(40)] {
            assert_eq!(of(none), "");
        }
    }
}
