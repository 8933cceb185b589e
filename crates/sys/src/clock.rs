//! The wall clock in the local time zone, for people.

use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

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
