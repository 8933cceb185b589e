//! Waiting on the low half of a 64-bit word that processes share.

use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::futex;

fn low_half(word: &AtomicU64) -> &AtomicU32 {
    const { assert!(cfg!(target_endian = "little"), "the low half must come first") };
    // SAFETY: the first four bytes of an `AtomicU64` are in bounds and aligned for an
    // `AtomicU32`, any bit pattern is valid, and the kernel only compares them. The reference
    // does not leave this module: nothing but the futex call uses it, so no mixed-size access
    // happens in this process.
    unsafe { &*std::ptr::from_ref(word).cast() }
}

/// Waits until somebody wakes the word, its low half is no longer `expected`, the time is over
/// or a signal came. The caller looks again whatever the reason was.
pub fn wait(word: &AtomicU64, expected: u32, timeout: Option<Duration>) {
    let timeout = timeout.map(|t| futex::Timespec {
        tv_sec: t.as_secs() as i64,
        tv_nsec: i64::from(t.subsec_nanos()),
    });
    let result = futex::wait(low_half(word), futex::Flags::empty(), expected, timeout.as_ref());
    debug_assert!(matches!(result, Ok(()) | Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT)));
}

/// Wakes up to `count` waiters.
pub fn wake(word: &AtomicU64, count: u32) {
    let _ = futex::wake(low_half(word), futex::Flags::empty(), count);
}
