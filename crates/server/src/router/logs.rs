//! Log rotation: the error log, the access log and slow logs are opened again.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use howdah_sys::log::{Level, Log};
use howdah_sys::process;
use howdah_wire::messages::ToSupervisor;

use super::control_thread::ControlThread;

impl ControlThread {
    /// Goes on in the new error log, if there is one, and asks for the other logs.
    pub(super) fn reopen_logs(&mut self, error_log: Option<OwnedFd>) -> io::Result<()> {
        if let Some(file) = error_log {
            reopen_error_log(&self.shared.log, file);
        }
        self.pools.traces.reopen();
        match &self.shared.snapshot.load().access_log {
            Some(log) => {
                self.link.send(&ToSupervisor::OpenLog { path: log.file().path().to_owned() })
            }
            None => Ok(()),
        }
    }

    /// Takes a log that the supervisor has opened; without a file, `error` is the reason.
    pub(super) fn on_log_opened(&mut self, path: &str, error: &str, file: Option<OwnedFd>) {
        if self.pools.traces.awaits(path) {
            return self.pools.traces.on_log_opened(path, error, file);
        }
        let snapshot = self.shared.snapshot.load();
        let log = snapshot.access_log.as_ref().filter(|log| log.file().path() == path);
        match (log, file) {
            (Some(log), Some(file)) => log.file().reopen(file),
            (Some(_), None) => self.shared.log.write(
                Level::Error,
                format_args!(
                    "access log {path} cannot be reopened, so the old file stays in use: {error}"
                ),
            ),
            (None, _) => {} // it is no longer configured
        }
    }
}

/// Replaces the error log, and standard output and error, which would hold the old one for ever.
fn reopen_error_log(log: &Log, file: OwnedFd) {
    if let Err(error) = process::set_standard_streams(file.as_fd(), file.as_fd()) {
        log.write(
            Level::Error,
            format_args!("cannot redirect standard error to the new log: {error}"),
        );
    }
    log.reopen(file);
}
