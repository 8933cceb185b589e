//! The configuration as `-tt` prints it.

use super::checks::{DEFAULT_BACKLOG, DEFAULT_SYSTEMD_INTERVAL, NO_PRIORITY, facility};
use super::{Conf, Section};
use crate::log::{DEFAULT_LIMIT, Level, Log};

/// How a directive is printed, with the value that it has if it is not set.
#[derive(Clone, Copy)]
enum Shown {
    Text,
    Flag(bool),
    Number(i64),
    Seconds(i64),
    Priority,
    Facility,
    Level,
    Word(&'static str),
    Elements,
}

const GLOBAL: &[(&str, Shown)] = &[
    ("pid", Shown::Text),
    ("error_log", Shown::Text),
    ("syslog.ident", Shown::Word("php-fpm")),
    ("syslog.facility", Shown::Facility),
    ("log_buffering", Shown::Flag(true)),
    ("log_level", Shown::Level),
    ("log_limit", Shown::Number(DEFAULT_LIMIT as i64)),
    ("emergency_restart_interval", Shown::Seconds(0)),
    ("emergency_restart_threshold", Shown::Number(0)),
    ("process_control_timeout", Shown::Seconds(0)),
    ("process.max", Shown::Number(0)),
    ("process.priority", Shown::Priority),
    ("daemonize", Shown::Flag(true)),
    ("rlimit_files", Shown::Number(0)),
    ("rlimit_core", Shown::Number(0)),
    ("events.mechanism", Shown::Word("epoll")),
    ("systemd_interval", Shown::Seconds(DEFAULT_SYSTEMD_INTERVAL)),
];

const POOL: &[(&str, Shown)] = &[
    ("prefix", Shown::Text),
    ("user", Shown::Text),
    ("group", Shown::Text),
    ("listen", Shown::Text),
    ("listen.backlog", Shown::Number(DEFAULT_BACKLOG)),
    ("listen.acl_users", Shown::Text),
    ("listen.acl_groups", Shown::Text),
    ("listen.owner", Shown::Text),
    ("listen.group", Shown::Text),
    ("listen.mode", Shown::Text),
    ("listen.allowed_clients", Shown::Text),
    ("process.priority", Shown::Priority),
    ("process.dumpable", Shown::Flag(false)),
    ("pm", Shown::Text),
    ("pm.max_children", Shown::Number(0)),
    ("pm.start_servers", Shown::Number(0)),
    ("pm.min_spare_servers", Shown::Number(0)),
    ("pm.max_spare_servers", Shown::Number(0)),
    ("pm.max_spawn_rate", Shown::Number(32)),
    ("pm.process_idle_timeout", Shown::Number(10)),
    ("pm.max_requests", Shown::Number(0)),
    ("pm.status_path", Shown::Text),
    ("pm.status_listen", Shown::Text),
    ("ping.path", Shown::Text),
    ("ping.response", Shown::Text),
    ("access.log", Shown::Text),
    ("access.format", Shown::Text),
    ("access.suppress_path", Shown::Elements),
    ("slowlog", Shown::Text),
    ("request_slowlog_timeout", Shown::Seconds(0)),
    ("request_slowlog_trace_depth", Shown::Number(20)),
    ("request_terminate_timeout", Shown::Seconds(0)),
    ("request_terminate_timeout_track_finished", Shown::Flag(false)),
    ("rlimit_files", Shown::Number(0)),
    ("rlimit_core", Shown::Number(0)),
    ("chroot", Shown::Text),
    ("chdir", Shown::Text),
    ("catch_workers_output", Shown::Flag(false)),
    ("decorate_workers_output", Shown::Flag(true)),
    ("clear_env", Shown::Flag(true)),
    ("security.limit_extensions", Shown::Word(".php .phar")),
    ("env", Shown::Elements),
    ("php_value", Shown::Elements),
    ("php_admin_value", Shown::Elements),
];

/// Prints the configuration as notices.
pub(super) fn dump(conf: &Conf, log: &Log) {
    section("global", &conf.global, GLOBAL, log);
    conf.pools.iter().for_each(|pool| section(&pool.name, pool, POOL, log));
}

fn section(title: &str, section: &Section, table: &[(&str, Shown)], log: &Log) {
    let put = |text: String| log.write(Level::Notice, text);
    put(format!("[{title}]"));
    for (name, shown) in table {
        let flag = |is_on| if is_on { "yes" } else { "no" }.to_owned();
        let value = match shown {
            Shown::Text => section.text(name).unwrap_or("undefined").to_owned(),
            Shown::Word(usual) => section.text(name).unwrap_or(usual).to_owned(),
            // In its place in the priority of a record.
            Shown::Facility => (u16::from(facility(section)) << 3).to_string(),
            // php-fpm prints this if the directive is not set.
            Shown::Level => match section.text(name).and_then(Level::named) {
                Some(level) => level.as_str().to_owned(),
                None => "unknown value".to_owned(),
            },
            Shown::Flag(usual) => flag(section.number(name, i64::from(*usual)) == 1),
            Shown::Number(usual) => section.number(name, *usual).to_string(),
            Shown::Seconds(usual) => format!("{}s", section.number(name, *usual)),
            Shown::Priority => match section.number(name, NO_PRIORITY) {
                NO_PRIORITY => "undefined".to_owned(),
                number => number.to_string(),
            },
            Shown::Elements => {
                // The lines of flags are beside those of values, the last one first.
                let flags = name.replace("value", "flag");
                let elements = section.elements.iter().rev();
                for element in elements.filter(|one| one.name == *name || one.name == flags) {
                    put(format!("\t{name}[{}] = {}", element.key, element.value));
                }
                continue;
            }
        };
        put(format!("\t{name} = {value}"));
    }
    put(" ".to_owned());
}
