//! State of files while a document is read without those that cannot be used.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::former::{Former, Parts};
use super::left_out::LeftOut;

/// State of files while a document is read without those that cannot be used.
pub(super) struct Tolerance<'a> {
    /// The document that was read before.
    pub(super) former: &'a Former,
    /// Its parts, once they are needed.
    pub(super) former_parts: OnceCell<Parts<'a>>,
    unusable: &'a BTreeMap<PathBuf, Unusable>,
    pub(super) found: RefCell<Found>,
}

/// A file that an earlier reading has found to be unusable.
#[derive(Clone)]
pub(super) struct Unusable {
    pub(super) reason: String,
    /// Its former content is unusable, too.
    pub(super) without_former: bool,
}

/// Result of a reading.
#[derive(Default)]
pub(super) struct Found {
    /// Files that were not used.
    pub(super) left_out: Vec<LeftOut>,
    /// Sources that must not be used, with reasons.
    pub(super) contradicting: Vec<(usize, String)>,
}

impl<'a> Tolerance<'a> {
    pub(super) fn new(former: &'a Former, unusable: &'a BTreeMap<PathBuf, Unusable>) -> Self {
        Tolerance { former, former_parts: OnceCell::new(), unusable, found: RefCell::default() }
    }

    /// Returns the reason why a file must not be read.
    pub(super) fn unusable(&self, file: &Path) -> Option<String> {
        self.unusable.get(file).map(|unusable| unusable.reason.clone())
    }

    /// Records that a file cannot be used.
    pub(super) fn leave_out(&self, file: &Path, reason: String) {
        if !self.change(file, |_| {}) {
            let out = LeftOut { file: file.to_owned(), reason, ..LeftOut::default() };
            self.found.borrow_mut().left_out.push(out);
        }
    }

    /// Changes what is known about a file that cannot be used. Returns false if there is no such
    /// file.
    pub(super) fn change(&self, file: &Path, change: impl FnOnce(&mut LeftOut)) -> bool {
        let mut found = self.found.borrow_mut();
        found.left_out.iter_mut().find(|known| known.file == file).map(change).is_some()
    }

    /// Records that the former content of a file is used. Returns false if it must not be, or if
    /// the file is read: one that includes itself has its new content.
    pub(super) fn use_former(&self, file: &Path) -> bool {
        if self.unusable.get(file).is_some_and(|unusable| unusable.without_former) {
            return false;
        }
        self.change(file, |out| out.is_former = true)
    }

    /// Records that a source must not be used.
    pub(super) fn contradicts(&self, source: usize, reason: String) {
        self.found.borrow_mut().contradicting.push((source, reason));
    }
}
