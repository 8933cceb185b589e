//! Memory shared between processes, as an array of 64-bit atomics.

use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fstat, ftruncate, memfd_create};
use rustix::io;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// A shared mapping, accessed only through atomics: writes of other processes are no data races.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<AtomicU64>,
    words: usize,
}

/// Creates shared memory of `bytes` zero bytes with a sealed size: a process with the descriptor
/// cannot make others fault by shrinking it.
pub fn create(name: &str, bytes: usize) -> io::Result<OwnedFd> {
    let fd = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&fd, bytes as u64)?;
    fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(fd)
}

impl Mapping {
    /// Maps memory from [`create`]. Error `INVAL` if its size is not sealed.
    pub fn map(fd: impl AsFd) -> io::Result<Self> {
        let seals = rustix::fs::fcntl_get_seals(&fd)?;
        if !seals.contains(SealFlags::SHRINK) {
            return Err(io::Errno::INVAL);
        }
        let bytes = usize::try_from(fstat(&fd)?.st_size).map_err(|_| io::Errno::OVERFLOW)?;
        let words = bytes / 8;
        if words == 0 {
            return Err(io::Errno::INVAL);
        }
        // SAFETY: no address is requested, so the kernel places the mapping in unused address space
        // of this process.
        let address = unsafe {
            mmap(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                fd,
                0,
            )
        }?;
        let base = NonNull::new(address.cast()).ok_or(io::Errno::NOMEM)?;
        Ok(Mapping { base, words })
    }
}

impl AsRef<[AtomicU64]> for Mapping {
    fn as_ref(&self) -> &[AtomicU64] {
        // SAFETY: `base` is page aligned and maps `words * 8` bytes until `self` is dropped; the
        // file cannot shrink (checked in `map`), so every word stays accessible; any bit pattern
        // is an integer; atomics allow writes by others.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.words) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `map` and no reference into it can outlive `self`.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.words * 8) };
    }
}

// SAFETY: the mapping belongs to the process, not to a thread, and is only read and written
// through atomics.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[test]
    fn two_mappings_of_one_memory_see_the_same_words() {
        let fd = create("test", 4096).unwrap();
        let (one, two) = (Mapping::map(&fd).unwrap(), Mapping::map(&fd).unwrap());
        one.as_ref()[511].store(7, Relaxed);
        assert_eq!(two.as_ref()[511].load(Relaxed), 7);
    }

    #[test]
    fn the_size_cannot_be_changed() {
        let fd = create("test", 4096).unwrap();
        assert_eq!(ftruncate(&fd, 0), Err(io::Errno::PERM));
    }

    #[test]
    fn memory_that_can_shrink_is_not_mapped() {
        let fd = memfd_create("test", MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&fd, 4096).unwrap();
        assert_eq!(Mapping::map(&fd).unwrap_err(), io::Errno::INVAL);
    }
}
