//! Directives of a module, shared by all configurations that have the same ones.
//!
//! A directory inherits the directives of the modules that its own `.htaccess` does not use. Their tables may be
//! large, and directories many: they are not copied. What has been added is counted, so that the memory of merged
//! configurations can be limited.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// Approximate memory in bytes of what a directive adds, beside its words: entries of lists and their allocations.
const BYTES_OF_A_DIRECTIVE: usize = 384;

thread_local! {
    /// Bytes of the directive that is being applied, until they are counted.
    static APPLIED: Cell<usize> = const { Cell::new(0) };
}

/// Begins to apply a directive with these words. Returns its approximate memory in bytes.
pub(crate) fn begin(words: &[&[u8]]) -> usize {
    let bytes = BYTES_OF_A_DIRECTIVE + words.iter().map(|word| word.len()).sum::<usize>();
    APPLIED.set(bytes);
    bytes
}

/// Directives of a module.
#[derive(Debug, Default)]
pub struct Shared<T> {
    value: Arc<T>,
    /// Approximate size in bytes.
    size: usize,
}

impl<T> Shared<T> {
    /// Returns the directives of `parent` with those of `child`, and the approximate number of bytes that were
    /// copied. `default` is the value of a module without directives: as in Apache, there is nothing to merge then.
    pub(crate) fn merged(
        parent: &Shared<T>,
        child: &Shared<T>,
        default: &Shared<T>,
        merge: impl Fn(&T, &T) -> T,
    ) -> (Shared<T>, usize) {
        if Arc::ptr_eq(&child.value, &default.value) {
            return (parent.clone(), 0);
        }
        if Arc::ptr_eq(&parent.value, &default.value) {
            return (child.clone(), 0);
        }
        let size = parent.size + child.size;
        let value = Arc::new(merge(&parent.value, &child.value));
        (Shared { value, size }, size_of::<T>() + size)
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Shared<T> {
        Shared { value: Arc::clone(&self.value), size: self.size }
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: Clone> DerefMut for Shared<T> {
    fn deref_mut(&mut self) -> &mut T {
        // A section is added without words.
        self.size += APPLIED.take().max(64);
        Arc::make_mut(&mut self.value)
    }
}

impl<T> From<T> for Shared<T> {
    fn from(value: T) -> Shared<T> {
        Shared { value: Arc::new(value), size: 0 }
    }
}
