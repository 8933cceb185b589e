//! The wall clock in the local time zone, for people, and the monotonic one, for durations that
//! several processes measure.

use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

/// Microseconds on the monotonic clock, which is the same for all processes and never 0.
pub fn monotonic_us() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    (now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1000).max(1)
}

/// Appends `2026/11/20 15:04:05`.
pub fn local_time(out: &mut String) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs() as i64);
    // SAFETY: `tm` consists of integers and a pointer, for which zero is a value.
    let mut tm: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are valid for the call.
    unsafe { libc::localtime_r(&now, &mut tm) };
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
