//! Logs of sites (`error_logs`): opened by the supervisor, and again after log rotation.
//!
//! A configuration is in use when the supervisor has answered about its new logs. The records about a
//! site whose log cannot be opened are in the server's log; while a file cannot be opened again, its
//! former one stays in use.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use howdah_config::ErrorLog;
use howdah_sys::log::Log;
use howdah_wire::messages::ToSupervisor;

use super::link::Link;
use super::out::{Extent, Found, PartKind};
use super::out_parts::former_log;

/// Pause before another attempt to open a log.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);

/// Logs of the sites of the current configuration.
#[derive(Debug)]
pub(super) struct SiteLogFiles {
    link: Rc<Link>,
    /// The server's log.
    log: Arc<Log>,
    named: Vec<ErrorLog>,
    /// The files by path. Several sites may have one.
    files: HashMap<String, File>,
}

/// A file.
#[derive(Debug, Default)]
struct File {
    /// The log, if it was ever open.
    log: Option<Arc<Log>>,
    /// The supervisor was asked to open it.
    is_opening: bool,
    /// Reason why it could not be opened at last, and the time of the next attempt.
    failed: Option<(String, Instant)>,
}

impl SiteLogFiles {
    /// Starts without logs of sites. `log` is the server's.
    pub(super) fn new(link: Rc<Link>, log: Arc<Log>) -> Self {
        SiteLogFiles { link, log, named: Vec::new(), files: HashMap::new() }
    }

    /// Takes the logs of a configuration: asks for those that are new, and closes those that it
    /// lacks.
    pub(super) fn follow(&mut self, named: &[ErrorLog]) -> io::Result<()> {
        named.clone_into(&mut self.named);
        let is_named = |path: &str| named.iter().any(|log| log.path.to_string_lossy() == path);
        self.files.retain(|path, _| is_named(path));
        self.prepare(named)?;
        self.publish();
        Ok(())
    }

    /// Asks for the logs of a configuration that are new, before it is in use.
    pub(super) fn prepare(&mut self, named: &[ErrorLog]) -> io::Result<()> {
        for log in named {
            let path = log.path.to_string_lossy();
            if !self.files.contains_key(&*path) {
                self.files.insert(path.clone().into_owned(), File::default());
                self.ask(&path)?;
            }
        }
        Ok(())
    }

    /// Returns true while the supervisor has not answered about a new log.
    pub(super) fn is_preparing(&self) -> bool {
        let is_new = |file: &File| file.log.is_none() && file.failed.is_none();
        self.files.values().any(|file| file.is_opening && is_new(file))
    }

    /// Asks for all files again, after log rotation.
    pub(super) fn reopen(&mut self) -> io::Result<()> {
        let paths: Vec<_> = self.files.keys().cloned().collect();
        paths.iter().try_for_each(|path| self.ask(path))
    }

    /// Asks again for files that could not be opened. Returns the time of the next attempt.
    pub(super) fn retry(&mut self, now: Instant) -> io::Result<Option<Instant>> {
        let retry_at = |file: &File| file.failed.as_ref().map(|(_, at)| *at);
        let is_due = |file: &File| retry_at(file).is_some_and(|at| at <= now) && !file.is_opening;
        let due = self.files.iter().filter(|(_, file)| is_due(file));
        let due: Vec<_> = due.map(|(path, _)| path.clone()).collect();
        due.iter().try_for_each(|path| self.ask(path))?;
        let waiting = self.files.values().filter(|file| !file.is_opening);
        Ok(waiting.filter_map(retry_at).min())
    }

    fn ask(&mut self, path: &str) -> io::Result<()> {
        if let Some(file) = self.files.get_mut(path) {
            file.is_opening = true;
        }
        self.link.send(&ToSupervisor::OpenLog { path: path.to_owned() })
    }

    /// Returns true if the supervisor was asked to open this file.
    pub(super) fn awaits(&self, path: &str) -> bool {
        self.files.get(path).is_some_and(|file| file.is_opening)
    }

    /// Takes a file that was opened; without one, `error` is the reason.
    pub(super) fn on_log_opened(&mut self, path: &str, error: &str, opened: Option<OwnedFd>) {
        let Some(file) = self.files.get_mut(path) else { return };
        file.is_opening = false;
        file.failed = None;
        match opened {
            Some(opened) => match &file.log {
                Some(log) => log.reopen(opened),
                None => file.log = Some(Arc::new(self.log.of_site(opened, path))),
            },
            None => file.failed = Some((error.to_owned(), Instant::now() + RETRY_INTERVAL)),
        }
        self.publish();
    }

    /// Gives the logs that are open to all who write records.
    fn publish(&self) {
        let open = self.named.iter().filter_map(|named| {
            let file = self.files.get(&*named.path.to_string_lossy())?;
            Some((named.site.clone(), Arc::clone(file.log.as_ref()?)))
        });
        self.log.set_sites(open.collect());
    }

    /// Returns the logs that cannot be written or opened.
    pub(super) fn problems(&self) -> Vec<Found> {
        let found = self.files.iter().filter_map(|(path, file)| match (&file.failed, &file.log) {
            (Some((error, _)), Some(_)) => Some(former_log(path, error)),
            (Some((error, _)), None) => {
                let reason =
                    format!("it cannot be opened, so the server's log has its records: {error}");
                Some(Found { extent: Extent::Stale, ..Found::out(PartKind::Log, path, reason) })
            }
            (None, log) => {
                let problem = log.as_ref()?.problem()?;
                Some(Found::out(PartKind::Log, path, problem))
            }
        });
        found.collect()
    }
}
