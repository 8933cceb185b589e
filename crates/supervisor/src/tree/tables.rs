//! Notices changes of files with tables of the configuration, and makes the control process read them.

use std::time::Instant;

use super::state::Tree;

impl Tree {
    /// Looks at the files if it is time. A change that comes while the configuration is being changed is
    /// found by the next look.
    pub(super) fn check_tables_if_due(&mut self, now: Instant) {
        let Some(files) = &self.options.table_files else { return };
        self.tables.learn(now, || (files.watched)(&self.changes.current.document));
        let is_busy = self.control.reload_attempts.is_some() || self.changes.is_changing();
        let is_other = self.upgrade.is_standby || self.upgrade.is_in_progress();
        if !self.has_served || is_busy || is_other || self.shutdown.is_some() {
            return self.tables.postpone(now);
        }
        if self.tables.has_changed(now) {
            self.reload_tables();
        }
    }
}
