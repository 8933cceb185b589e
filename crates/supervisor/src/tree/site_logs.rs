//! Logs of sites (`error_logs`) for the records about their jobs. The router asks for them, again after
//! log rotation; this process keeps a copy of what it opens.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::state::Tree;

impl Tree {
    /// Keeps a copy of a log that was opened for the router, if it is that of a site with jobs.
    pub(super) fn keep_site_log(&mut self, path: &str, file: Option<&OwnedFd>) {
        let is_of_site = self.allows(|grants| grants.site_logs.values().any(|log| log == path));
        let copy = file.filter(|_| is_of_site).and_then(|file| file.try_clone().ok());
        let Some(copy) = copy else { return };
        match self.site_logs.get(path) {
            Some(log) => log.reopen(copy),
            None => {
                let log = self.log.of_site(copy, path);
                self.site_logs.insert(path.to_owned(), Arc::new(log));
            }
        }
        self.use_site_logs();
    }

    /// Takes the logs of the sites of the configuration that is the current one now.
    pub(super) fn follow_site_logs(&mut self) {
        let named = &self.changes.current.grants.site_logs;
        self.site_logs.retain(|path, _| named.values().any(|log| log == path));
        self.use_site_logs();
    }

    fn use_site_logs(&self) {
        let named = self.changes.current.grants.site_logs.iter();
        let open = named
            .filter_map(|(site, path)| Some((site.clone(), Arc::clone(self.site_logs.get(path)?))));
        self.log.set_sites(open.collect());
    }
}
