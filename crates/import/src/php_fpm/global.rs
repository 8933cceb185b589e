//! The directives of `[global]`.

use serde_json::{Map, Value};

use super::settings::Settings;
use crate::{Id, Report, Status};

/// Directives without a key in a document, and why none is needed.
const NOT_NEEDED: &[(&str, &str)] = &[
    ("daemonize", "the service starts Howdah; \"howdah serve --daemon\" goes to the background"),
    ("emergency_restart_interval", RESTARTED),
    ("emergency_restart_threshold", RESTARTED),
    ("events.mechanism", "it is always epoll"),
    ("log_buffering", WHOLE),
    ("log_limit", WHOLE),
    ("pid", "the service needs no such file; \"howdah serve --pid FILE\" writes one"),
    ("syslog.facility", "the journal has the name of the unit"),
    ("syslog.ident", "the journal has the name of the unit"),
    ("systemd_interval", "systemd gets the state every ten seconds"),
];

const RESTARTED: &str = "a process that crashes is replaced, and an application that fails is \
                         started again without the others";

const WHOLE: &str = "a message of PHP in the log is whole, up to 1 MiB";

/// What `[global]` says about the whole server.
#[derive(Debug, Default)]
pub(super) struct Global {
    /// `process_control_timeout`, if it is more than 0 seconds.
    pub(super) shutdown_timeout: Option<(Id, i64)>,
    /// `process.max`, if it is a limit.
    pub(super) max_processes: Option<(Id, i64)>,
}

impl Global {
    /// Gives each directive a status, but those for which [`Global`] has a value.
    pub(super) fn new(settings: &Settings, report: &mut Report) -> Self {
        let mut global = Self::default();
        for (name, set) in settings.iter() {
            let id = set.id;
            let not_needed = NOT_NEEDED.iter().find(|(known, _)| *known == name);
            match (name, set.number) {
                _ if is_refused(name, &set.text, set.number) => {
                    let reason = format!("PHP-FPM does not start with \"{}\" here", set.text);
                    report.mark(id, Status::NotConverted, reason);
                }
                _ if let Some((_, reason)) = not_needed => {
                    report.mark(id, Status::NotNeeded, *reason);
                }
                ("process_control_timeout", 1..) => {
                    global.shutdown_timeout = Some((id, set.number))
                }
                ("process_control_timeout", _) => {
                    let reason = "requests in progress are completed (PHP-FPM: cut)";
                    report.mark(id, Status::NotNeeded, reason);
                }
                ("error_log", _) => {
                    let reason = "the server has one log: \"--log FILE\" of the command line, \
                                  and the journal for the service";
                    report.mark(id, Status::Changed, reason);
                }
                ("log_level", _) if set.text == "notice" => {
                    report.mark(id, Status::NotNeeded, "notices are logged");
                }
                ("log_level", _) => {
                    let reason = "the log has notices and all that is more severe; the journal \
                                  sorts records by priority";
                    report.mark(id, Status::NotConverted, reason);
                }
                ("process.max", 1..) => global.max_processes = Some((id, set.number)),
                ("process.max", _) => report.mark(id, Status::NotNeeded, "0 is no limit"),
                ("process.priority", -19..=20) => {
                    report.converted(id);
                }
                ("process.priority", _) => {
                    let reason = "the value must be between -19 and 20, so PHP-FPM does not start";
                    report.mark(id, Status::NotConverted, reason);
                }
                ("rlimit_core" | "rlimit_files", 0) => {
                    report.mark(id, Status::NotNeeded, "0 leaves it as it is");
                }
                ("rlimit_core" | "rlimit_files", _) => report.converted(id),
                _ => {}
            }
        }
        global
    }

    /// Reports what a document says whose settings are not those of PHP-FPM.
    pub(super) fn report_without_settings(&self, report: &mut Report) {
        if let Some((id, _)) = self.shutdown_timeout {
            let reason = "requests in progress are completed, however long they take";
            report.mark(id, Status::Changed, reason);
        }
        if let Some((id, max)) = self.max_processes {
            let reason = format!(
                "the processes of all applications have no common limit; \"settings\": \
                 {{\"max_processes\": {max}}} is one"
            );
            report.mark(id, Status::NotConverted, reason);
        }
    }

    /// Returns the settings of a document, and reports their directives as converted.
    pub(super) fn settings(&self, report: &mut Report) -> Map<String, Value> {
        let values =
            [("shutdown_timeout", self.shutdown_timeout), ("max_processes", self.max_processes)];
        let mut settings = Map::new();
        for (name, value) in values {
            if let Some((id, number)) = value {
                settings.insert(name.into(), number.into());
                report.converted(id);
            }
        }
        settings
    }
}

/// Returns true for a value with which PHP-FPM does not start.
fn is_refused(name: &str, text: &str, number: i64) -> bool {
    const FACILITIES: &str = " auth authpriv cron daemon ftp kern lpr mail news syslog user uucp local0 local1 local2 \
         local3 local4 local5 local6 local7 ";
    const MECHANISMS: &str = " select poll epoll kqueue devpoll port ";
    let is_one_of = |words: &str| words.contains(&format!(" {} ", text.to_ascii_lowercase()));
    match name {
        "log_limit" => number <= 512,
        "process.max" => number < 0,
        "syslog.facility" => !is_one_of(FACILITIES),
        "events.mechanism" => !is_one_of(MECHANISMS),
        _ => false,
    }
}
