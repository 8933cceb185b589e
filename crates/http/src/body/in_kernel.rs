//! Copies of content in files in memory, from which the kernel sends without copying.
//!
//! Bytes of this process are copied into each socket's buffers, and the copies for many connections
//! push each other out of the processor's caches. All sockets share the pages of a file: with 64
//! connections and 60 KB, sending and receiving cost the kernel a third less. With few connections
//! or short content, the second system call and the references to pages cost as much as is saved,
//! or more.

use std::cell::{Cell, OnceCell};
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use bytes::Bytes;

use super::spool::sealed_memfd;

/// Minimum length in bytes of content that is sent so.
const MIN_LENGTH: usize = 48 << 10;

/// Minimum of the bytes that the connections of a thread would have in buffers if each were sent
/// the content.
const MIN_BUFFERED: u64 = 1 << 20;

/// Maximum length in bytes of content that is copied to a file: copying delays other requests.
const MAX_LENGTH: usize = 1 << 20;

/// Maximum number of files, which are descriptors of this process.
const MAX_FILES: usize = 256;

/// Number of times that content is sent before it is copied.
pub const MIN_SENT: u8 = 8;

static FILES: AtomicUsize = AtomicUsize::new(0);

/// Returns true if content of this length should be sent so by a thread with this number of
/// connections.
pub fn pays(len: usize, connections: u64) -> bool {
    len >= MIN_LENGTH && connections.saturating_mul(len as u64) >= MIN_BUFFERED
}

/// A file in memory that cannot be changed.
#[derive(Debug)]
pub struct InKernel {
    file: File,
    len: usize,
}

/// Content that may have a copy in the kernel.
pub trait KernelCopy {
    /// Returns the copy that contains this content, and the offset of the content in it.
    fn get(&self, content: &Bytes) -> Option<(Arc<InKernel>, u64)>;
}

impl InKernel {
    /// Copies content. `None` if it is too short or too long, or if there are too many copies.
    pub fn new(content: &[u8]) -> Option<InKernel> {
        if !(MIN_LENGTH..=MAX_LENGTH).contains(&content.len()) {
            return None;
        }
        let is_free = |count: usize| (count < MAX_FILES).then_some(count + 1);
        FILES.fetch_update(Relaxed, Relaxed, is_free).ok()?;
        match sealed_memfd(content) {
            Ok(file) => Some(InKernel { file: file.into(), len: content.len() }),
            Err(_) => {
                FILES.fetch_sub(1, Relaxed);
                None
            }
        }
    }

    /// Returns the file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Returns its length in bytes, which is never 0.
    #[expect(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.len
    }
}

impl Drop for InKernel {
    fn drop(&mut self) {
        FILES.fetch_sub(1, Relaxed);
    }
}

/// The copy of content that a thread sends often, such as a file.
#[derive(Debug, Default)]
pub struct OwnCopy {
    /// Number of times that the content was sent, up to [`MIN_SENT`].
    sent: Cell<u8>,
    /// The content and its copy; `None` if it cannot have one.
    copy: OnceCell<Option<(Bytes, Arc<InKernel>)>>,
}

impl OwnCopy {
    /// Returns the copy of this content, which is always the same, or a part of it. Content that
    /// was sent a few times gets a copy.
    pub fn get(&self, content: &Bytes) -> Option<(Arc<InKernel>, u64)> {
        if self.copy.get().is_none() && self.sent.get() < MIN_SENT {
            self.sent.set(self.sent.get() + 1);
            return None;
        }
        let copy = || Some((content.clone(), Arc::new(InKernel::new(content)?)));
        let (whole, copy) = self.copy.get_or_init(copy).as_ref()?;
        Some((Arc::clone(copy), offset_in(whole, content)?))
    }
}

/// Returns the offset of `part` in `whole`, of which it may be a slice.
pub fn offset_in(whole: &Bytes, part: &Bytes) -> Option<u64> {
    let offset = part.as_ptr().addr().checked_sub(whole.as_ptr().addr())?;
    let end = offset.checked_add(part.len())?;
    (end <= whole.len()).then_some(offset as u64)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// The number of files is that of the process.
    static FILES_IN_USE: Mutex<()> = Mutex::new(());

    #[test]
    fn the_number_and_length_of_copies_are_limited() {
        let _guard = FILES_IN_USE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let content = vec![b'x'; MIN_LENGTH];
        assert!(InKernel::new(&content[1..]).is_none());
        assert!(InKernel::new(&vec![b'x'; MAX_LENGTH + 1]).is_none());
        let copies: Vec<_> = (0..MAX_FILES).map_while(|_| InKernel::new(&content)).collect();
        assert!(InKernel::new(&content).is_none());
        drop(copies);
        assert!(InKernel::new(&content).is_some());
    }

    #[test]
    fn content_gets_a_copy_after_a_few_times_and_other_content_none() {
        let _guard = FILES_IN_USE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let (own, content) = (OwnCopy::default(), Bytes::from(vec![b'x'; MIN_LENGTH]));
        assert!((0..MIN_SENT).all(|_| own.get(&content).is_none()));
        let (copy, offset) = own.get(&content).unwrap();
        assert_eq!((copy.len(), offset), (MIN_LENGTH, 0));
        assert_eq!(own.get(&content.slice(5..)).unwrap().1, 5);
        assert!(own.get(&Bytes::from(vec![b'y'; MIN_LENGTH])).is_none());
    }

    #[test]
    fn it_pays_for_many_connections_or_long_content() {
        assert!(!pays(60_000, 1) && !pays(60_000, 16) && pays(60_000, 32));
        assert!(pays(200_000, 8) && !pays(MIN_LENGTH - 1, 1000) && !pays(MIN_LENGTH, 0));
    }

    #[test]
    fn parts_of_the_content_are_found_and_nothing_else() {
        let whole = Bytes::from(vec![b'x'; 100]);
        assert_eq!(offset_in(&whole, &whole), Some(0));
        assert_eq!(offset_in(&whole, &whole.slice(10..20)), Some(10));
        assert_eq!(offset_in(&whole.slice(10..20), &whole.slice(10..21)), None);
        assert_eq!(offset_in(&whole.slice(10..20), &whole), None);
        assert_eq!(offset_in(&whole, &Bytes::from(vec![b'x'; 100])), None);
    }
}
