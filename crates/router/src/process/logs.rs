//! Log rotation: the error log, access logs, slow logs and logs of sites are opened again.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use howdah_sys::log::{Level, Log};
use howdah_sys::process;
use howdah_wire::messages::ToSupervisor;

use super::control_thread::ControlThread;

/// Interval at which servers of logs that have gone away are looked for, and files that could not
/// be opened.
const RECONNECT_INTERVAL: Duration = Duration::from_secs(1);

impl ControlThread {
    /// Continues in the new error log, if there is one, and asks for the other logs.
    pub(super) fn reopen_logs(&mut self, error_log: Option<OwnedFd>) -> io::Result<()> {
        if let Some(file) = error_log {
            reopen_error_log(&self.shared.log, file);
        }
        self.pools.traces.reopen();
        self.site_logs.reopen()?;
        for file in self.shared.snapshot.load().logs.values() {
            self.link.send(&ToSupervisor::OpenLog { path: file.name().to_owned() })?;
        }
        Ok(())
    }

    /// Takes a log that the supervisor has opened; without a file, `error` is the reason.
    pub(super) fn on_log_opened(&mut self, path: &str, error: &str, file: Option<OwnedFd>) {
        if self.pools.traces.awaits(path) {
            return self.pools.traces.on_log_opened(path, error, file);
        }
        if self.site_logs.awaits(path) {
            return self.site_logs.on_log_opened(path, error, file);
        }
        let snapshot = self.shared.snapshot.load();
        let named = snapshot.logs.values().filter(|log| log.name() == path);
        for log in named {
            match file.as_ref().map(OwnedFd::try_clone) {
                Some(Ok(file)) => log.reopen(file),
                // The supervisor is asked again.
                _ if log.is_server() || !log.is_open() => {
                    log.set_disconnected(&error, &self.shared.log)
                }
                _ => log.set_former(Some(error.to_owned())),
            }
        }
    }

    /// Asks for new sockets to log servers that have gone away, and for files that could not be
    /// opened. Returns the time of the next check.
    pub(super) fn reconnect_logs(&mut self, now: Instant) -> io::Result<Option<Instant>> {
        let snapshot = self.shared.snapshot.load();
        let mut retried = snapshot.logs.values().filter(|log| log.may_need_file()).peekable();
        let next = retried.peek().map(|_| now + RECONNECT_INTERVAL);
        for log in retried.filter(|log| log.take_disconnected()) {
            self.link.send(&ToSupervisor::OpenLog { path: log.name().to_owned() })?;
        }
        Ok(next.into_iter().chain(self.site_logs.retry(now)?).min())
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
