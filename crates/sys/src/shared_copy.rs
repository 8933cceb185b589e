//! Copies between private memory and memory that other processes may write at the same time.
//!
//! The copied bytes may be a mixture of older and newer writes of others, in any order: the caller
//! must not depend on it, and must check a length that is part of it once it is private. Everything
//! else is as with `memcpy`, which is no alternative: a compiler may read its source again later,
//! as if no other process could have changed it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Length in bytes from which the processor's instruction for copies is faster than a loop.
const MIN_BLOCK_BYTES: usize = 512;

/// Number of words that are copied in one step of the loop.
const ROW: usize = 8;

/// Copies bytes to the start of `words`; the last word is padded with zeros.
///
/// # Panics
/// If there are too few words.
pub fn store(words: &[AtomicU64], bytes: &[u8]) {
    let words = &words[..bytes.len().div_ceil(8)];
    let block = if bytes.len() < MIN_BLOCK_BYTES { 0 } else { store_block(words, bytes) };
    let mut chunks = bytes[block..].chunks_exact(8);
    let mut words = words[block / 8..].iter();
    for (chunk, word) in chunks.by_ref().zip(words.by_ref()) {
        let mut eight = [0; 8];
        eight.copy_from_slice(chunk);
        word.store(u64::from_le_bytes(eight), Relaxed);
    }
    if let Some(word) = words.next() {
        let rest = chunks.remainder();
        let mut eight = [0; 8];
        eight[..rest.len()].copy_from_slice(rest);
        word.store(u64::from_le_bytes(eight), Relaxed);
    }
}

/// Appends `len` bytes from the start of `words` to `out`.
///
/// # Panics
/// If there are too few words.
pub fn load(words: &[AtomicU64], len: usize, out: &mut Vec<u8>) {
    let words = &words[..len.div_ceil(8)];
    out.reserve(len.next_multiple_of(8));
    let keep = out.len() + len;
    let block = if len < MIN_BLOCK_BYTES { 0 } else { load_block(words, out) };
    // Rows of a constant length: checking the capacity for each word takes three times as long.
    let (rows, rest) = words[block / 8..].as_chunks::<ROW>();
    for row in rows {
        let mut bytes = [0; ROW * 8];
        for (eight, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(row) {
            *eight = word.load(Relaxed).to_le_bytes();
        }
        out.extend_from_slice(&bytes);
    }
    for word in rest {
        out.extend_from_slice(&word.load(Relaxed).to_le_bytes());
    }
    out.truncate(keep);
}

/// Copies whole words of `bytes`. Returns the number of bytes copied; 0 if this processor has no
/// instruction for it.
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn store_block(words: &[AtomicU64], bytes: &[u8]) -> usize {
    let len = bytes.len() / 8 * 8;
    assert!(len <= size_of_val(words));
    // SAFETY: `len` bytes can be read from `bytes` and written to `words` (checked above), whose
    // content may change through a shared reference. See `copy` for other processes.
    unsafe { copy(bytes.as_ptr(), words.as_ptr().cast_mut().cast(), len) };
    len
}

/// Appends `words` to `out`, which must have capacity for them. Returns as [`store_block`].
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn load_block(words: &[AtomicU64], out: &mut Vec<u8>) -> usize {
    let room = out.spare_capacity_mut();
    let len = size_of_val(words);
    assert!(len <= room.len());
    // SAFETY: `len` bytes can be read from `words` and written to `room` (checked above), which
    // only this thread has. See `copy` for other processes.
    unsafe { copy(words.as_ptr().cast(), room.as_mut_ptr().cast(), len) };
    let filled = out.len() + len;
    // SAFETY: the bytes up to `filled` are within the capacity and were written.
    unsafe { out.set_len(filled) };
    len
}

/// Copies `len` bytes.
///
/// # Safety
/// `len` bytes must be readable at `from` and writable at `to`, without an overlap.
#[cfg(all(target_arch = "x86_64", not(miri)))]
unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the instruction reads each byte once and writes it once, forwards (the calling
    // convention has the direction flag clear). To the compiler it is a sequence of accesses that
    // it knows nothing about, so it may be the same as relaxed atomic loads and stores of the
    // bytes: with other processes that write there at the same time it is no data race, and no byte
    // is read a second time.
    unsafe {
        std::arch::asm!(
            "rep movsb",
            inout("rcx") len => _,
            inout("rsi") from => _,
            inout("rdi") to => _,
            options(nostack, preserves_flags)
        );
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn store_block(_: &[AtomicU64], _: &[u8]) -> usize {
    0
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn load_block(_: &[AtomicU64], _: &mut Vec<u8>) -> usize {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(count: usize) -> Vec<AtomicU64> {
        (0..count).map(|_| AtomicU64::new(u64::MAX)).collect()
    }

    #[test]
    fn bytes_come_back_whatever_their_number() {
        let bytes: Vec<u8> = (0..2000_u32).map(|n| (n * 7) as u8).collect();
        for len in (0..70_usize).chain(500..530).chain(1990..=2000) {
            let memory = words(len.div_ceil(8) + 1);
            store(&memory, &bytes[..len]);
            let mut out = b"before".to_vec();
            load(&memory, len, &mut out);
            assert_eq!(out, [b"before", &bytes[..len]].concat(), "{len}");
            out.clear();
            load(&memory, memory.len() * 8, &mut out);
            let padding = len.next_multiple_of(8);
            assert!(out[len..padding].iter().all(|b| *b == 0), "{len}");
            assert!(out[padding..].iter().all(|b| *b == 0xff), "{len}: a word too many");
        }
    }

    #[test]
    fn too_little_memory_is_a_panic_and_no_write() {
        for len in [9_usize, 4000] {
            let memory = words(1);
            let store = std::panic::catch_unwind(|| store(&memory, &vec![0; len]));
            assert!(store.is_err() && memory[0].load(Relaxed) == u64::MAX);
            let mut out = Vec::new();
            let load = std::panic::AssertUnwindSafe(|| load(&memory, len, &mut out));
            assert!(std::panic::catch_unwind(load).is_err() && out.is_empty());
        }
    }

    #[test]
    fn memory_that_another_thread_writes_gives_some_of_its_bytes() {
        let memory = words(1024);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in 0..2000_u32 {
                    store(&memory, &vec![n as u8 & 1; 8192]);
                }
            });
            for _ in 0..2000 {
                let mut out = Vec::new();
                load(&memory, 8192, &mut out);
                assert!(out.iter().all(|byte| matches!(byte, 0 | 1 | 0xff)));
            }
        });
    }
}
