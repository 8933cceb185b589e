//! Large buffers that a thread uses again. The allocator would return their pages to the kernel and
//! get them again for nearly each response, which takes longer than to copy into them.

use std::cell::RefCell;

use bytes::Bytes;

/// Minimum size of a large buffer in bytes; the allocator keeps smaller ones.
const MIN_BYTES: usize = 32 * 1024;
/// Maximum size of a buffer that is kept, in bytes.
const MAX_BYTES: usize = 160 * 1024;
/// Maximum number of buffers that a thread keeps.
const MAX_KEPT: usize = 4;

thread_local! {
    static KEPT: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Returns an empty buffer for `bytes` bytes.
pub fn take(bytes: usize) -> Vec<u8> {
    if bytes < MIN_BYTES {
        return Vec::with_capacity(bytes);
    }
    let kept = KEPT.with_borrow_mut(|kept| {
        let fitting = kept.iter().position(|buffer| buffer.capacity() >= bytes);
        fitting.map(|index| kept.swap_remove(index))
    });
    kept.unwrap_or_else(|| Vec::with_capacity(bytes))
}

/// Returns the content of a buffer. Once it is dropped, its thread has the buffer for [`take`].
pub fn share(buffer: Vec<u8>) -> Bytes {
    if (MIN_BYTES..=MAX_BYTES).contains(&buffer.capacity()) {
        Bytes::from_owner(Large(buffer))
    } else {
        buffer.into()
    }
}

/// A buffer in use.
struct Large(Vec<u8>);

impl AsRef<[u8]> for Large {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Large {
    fn drop(&mut self) {
        let mut buffer = std::mem::take(&mut self.0);
        buffer.clear();
        // Without the list, the thread is ending.
        let _ = KEPT.try_with(|kept| {
            let mut kept = kept.borrow_mut();
            if kept.len() < MAX_KEPT {
                kept.push(buffer);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept() -> Vec<usize> {
        KEPT.with_borrow(|kept| kept.iter().map(Vec::capacity).collect())
    }

    #[test]
    fn a_large_buffer_is_used_again_once_nobody_has_its_content() {
        let mut buffer = take(MIN_BYTES);
        buffer.extend_from_slice(b"one two");
        let (start, whole) = (buffer.as_ptr(), share(buffer));
        let part = whole.slice(4..);
        drop(whole);
        assert!(kept().is_empty() && part == "two");
        drop(part);
        assert_eq!(kept(), [MIN_BYTES]);
        let larger = take(MIN_BYTES + 1);
        assert_ne!(larger.as_ptr(), start);
        let again = take(MIN_BYTES);
        assert!(again.as_ptr() == start && again.is_empty() && kept().is_empty());
    }

    #[test]
    fn few_buffers_are_kept_and_none_that_is_small_or_huge() {
        for bytes in [1, MIN_BYTES - 1, MAX_BYTES + 1] {
            assert!(take(bytes).capacity() >= bytes);
            drop(share(take(bytes)));
            assert!(kept().is_empty(), "{bytes}");
        }
        let many: Vec<_> = (0..MAX_KEPT + 3).map(|_| share(take(MAX_BYTES))).collect();
        drop(many);
        assert_eq!(kept(), [MAX_BYTES; MAX_KEPT]);
    }
}
