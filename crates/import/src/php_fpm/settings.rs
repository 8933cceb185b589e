//! The values of a section, checked as PHP-FPM checks them.

use std::collections::BTreeMap;

use super::files::Directive;
use crate::{Id, Report, Status};

/// How the value of a directive is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Text.
    Text,
    /// A number; an empty value is 0.
    Integer,
    /// Seconds, or a number with `s`, `m`, `h` or `d`.
    Time,
    /// `yes` or `no`.
    Flag,
    /// A number or `unlimited`.
    Core,
    /// One of these words, whatever their case.
    Word(&'static [&'static str]),
}

/// The directives of `[global]`.
pub const GLOBAL: &[(&str, Kind)] = &[
    ("daemonize", Kind::Flag),
    ("emergency_restart_interval", Kind::Time),
    ("emergency_restart_threshold", Kind::Integer),
    ("error_log", Kind::Text),
    ("events.mechanism", Kind::Text),
    ("log_buffering", Kind::Flag),
    ("log_level", Kind::Word(&["debug", "notice", "warning", "warn", "error", "alert"])),
    ("log_limit", Kind::Integer),
    ("pid", Kind::Text),
    ("process.max", Kind::Integer),
    ("process.priority", Kind::Integer),
    ("process_control_timeout", Kind::Time),
    ("rlimit_core", Kind::Core),
    ("rlimit_files", Kind::Integer),
    ("syslog.facility", Kind::Text),
    ("syslog.ident", Kind::Text),
    ("systemd_interval", Kind::Time),
];

/// The directives of pools without brackets.
pub const POOL: &[(&str, Kind)] = &[
    ("access.format", Kind::Text),
    ("access.log", Kind::Text),
    ("apparmor_hat", Kind::Text),
    ("catch_workers_output", Kind::Flag),
    ("chdir", Kind::Text),
    ("chroot", Kind::Text),
    ("clear_env", Kind::Flag),
    ("decorate_workers_output", Kind::Flag),
    ("group", Kind::Text),
    ("listen", Kind::Text),
    ("listen.acl_groups", Kind::Text),
    ("listen.acl_users", Kind::Text),
    ("listen.allowed_clients", Kind::Text),
    ("listen.backlog", Kind::Integer),
    ("listen.group", Kind::Text),
    ("listen.mode", Kind::Text),
    ("listen.owner", Kind::Text),
    ("ping.path", Kind::Text),
    ("ping.response", Kind::Text),
    ("pm", Kind::Word(&["static", "dynamic", "ondemand"])),
    ("pm.max_children", Kind::Integer),
    ("pm.max_requests", Kind::Integer),
    ("pm.max_spare_servers", Kind::Integer),
    ("pm.max_spawn_rate", Kind::Integer),
    ("pm.min_spare_servers", Kind::Integer),
    ("pm.process_idle_timeout", Kind::Time),
    ("pm.start_servers", Kind::Integer),
    ("pm.status_listen", Kind::Text),
    ("pm.status_path", Kind::Text),
    ("prefix", Kind::Text),
    ("process.dumpable", Kind::Flag),
    ("process.priority", Kind::Integer),
    ("request_slowlog_timeout", Kind::Time),
    ("request_slowlog_trace_depth", Kind::Integer),
    ("request_terminate_timeout", Kind::Time),
    ("request_terminate_timeout_track_finished", Kind::Flag),
    ("rlimit_core", Kind::Core),
    ("rlimit_files", Kind::Integer),
    ("security.limit_extensions", Kind::Text),
    ("slowlog", Kind::Text),
    ("user", Kind::Text),
];

/// The directives of pools with brackets; true for those with `yes` or `no`.
pub const ARRAYS: &[(&str, bool)] = &[
    ("access.suppress_path", false),
    ("env", false),
    ("php_admin_flag", true),
    ("php_admin_value", false),
    ("php_flag", true),
    ("php_value", false),
];

/// A directive that is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Set {
    pub(super) id: Id,
    /// The value; of a flag `1` or empty.
    pub(super) text: String,
    /// The value of a number in its unit, seconds of a time; 1 or 0 of a flag; -1 for `unlimited`.
    pub(super) number: i64,
}

/// A directive with brackets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Element {
    pub(super) id: Id,
    /// The name without the brackets.
    pub(super) name: &'static str,
    pub(super) key: String,
    /// The value; of a flag `1` or `0`.
    pub(super) text: String,
}

/// The directives of a section whose values PHP-FPM accepts. The report has the others.
#[derive(Debug, Default)]
pub(super) struct Settings {
    values: BTreeMap<&'static str, Set>,
    /// Directives with brackets, in their order.
    pub(super) elements: Vec<Element>,
}

impl Settings {
    /// Reads `[global]`.
    pub(super) fn of_global(directives: &[Directive], report: &mut Report) -> Self {
        let mut settings = Self::default();
        for directive in directives {
            match (&directive.key, find(GLOBAL, &directive.name)) {
                (None, Some((name, kind))) => settings.add(name, kind, directive, None, report),
                _ => unknown(directive, "[global]", report),
            }
        }
        settings
    }

    /// Reads a pool.
    pub(super) fn of_pool(pool: &str, directives: &[Directive], report: &mut Report) -> Self {
        let mut settings = Self::default();
        for directive in directives {
            let scalar = find(POOL, &directive.name);
            let array = ARRAYS.iter().find(|(name, _)| *name == directive.name);
            match (&directive.key, scalar, array) {
                (None, Some((name, kind)), _) => {
                    settings.add(name, kind, directive, Some(pool), report);
                }
                (Some(key), _, Some((name, is_flag))) => {
                    settings.add_element(name, key, *is_flag, pool, directive, report);
                }
                _ => unknown(directive, "a pool", report),
            }
        }
        settings
    }

    /// Returns a directive that is set.
    pub(super) fn get(&self, name: &str) -> Option<&Set> {
        self.values.get(name)
    }

    /// Returns the text of a directive, unless it is not set or empty.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.get(name).map(|set| set.text.as_str()).filter(|text| !text.is_empty())
    }

    /// Returns the number of a directive.
    pub(super) fn number(&self, name: &str) -> Option<i64> {
        self.get(name).map(|set| set.number)
    }

    /// All directives without brackets that are set.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&'static str, &Set)> {
        self.values.iter().map(|(name, set)| (*name, set))
    }

    fn add(
        &mut self,
        name: &'static str,
        kind: Kind,
        directive: &Directive,
        pool: Option<&str>,
        report: &mut Report,
    ) {
        let id = directive.id;
        let set = value(directive).and_then(|text| kind.read(text, id));
        let mut set = match set {
            Ok(set) => set,
            Err(reason) => return report.mark(id, Status::NotConverted, reason),
        };
        if let (Kind::Text, Some(pool)) = (kind, pool) {
            set.text = set.text.replace("$pool", pool);
        }
        if let Some(earlier) = self.values.insert(name, set) {
            report.mark(earlier.id, Status::NotNeeded, "a later line sets it, which counts");
        }
    }

    fn add_element(
        &mut self,
        name: &'static str,
        key: &str,
        is_flag: bool,
        pool: &str,
        directive: &Directive,
        report: &mut Report,
    ) {
        let id = directive.id;
        // The brackets of `access.suppress_path[]` are empty, all others have a name.
        let is_list = name == "access.suppress_path";
        let read = value(directive).and_then(|text| match () {
            () if key.is_empty() && !is_list => Err("the brackets have no name".to_owned()),
            () if is_flag => Kind::Flag
                .read(text, id)
                .map(|set| if set.number == 1 { "1".to_owned() } else { "0".to_owned() }),
            () if is_list && (!key.is_empty() || !text.starts_with('/')) => {
                Err("it is access.suppress_path[] = /PATH, so PHP-FPM does not start".to_owned())
            }
            () if text.is_empty() && name == "env" => {
                Err("the value is empty, so PHP-FPM does not start".to_owned())
            }
            () => Ok(text.replace("$pool", pool)),
        });
        match read {
            Ok(text) => self.elements.push(Element { id, name, key: key.to_owned(), text }),
            Err(reason) => report.mark(id, Status::NotConverted, reason),
        }
    }
}

/// Returns the name as PHP-FPM writes it, and how the value is read.
pub fn find(table: &[(&'static str, Kind)], name: &str) -> Option<(&'static str, Kind)> {
    table.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).copied()
}

fn unknown(directive: &Directive, place: &str, report: &mut Report) {
    let reason = match directive.value {
        Some(_) => format!("PHP-FPM has no such directive in {place}, and does not start with it"),
        None => "\"=\" and a value are missing, so PHP-FPM does not start".to_owned(),
    };
    report.mark(directive.id, Status::NotConverted, reason);
}

/// Returns the value of a directive.
fn value(directive: &Directive) -> Result<&str, String> {
    match &directive.value {
        None => Err("\"=\" and a value are missing, so PHP-FPM does not start".to_owned()),
        Some(value) if value.has_variable => Err("\"${…}\" stands for a setting or an \
             environment variable of PHP-FPM, which is not known here"
            .to_owned()),
        Some(value) => Ok(&value.text),
    }
}

impl Kind {
    /// Reads a value; an error says why PHP-FPM refuses it.
    fn read(self, text: &str, id: Id) -> Result<Set, String> {
        let expected = || match self {
            Self::Text | Self::Integer => "a number".to_owned(),
            Self::Time => "a time such as \"30\", \"30s\", \"5m\", \"2h\" or \"1d\"".to_owned(),
            Self::Flag => "\"yes\" or \"no\"".to_owned(),
            Self::Core => "a number or \"unlimited\"".to_owned(),
            Self::Word(words) => format!("one of {}", words.join(", ")),
        };
        let refused =
            || format!("the value \"{text}\" is not {}, so PHP-FPM does not start", expected());
        let (text, number) = self.value(text).ok_or_else(refused)?;
        Ok(Set { id, text, number })
    }

    /// Reads a value: its text, and the number in its unit: seconds of a time, 1 or 0 of a flag, -1
    /// for `unlimited`. `None` if PHP-FPM refuses it.
    pub fn value(self, text: &str) -> Option<(String, i64)> {
        let number = match self {
            Self::Text => 0,
            Self::Integer => integer(text)?,
            Self::Time => seconds(text)?,
            // Without quotation marks, words are numbers or empty already, whatever their case.
            Self::Flag => match text {
                "1" | "yes" | "true" | "on" => 1,
                "0" | "no" | "false" | "off" | "none" | "" => 0,
                _ => return None,
            },
            Self::Core if text.eq_ignore_ascii_case("unlimited") => -1,
            Self::Core => integer(text).filter(|number| *number >= 0)?,
            Self::Word(words) => {
                let word = words.iter().find(|word| word.eq_ignore_ascii_case(text))?;
                return Some(((*word).to_owned(), 0));
            }
        };
        Some((text.to_owned(), number))
    }
}

/// Reads digits, with a minus sign in front or without; without digits it is 0.
fn integer(text: &str) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text),
    };
    match digits {
        "" => Some(0),
        _ if digits.bytes().all(|digit| digit.is_ascii_digit()) => {
            Some(sign * digits.parse::<i64>().unwrap_or(i64::from(i32::MAX)).min(i32::MAX.into()))
        }
        _ => None,
    }
}

fn seconds(text: &str) -> Option<i64> {
    let (number, unit) = match text.chars().last()? {
        '0'..='9' => (text, 1),
        's' => (&text[..text.len() - 1], 1),
        'm' => (&text[..text.len() - 1], 60),
        'h' => (&text[..text.len() - 1], 3600),
        'd' => (&text[..text.len() - 1], 86_400),
        _ => return None,
    };
    // PHP-FPM takes the digits at the start.
    let digits = number.bytes().take_while(u8::is_ascii_digit).count();
    let number = number[..digits].parse::<i64>().unwrap_or(0);
    Some(number.checked_mul(unit)?.min(i32::MAX.into()))
}
