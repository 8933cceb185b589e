//! Asks which applications were started from files that have changed since.

use std::io;

use howdah_wire::messages::ToSupervisor;

use super::Pools;
use super::file_checks::FileChecks;

impl Pools {
    /// Asks all applications that run.
    pub(in crate::process) fn begin_file_checks(&mut self) -> io::Result<()> {
        // An application that is starting reads its files now.
        let running = self.applications.iter().filter(|app| app.ready_since.is_some());
        let instances: Vec<_> = running.filter_map(|app| app.number()).collect();
        for application in &instances {
            self.link.send(&ToSupervisor::CheckFiles { application: *application })?;
        }
        self.file_checks = FileChecks::of(instances);
        Ok(())
    }

    /// Returns true while an application has not answered.
    pub(in crate::process) fn are_files_checked(&self) -> bool {
        self.file_checks.is_waiting()
    }

    /// Returns the changed applications, each with a file, and the names of those that have not
    /// answered. Later answers are ignored.
    pub(in crate::process) fn end_file_checks(&mut self) -> (Vec<(String, String)>, Vec<String>) {
        let (changed, unknown) = self.file_checks.end();
        let name = |instance: u32| {
            let found = self.applications.iter().find(|app| app.number() == Some(instance));
            found.map(|app| app.config.name.clone())
        };
        let changed = changed.into_iter();
        (
            changed.filter_map(|(instance, file)| Some((name(instance)?, file))).collect(),
            unknown.into_iter().filter_map(name).collect(),
        )
    }
}
