//! Notices changes of files with tables of the configuration, and makes the control process take
//! them over.

use std::time::{Duration, Instant};

use howdah_sys::log::Level;

use super::state::Tree;
use crate::file_task::{Origin, Outcome, Task};
use crate::table_reader::{Looked, Stamps};

/// Interval between two looks at the files.
const INTERVAL: Duration = Duration::from_secs(5);

/// The state of the files on which the running configuration depends.
#[derive(Debug, Default)]
pub(super) struct Tables {
    /// The files at the last look.
    files: Stamps,
    /// Generation of the document of the last look.
    generation: Option<u32>,
    /// A change was not taken over, or a file may have been mended since the document was read.
    must_read: bool,
    is_looking: bool,
    /// The last look has failed, which was logged.
    has_failed: bool,
    /// The document with its changed tables and the generation of the one that it replaces, until
    /// the control process asks for it.
    changed: Option<(u32, Result<Vec<u8>, String>)>,
    /// Time of the next look; `None` if there are no files.
    due: Option<Instant>,
}

impl Tables {
    /// Returns the time of the next look.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due.filter(|_| !self.is_looking)
    }

    /// Takes the result of a look while this generation runs. Returns true if tables have changed,
    /// and are to be taken over. Tables that cannot be taken over now are found by the next look.
    fn looked(&mut self, looked: Looked, generation: u32, can_reload: bool) -> bool {
        let is_outdated = self.generation != Some(generation);
        if is_outdated || (looked.document.is_some() && !can_reload) {
            return false;
        }
        self.files = looked.files;
        self.must_read = false;
        let Some(document) = looked.document else { return false };
        self.changed = Some((generation, document));
        true
    }

    /// Returns the document with its changed tables; `None` if another document runs by now.
    pub(super) fn changed(&mut self, generation: u32) -> Option<Result<Vec<u8>, String>> {
        let (before, document) = self.changed.clone()?;
        if before == generation {
            return Some(document);
        }
        // The next look reads the tables of the document that runs.
        self.changed = None;
        self.must_read = true;
        None
    }

    /// Forgets the document with the tables, which has been taken over or refused.
    pub(super) fn is_taken_over(&mut self) {
        self.changed = None;
    }
}

impl Tree {
    /// Looks at the files if it is time.
    pub(super) fn check_tables_if_due(&mut self, now: Instant) {
        let Some(files) = &self.options.table_files else { return };
        let (tables, current) = (&mut self.tables, &self.changes.current);
        if tables.is_looking {
            return;
        }
        if tables.generation.replace(current.generation) != Some(current.generation) {
            // Files that it shares with the last document keep their state: they may have changed
            // while it was being applied.
            tables.due = (files.has_tables)(&current.document).then_some(now);
            // A file may have been mended since the document was read.
            tables.must_read |= (files.has_left_out)(&current.document);
            if tables.due.is_none() {
                tables.files.clear();
            }
        }
        if tables.due.is_none_or(|due| due > now) {
            return;
        }
        tables.due = Some(now + INTERVAL);
        if self.upgrade.is_standby || self.upgrade.is_in_progress() || self.shutdown.is_some() {
            return;
        }
        tables.is_looking = true;
        let known = (!tables.must_read).then(|| tables.files.clone());
        let task = Task::LookAtTables { document: current.document.clone(), known };
        self.begin_file_task(task, Origin::Supervisor);
    }

    /// Takes the result of a look.
    pub(super) fn tables_looked_at(&mut self, outcome: Outcome) {
        self.tables.is_looking = false;
        let read = |file: Option<_>| Looked::read(file.ok_or("there are none")?);
        let looked = match outcome.and_then(read) {
            Ok(looked) => looked,
            Err(error) => {
                if !std::mem::replace(&mut self.tables.has_failed, true) {
                    let line = format_args!(
                        "files with tables of the configuration cannot be read: {error}; the \
                         tables stay as they are"
                    );
                    self.log.write(Level::Error, line);
                }
                return;
            }
        };
        self.tables.has_failed = false;
        let is_other = self.upgrade.is_standby || self.upgrade.is_in_progress();
        let is_busy = self.control.reload_attempts.is_some() || self.changes.is_changing();
        let can_reload = self.has_served && self.shutdown.is_none() && !is_other && !is_busy;
        if self.tables.looked(looked, self.changes.current.generation, can_reload) {
            self.reload_tables();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looked(document: Option<&str>) -> Looked {
        let document = document.map(|text| Ok(text.as_bytes().to_vec()));
        Looked { files: Stamps::from([("/a".into(), 1)]), document }
    }

    #[test]
    fn a_change_is_taken_over_once() {
        let mut tables = Tables { generation: Some(0), ..Tables::default() };
        assert!(!tables.looked(looked(Some("new")), 0, false));
        assert!(tables.files.is_empty(), "the next look finds it");
        assert!(!tables.looked(looked(None), 0, false));
        assert_eq!(tables.files, looked(None).files);
        assert!(tables.looked(looked(Some("new")), 0, true));
        assert_eq!(tables.changed(0), Some(Ok(b"new".to_vec())));
        tables.is_taken_over();
        assert_eq!(tables.changed(0), None);
        assert!(!tables.must_read);
    }

    #[test]
    fn tables_of_an_earlier_document_are_not_taken_over() {
        let mut tables = Tables { generation: Some(0), ..Tables::default() };
        assert!(!tables.looked(looked(Some("old")), 1, true));
        tables.generation = Some(1);
        assert!(tables.looked(looked(Some("new")), 1, true));
        assert_eq!(tables.changed(2), None, "it has changed since");
        assert!(tables.must_read, "the next look reads the tables anyway");
    }
}
