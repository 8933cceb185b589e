//! Notices changes of files with tables of the configuration, and makes the control process take
//! them over.

use std::time::Instant;

use howdah_sys::log::Level;

use super::state::Tree;

impl Tree {
    /// Looks at the files if it is time, in a process of its own. A change that comes while the
    /// configuration is being changed is found by the next look.
    pub(super) fn check_tables_if_due(&mut self, now: Instant) {
        let Some(files) = &self.options.table_files else { return };
        if self.tables.is_slow(now) {
            let line = "files with tables of the configuration cannot be read: their disk or \
                        network drive does not answer; the tables stay as they are";
            self.log.write(Level::Error, line);
        }
        let is_other = self.upgrade.is_standby || self.upgrade.is_in_progress();
        if is_other || self.shutdown.is_some() {
            return self.tables.postpone(now);
        }
        let document = &self.changes.current.document;
        if let Err(error) = self.tables.begin_if_due(now, document, files) {
            let line = format_args!("files with tables of the configuration are not read: {error}");
            self.log.write(Level::Error, line);
        }
        let is_busy = self.control.reload_attempts.is_some() || self.changes.is_changing();
        if !self.has_served || is_busy {
            return self.tables.postpone(now);
        }
        if self.tables.has_changed(now) {
            self.reload_tables();
        }
    }

    /// Handles the end of a process that has looked at the files. Returns false if the process was
    /// not one.
    pub(super) fn table_reader_ended(&mut self, pid: u32) -> bool {
        match self.tables.ended(pid) {
            None => return false,
            Some(Ok(())) => {}
            Some(Err(error)) => self.log.write(
                Level::Error,
                format_args!("files with tables of the configuration are not read: {error}"),
            ),
        }
        true
    }
}
