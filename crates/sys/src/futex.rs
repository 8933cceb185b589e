//! Waits on the low half of a 64-bit word that processes share.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::futex;

use crate::clock;

fn low_half(word: &AtomicU64) -> &AtomicU32 {
    const { assert!(cfg!(target_endian = "little"), "the low half must come first") };
    // SAFETY: the first four bytes of an `AtomicU64` are in bounds and aligned for an
    // `AtomicU32`, any bit pattern is valid, and the kernel only compares them. The reference
    // does not leave this module: nothing but the futex call uses it, so no mixed-size access
    // happens in this process.
    unsafe { &*std::ptr::from_ref(word).cast() }
}

/// Waits until the word is woken, its low half is not `expected`, the timeout has passed, or a
/// signal arrives. The caller must check the word again in any case.
pub fn wait(word: &AtomicU64, expected: u32, timeout: Option<Duration>) {
    wait_in(word, expected, NonZeroU32::MAX, timeout);
}

/// Waits like [`wait`], with a bit set: [`wake_in`] wakes this waiter if the sets intersect.
/// Returns true if the timeout has passed.
pub fn wait_in(
    word: &AtomicU64,
    expected: u32,
    sets: NonZeroU32,
    timeout: Option<Duration>,
) -> bool {
    // FUTEX_WAIT_BITSET takes an absolute time.
    let end = timeout.map(|timeout| {
        let end = Duration::from_micros(clock::monotonic_us()) + timeout;
        futex::Timespec { tv_sec: end.as_secs() as i64, tv_nsec: i64::from(end.subsec_nanos()) }
    });
    let flags = futex::Flags::empty();
    let result = futex::wait_bitset(low_half(word), flags, expected, end.as_ref(), sets);
    debug_assert!(matches!(result, Ok(()) | Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT)));
    result == Err(Errno::TIMEDOUT)
}

/// Wakes up to `count` waiters.
pub fn wake(word: &AtomicU64, count: u32) {
    let _ = futex::wake(low_half(word), futex::Flags::empty(), count);
}

/// Wakes one waiter whose set intersects with this one.
pub fn wake_in(word: &AtomicU64, sets: NonZeroU32) {
    let _ = futex::wake_bitset(low_half(word), futex::Flags::empty(), 1, sets);
}
