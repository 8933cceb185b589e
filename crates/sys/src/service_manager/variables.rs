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
        // Unlike WATCHDOG_PID, this one is required: descriptors of another process are not touched.
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
    /// id, or there is no such variable.
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
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    const PID: u32 = 7;

    fn read(variables: &[(&str, &str)]) -> Variables {
        let all: Vec<_> = variables.iter().map(|(name, value)| (*name, value.into())).collect();
        read_raw(&all)
    }

    fn read_raw(variables: &[(&str, OsString)]) -> Variables {
        let get = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone())
        };
        Variables::read(get, PID)
    }

    #[test]
    fn nothing_is_passed_without_variables() {
        let variables = read(&[]);
        assert!(variables.notifier.is_none() && variables.watchdog.is_none());
        assert!(variables.descriptors.is_empty() && variables.warnings.is_empty());
    }

    #[test]
    fn descriptors_are_counted_and_named() {
        let passed = [("LISTEN_PID", "7"), ("LISTEN_FDS", "2"), ("LISTEN_FDNAMES", "web:")];
        assert_eq!(read(&passed).descriptors, ["web", ""]);
        assert_eq!(read(&passed[..2]).descriptors, ["", ""]);
        assert!(read(&[("LISTEN_PID", "7"), ("LISTEN_FDS", "0")]).warnings.is_empty());
    }

    #[test]
    fn descriptors_of_another_process_are_not_touched() {
        for pid in ["8", "", "-7", " 7", "+7", "7\n", "4294967303"] {
            let variables = read(&[("LISTEN_PID", pid), ("LISTEN_FDS", "1")]);
            assert!(variables.descriptors.is_empty(), "{pid:?}");
            assert!(variables.warnings[0].contains("LISTEN_PID"), "{:?}", variables.warnings);
        }
        let variables = read(&[("LISTEN_FDS", "1")]);
        assert!(variables.descriptors.is_empty() && variables.warnings.len() == 1);
    }

    #[test]
    fn a_number_that_is_none_or_too_large_passes_nothing() {
        for count in ["-1", "x", "", "2000000000", "99999999999999999999", "1 ", "0x1"] {
            let variables = read(&[("LISTEN_PID", "7"), ("LISTEN_FDS", count)]);
            assert!(variables.descriptors.is_empty(), "{count:?}");
            assert!(variables.warnings[0].contains("LISTEN_FDS"), "{:?}", variables.warnings);
        }
    }

    #[test]
    fn names_that_do_not_fit_the_descriptors_are_ignored() {
        for names in ["a", "a:b:c", "::::"] {
            let passed = [("LISTEN_PID", "7"), ("LISTEN_FDS", "2"), ("LISTEN_FDNAMES", names)];
            let variables = read(&passed);
            assert_eq!(variables.descriptors, ["", ""], "{names}");
            assert!(variables.warnings[0].contains("LISTEN_FDNAMES"), "{:?}", variables.warnings);
        }
        let bytes = OsString::from_vec(b"\xff:\x1b[2J".to_vec());
        let passed = [
            ("LISTEN_PID", OsString::from("7")),
            ("LISTEN_FDS", OsString::from("2")),
            ("LISTEN_FDNAMES", bytes),
        ];
        let variables = read_raw(&passed);
        assert_eq!(variables.descriptors, ["", ""]);
        assert!(!variables.warnings[0].contains('\x1b'), "{:?}", variables.warnings);
    }

    #[test]
    fn a_warning_is_short() {
        let long = "9".repeat(100_000);
        let variables = read(&[("LISTEN_PID", "7"), ("LISTEN_FDS", &long)]);
        assert!(variables.warnings[0].len() < 300);
    }

    #[test]
    fn the_watchdog_has_a_time_and_a_process() {
        let time = |pairs: &[(&str, &str)]| read(pairs).watchdog;
        assert_eq!(time(&[("WATCHDOG_USEC", "1500000")]), Some(Duration::from_millis(1500)));
        assert_eq!(
            time(&[("WATCHDOG_USEC", "1"), ("WATCHDOG_PID", "7")]),
            Some(Duration::from_micros(1))
        );
        assert_eq!(time(&[("WATCHDOG_USEC", "1"), ("WATCHDOG_PID", "8")]), None);
        for wrong in ["0", "-1", "1.5", "", "30s"] {
            let variables = read(&[("WATCHDOG_USEC", wrong)]);
            assert!(variables.watchdog.is_none() && variables.warnings.len() == 1, "{wrong}");
        }
    }

    #[test]
    fn an_address_that_is_none_is_ignored() {
        for wrong in ["", "relative", "@", "vsock:2:1234", "/", &format!("/{}", "a".repeat(108))] {
            let variables = read(&[("NOTIFY_SOCKET", wrong)]);
            let has_warning = variables.warnings.iter().any(|text| text.contains("NOTIFY_SOCKET"));
            assert!(variables.notifier.is_none() && has_warning, "{wrong}");
        }
        assert!(read(&[("NOTIFY_SOCKET", "/run/systemd/notify")]).notifier.is_some());
        assert!(read(&[("NOTIFY_SOCKET", "@notify")]).notifier.is_some());
    }
}
