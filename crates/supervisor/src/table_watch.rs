//! Files with tables of the configuration, which are read again when they change.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Interval between two looks at the files.
const INTERVAL: Duration = Duration::from_secs(5);

/// Attributes of a file that change with its content; `None` if there is no file.
type Stamp = Option<[i64; 7]>;

/// The files on which the running configuration depends, as they were at the last look.
#[derive(Debug)]
pub struct TableWatch {
    files: HashMap<PathBuf, Stamp>,
    /// The document may have other files.
    is_outdated: bool,
    /// Time of the next look; `None` if there are no files.
    due: Option<Instant>,
}

impl Default for TableWatch {
    fn default() -> TableWatch {
        TableWatch { files: HashMap::new(), is_outdated: true, due: None }
    }
}

impl TableWatch {
    /// Returns the time of the next look.
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Another document runs. Files that it shares with the last one keep their state: they may have
    /// changed while the document was being applied.
    pub fn document_changed(&mut self) {
        self.is_outdated = true;
    }

    /// Looks later, if it is time.
    pub fn postpone(&mut self, now: Instant) {
        if self.due.is_some_and(|due| due <= now) {
            self.due = Some(now + INTERVAL);
        }
    }

    /// Takes over the files of a new document, before they are read the next time.
    pub fn learn(&mut self, now: Instant, watched: impl FnOnce() -> Vec<PathBuf>) {
        if !std::mem::take(&mut self.is_outdated) {
            return;
        }
        let mut old = std::mem::take(&mut self.files);
        let known = watched().into_iter().map(|file| {
            let known = old.remove(&file).unwrap_or_else(|| stamp(&file));
            (file, known)
        });
        self.files = known.collect();
        self.due = (!self.files.is_empty()).then(|| now + INTERVAL);
    }

    /// Looks at the files if it is time. Returns true if one has changed since the last look.
    pub fn has_changed(&mut self, now: Instant) -> bool {
        if self.due.is_none_or(|due| due > now) {
            return false;
        }
        self.due = Some(now + INTERVAL);
        let mut has_changed = false;
        for (file, known) in &mut self.files {
            let found = stamp(file);
            has_changed |= *known != found;
            *known = found;
        }
        // A pattern may name other files now, even if they are refused.
        self.is_outdated = has_changed;
        has_changed
    }
}

fn stamp(file: &Path) -> Stamp {
    let found = fs::metadata(file).ok()?;
    let number = |number: u64| number.cast_signed();
    Some([
        number(found.dev()),
        number(found.ino()),
        number(found.size()),
        found.mtime(),
        found.mtime_nsec(),
        found.ctime(),
        found.ctime_nsec(),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_reported_once_and_files_that_stay_are_compared_with_their_earlier_state() {
        let directory = tempfile::tempdir().unwrap();
        let (a, b) = (directory.path().join("a"), directory.path().join("b"));
        fs::write(&a, "1").unwrap();
        let (mut watch, start) = (TableWatch::default(), Instant::now() + Duration::from_secs(1));
        let at = |looks: u32| start + INTERVAL * looks;
        let (only_a, both) = (vec![a.clone()], vec![a.clone(), b.clone()]);
        let mut looks = 0;
        let mut look = |watch: &mut TableWatch, files: &[PathBuf]| {
            looks += 1;
            watch.learn(at(looks - 1), || files.to_vec());
            assert!(!watch.has_changed(at(looks - 1)), "it is not time");
            watch.has_changed(at(looks))
        };
        assert!(!look(&mut watch, &only_a));
        fs::write(&a, "12").unwrap();
        assert!(look(&mut watch, &only_a));
        assert!(!look(&mut watch, &only_a));

        fs::write(&a, "123").unwrap();
        watch.document_changed();
        assert!(look(&mut watch, &both), "it has changed before the document did");
        fs::write(&b, "1").unwrap();
        assert!(look(&mut watch, &both));
        fs::remove_file(&a).unwrap();
        assert!(look(&mut watch, &both));
        watch.document_changed();
        assert!(!look(&mut watch, &[]));
        assert_eq!(watch.due(), None);
    }
}
