//! State of files while a document is read without those that cannot be used.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::former::Parts;

/// State of files while a document is read without those that cannot be used.
pub(super) struct Tolerance<'a> {
    /// The document that was read before.
    pub(super) former: Option<&'a Value>,
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
    /// Files that were not used, with reasons, and true for those whose former content was.
    pub(super) left_out: Vec<(PathBuf, String, bool)>,
    /// Sources that must not be used, with reasons.
    pub(super) contradicting: Vec<(usize, String)>,
}

impl<'a> Tolerance<'a> {
    pub(super) fn new(
        former: Option<&'a Value>,
        unusable: &'a BTreeMap<PathBuf, Unusable>,
    ) -> Self {
        Tolerance { former, former_parts: OnceCell::new(), unusable, found: RefCell::default() }
    }

    /// Returns the reason why a file must not be read.
    pub(super) fn unusable(&self, file: &Path) -> Option<String> {
        self.unusable.get(file).map(|unusable| unusable.reason.clone())
    }

    /// Records that a file cannot be used.
    pub(super) fn leave_out(&self, file: &Path, reason: String) {
        let mut found = self.found.borrow_mut();
        if !found.left_out.iter().any(|(known, ..)| known == file) {
            found.left_out.push((file.to_owned(), reason, false));
        }
    }

    /// Records that the former content of a file is used. Returns false if it must not be, or if
    /// the file is read: one that includes itself has its new content.
    pub(super) fn use_former(&self, file: &Path) -> bool {
        if self.unusable.get(file).is_some_and(|unusable| unusable.without_former) {
            return false;
        }
        let mut found = self.found.borrow_mut();
        let Some(out) = found.left_out.iter_mut().find(|(known, ..)| known == file) else {
            return false;
        };
        out.2 = true;
        true
    }

    /// Records that a source must not be used.
    pub(super) fn contradicts(&self, source: usize, reason: String) {
        self.found.borrow_mut().contradicting.push((source, reason));
    }
}
