//! The environment variables that a service manager sets for a service.

use std::ffi::{OsStr, OsString};
use std::str::FromStr;
use std::time::Duration;

use super::notifier::Notifier;

/// Variables that are meant for one process only.
pub(super) const NAMES: &[&str] = &[
    "NOTIFY_SOCKET",
    "LISTEN_PID",
    "LISTEN_PIDFDID",
    "LISTEN_FDS",
    "LISTEN_FDNAMES",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
    "FDSTORE",
];

/// Maximum number of passed descriptors. systemd passes as many as a unit may have open.
const MAX_DESCRIPTORS: usize = 4096;

/// The parsed variables.
#[derive(Debug, Default)]
pub(super) struct Variables {
    pub(super) notifier: Option<Notifier>,
    pub(super) watchdog: Option<Duration>,
    /// Names of the passed descriptors, in their order; empty without a name.
    pub(super) descriptors: Vec<String>,
    /// Variables that are ignored, and why.
    pub(super) warnings: Vec<String>,
}

impl Variables {
    /// Parses the variables that `get` returns, for the process with this id.
    pub(super) fn read(get: impl Fn(&str) -> Option<OsString>, pid: u32) -> Variables {
        let mut variables = Variables::default();
        if let Some(address) = get("NOTIFY_SOCKET") {
            match Notifier::new(&address) {
                Ok(notifier) => variables.notifier = Some(notifier),
                Err(problem) => variables.ignore("NOTIFY_SOCKET", &address, &problem),
            }
        }
        if let Some(time) = get("WATCHDOG_USEC")
            && variables.is_for(pid, "WATCHDOG_PID", get("WATCHDOG_PID"))
        {
            match number(&time).filter(|time| *time > 0) {
                Some(time) => variables.watchdog = Some(Duration::from_micros(time)),
                None => variables.ignore("WATCHDOG_USEC", &time, "it is no time"),
            }
        }
        let Some(count) = get("LISTEN_FDS") else { return variables };
        // Unlike WATCHDOG_PID, this one is required: descriptors of another process are not
        // touched.
        let Some(listen_pid) = get("LISTEN_PID") else {
            variables.ignore("LISTEN_FDS", &count, "LISTEN_PID does not say for which process");
            return variables;
        };
        if variables.is_for(pid, "LISTEN_PID", Some(listen_pid)) {
            match number(&count).filter(|count: &usize| *count <= MAX_DESCRIPTORS) {
                Some(count) => variables.name_descriptors(count, get("LISTEN_FDNAMES")),
                None => {
                    let problem = format!("it is no number up to {MAX_DESCRIPTORS}");
                    variables.ignore("LISTEN_FDS", &count, &problem);
                }
            }
        }
        variables
    }

    fn name_descriptors(&mut self, count: usize, names: Option<OsString>) {
        self.descriptors = vec![String::new(); count];
        let Some(names) = names.filter(|names| !names.is_empty()) else { return };
        let parts: Option<Vec<_>> = names.to_str().map(|names| names.split(':').collect());
        match parts.filter(|parts| parts.len() == count) {
            Some(parts) => self.descriptors = parts.into_iter().map(str::to_owned).collect(),
            None => {
                let problem = format!("it has not one name for each of {count} descriptors");
                self.ignore("LISTEN_FDNAMES", &names, &problem);
            }
        }
    }

    /// Returns true if variables are meant for this process: `value` of the variable `name` is its
    /// id, or the variable is missing.
    fn is_for(&mut self, pid: u32, name: &str, value: Option<OsString>) -> bool {
        let Some(value) = value else { return true };
        let is_own = number(&value) == Some(pid);
        if !is_own {
            let problem = format!(
                "this process is {pid}; if a script starts the server, let it do so with exec"
            );
            self.ignore(name, &value, &problem);
        }
        is_own
    }

    fn ignore(&mut self, name: &str, value: &OsStr, problem: &str) {
        let value = value.to_string_lossy();
        let shown: String = value.chars().take(100).collect();
        self.warnings.push(format!("{name}={shown:?} is ignored: {problem}"));
    }
}

/// Parses a number without sign and spaces.
fn number<T: FromStr>(text: &OsStr) -> Option<T> {
    let text = text.to_str()?;
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests;
