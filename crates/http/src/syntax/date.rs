//! The `Date` field, formatted once a second per thread.

use std::cell::Cell;

use rustix::time::{ClockId, clock_gettime};

/// Length in bytes of `Date: Tue, 15 Nov 1994 08:12:31 GMT`.
const LEN: usize = 35;

thread_local! {
    static LINE: Cell<(i64, [u8; LEN])> = const { Cell::new((i64::MIN, [b' '; LEN])) };
}

/// Returns the field for the current time, without the line end. The coarse clock is exact to some
/// milliseconds, and reading it needs no system call.
pub fn line() -> [u8; LEN] {
    let now = clock_gettime(ClockId::RealtimeCoarse).tv_sec;
    LINE.with(|line| {
        let (second, text) = line.get();
        if second == now {
            return text;
        }
        let text = format_line(now);
        line.set((now, text));
        text
    })
}

/// Returns the value of the field for the current time.
pub fn value() -> [u8; LEN - 6] {
    line().last_chunk().copied().unwrap_or([b' '; LEN - 6])
}

fn format_line(second: i64) -> [u8; LEN] {
    // A clock set before 1970 gives the start of 1970; one past the year 9999, its end.
    let date = howdah_text::date::http(second.max(0));
    let mut text = [b' '; LEN];
    for (to, from) in text.iter_mut().zip(b"Date: ".iter().chain(date.as_bytes())) {
        *to = *from;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_what_the_rfc_shows() {
        assert_eq!(&format_line(784_111_777), b"Date: Sun, 06 Nov 1994 08:49:37 GMT");
    }

    #[test]
    fn the_field_tells_the_current_time() {
        let now = || clock_gettime(ClockId::RealtimeCoarse).tv_sec;
        // Twice, as the second one comes from the cache unless a second has passed.
        for _ in 0..2 {
            let (before, line, value, after) = (now(), line(), value(), now());
            for date in [line.strip_prefix(b"Date: ").unwrap(), &value] {
                let second = howdah_text::date::parse_http(date).unwrap() as i64;
                assert!((before..=after).contains(&second), "{before} {second} {after}");
            }
        }
    }

    #[test]
    fn a_clock_far_off_is_no_reason_to_stop() {
        assert_eq!(&format_line(-1), b"Date: Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(&format_line(i64::MAX), b"Date: Fri, 31 Dec 9999 23:59:59 GMT");
    }
}
