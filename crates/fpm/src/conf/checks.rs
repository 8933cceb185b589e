//! What belongs together: paths, defaults and limits, in the order in which php-fpm looks at them.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use howdah_config::{DEFAULT_FPM_FORMAT, FpmFormat};
use howdah_sys::credentials::{self, Credentials};

use super::{Conf, Invalid, STATE_PREFIX, Section, system};
use crate::command_line::Arguments;
use crate::log::{DEFAULT_LIMIT, Level, Log};

/// `log_limit` must be more than this.
const MIN_LIMIT: i64 = 512;

/// `listen.backlog` without the directive: the kernel's maximum.
pub const DEFAULT_BACKLOG: i64 = -1;

/// `systemd_interval` without the directive, in seconds.
pub const DEFAULT_SYSTEMD_INTERVAL: i64 = 10;

/// No `process.priority`.
pub const NO_PRIORITY: i64 = 64;

/// Completes and checks the configuration, and opens the log.
pub(super) fn check(
    conf: &mut Conf,
    arguments: &Arguments,
    prefix: &Path,
    log: &mut Log,
) -> Result<(), Invalid> {
    check_global(conf, arguments, log)?;
    open_log(&conf.global, arguments, log)?;
    if conf.pools.is_empty() {
        let text = "No pool defined. at least one pool section must be specified in config file";
        return fail(log, Level::Error, text);
    }
    for pool in &mut conf.pools {
        Check { name: pool.name.clone(), pool, prefix, arguments, log }.run()?;
    }
    for (number, pool) in conf.pools.iter().enumerate() {
        let listen = pool.text("listen");
        let other = conf.pools.iter().skip(number + 1).find(|other| other.text("listen") == listen);
        if let Some(other) = other {
            let text = format!(
                "[pool {}] unable to set listen address as it's already used in another pool '{}'",
                other.name, pool.name
            );
            return fail(log, Level::Error, text);
        }
    }
    conf.pools.iter().try_for_each(|pool| check_access_format(pool, log))
}

/// Checks `access.format`, if there is a log.
fn check_access_format(pool: &Section, log: &Log) -> Result<(), Invalid> {
    let format = pool.text("access.log").and(pool.text("access.format")).unwrap_or_default();
    let Err(reason) = FpmFormat::parse(format) else { return Ok(()) };
    log.write(Level::Warning, reason);
    let text = format!("[pool {}] wrong format for access.format '{format}'", pool.name);
    fail(log, Level::Error, text)
}

fn fail<T>(log: &Log, level: Level, message: impl std::fmt::Display) -> Result<T, Invalid> {
    log.write(level, message);
    Err(Invalid)
}

fn check_global(conf: &mut Conf, arguments: &Arguments, log: &mut Log) -> Result<(), Invalid> {
    let state = match &arguments.prefix {
        Some(prefix) => prefix.clone(),
        None => STATE_PREFIX.into(),
    };
    let global = &mut conf.global;
    if let Some(pid) = &arguments.pid {
        global.set_text("pid", pid.display().to_string());
    }
    if let Some(pid) = global.text("pid") {
        let pid = whole(pid, &state);
        global.set_text("pid", pid);
    }
    if let Some(daemonize) = arguments.daemonize {
        global.set_number("daemonize", daemonize.into());
    }
    let level = global.text("log_level").and_then(Level::named).unwrap_or(Level::Notice);
    let limit = global.number("log_limit", DEFAULT_LIMIT as i64);
    log.configure(level, DEFAULT_LIMIT);
    if limit < MIN_LIMIT {
        return fail(log, Level::Error, format!("log_limit must be greater than {MIN_LIMIT}"));
    }
    log.configure(level, usize::try_from(limit).unwrap_or(DEFAULT_LIMIT));
    if global.number("process.max", 0) < 0 {
        return fail(log, Level::Error, "process_max can't be negative");
    }
    let priority = global.number("process.priority", NO_PRIORITY);
    if priority != NO_PRIORITY && !(-19..=20).contains(&priority) {
        return fail(log, Level::Error, "process.priority must be included into [-19,20]");
    }
    let error_log = global.text("error_log").unwrap_or("log/php-fpm.log");
    if !error_log.eq_ignore_ascii_case("syslog") {
        let error_log = whole(error_log, &state);
        global.set_text("error_log", error_log);
    }
    Ok(())
}

/// Opens the target of `error_log`. It is not used in the foreground if standard error is a terminal
/// or `-O` is given.
fn open_log(global: &Section, arguments: &Arguments, log: &mut Log) -> Result<(), Invalid> {
    let is_foreground = global.number("daemonize", 1) == 0;
    let is_seen = arguments.force_stderr || rustix::termios::isatty(rustix::stdio::stderr());
    open_target(global, log)?;
    if is_foreground && is_seen {
        log.use_stderr();
    }
    Ok(())
}

fn open_target(global: &Section, log: &mut Log) -> Result<(), Invalid> {
    let path = global.text("error_log").unwrap_or_default().to_owned();
    if path.eq_ignore_ascii_case("syslog") {
        let ident = global.text("syslog.ident").unwrap_or("php-fpm");
        log.use_syslog(ident, facility(global));
        return Ok(());
    }
    let opened = log.open_file(Path::new(&path));
    opened.or_else(|error| {
        fail(log, Level::Error, format!("failed to open error_log ({path}){}", system(&error)))
    })
}

/// Returns the number of the facility of syslog (RFC 5424, section 6.2.1); that of `daemon` without
/// one, or if it is not known, as php-fpm does.
pub(super) fn facility(global: &Section) -> u8 {
    const NAMES: [&str; 12] = [
        "KERN", "USER", "MAIL", "DAEMON", "AUTH", "SYSLOG", "LPR", "NEWS", "UUCP", "CRON",
        "AUTHPRIV", "FTP",
    ];
    let upper = global.text("syslog.facility").unwrap_or("daemon").to_ascii_uppercase();
    let name = upper.strip_prefix("LOG_").unwrap_or(&upper);
    let local = name.strip_prefix("LOCAL").and_then(|digit| digit.parse::<u8>().ok());
    match local.filter(|digit| *digit < 8) {
        Some(digit) => 16 + digit,
        None => NAMES.iter().position(|known| *known == name).unwrap_or(3) as u8,
    }
}

/// Returns an absolute path as it is, a relative one below the prefix.
pub(super) fn whole(path: &str, prefix: &Path) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("{}/{path}", prefix.display()) }
}

struct Check<'a> {
    name: String,
    pool: &'a mut Section,
    prefix: &'a Path,
    arguments: &'a Arguments,
    log: &'a Log,
}

impl Check<'_> {
    fn run(&mut self) -> Result<(), Invalid> {
        self.prefix()?;
        if !self.pool.is_set("user") && credentials::is_root() && !self.arguments.allow_root {
            return self.alert("user has not been defined");
        }
        let Some(listen) = self.pool.text("listen") else {
            return self.alert("no listen address have been defined!");
        };
        if is_path(listen) {
            self.complete("listen");
        }
        let priority = self.pool.number("process.priority", NO_PRIORITY);
        if priority != NO_PRIORITY && !(-19..=20).contains(&priority) {
            return self.error("process.priority must be included into [-19,20]");
        }
        self.processes()?;
        self.pages()?;
        for name in ["access.log", "slowlog"] {
            self.complete(name);
        }
        self.access_log()?;
        self.slow_log()?;
        self.directories()
    }

    fn alert<T>(&self, message: impl std::fmt::Display) -> Result<T, Invalid> {
        fail(self.log, Level::Alert, format!("[pool {}] {message}", self.name))
    }

    fn error<T>(&self, message: impl std::fmt::Display) -> Result<T, Invalid> {
        fail(self.log, Level::Error, format!("[pool {}] {message}", self.name))
    }

    fn tell(&self, level: Level, message: impl std::fmt::Display) {
        self.log.write(level, format!("[pool {}] {message}", self.name));
    }

    fn prefix(&mut self) -> Result<(), Invalid> {
        let Some(prefix) = self.pool.text("prefix") else { return Ok(()) };
        let prefix = whole(prefix, self.prefix);
        let is_directory = Path::new(&prefix).is_dir();
        self.pool.set_text("prefix", prefix.clone());
        if is_directory {
            return Ok(());
        }
        self.error(format!("the prefix '{prefix}' does not exist or is not a directory"))
    }

    /// Completes a relative path with the prefix of the pool, or the server's.
    fn complete(&mut self, name: &'static str) {
        let Some(path) = self.pool.text(name) else { return };
        let prefix = self.pool.text("prefix").map_or(self.prefix, Path::new);
        let path = whole(path, prefix);
        self.pool.set_text(name, path);
    }

    fn processes(&mut self) -> Result<(), Invalid> {
        let number = |name: &str, otherwise| self.pool.number(name, otherwise);
        let max = number("pm.max_children", 0);
        let Some(manager) = self.pool.text("pm").map(str::to_owned) else {
            let text = "the process manager is missing (static, dynamic or ondemand)";
            return self.alert(text);
        };
        if max < 1 {
            return self.alert("pm.max_children must be a positive value");
        }
        match manager.as_str() {
            "dynamic" => {
                let (low, high) =
                    (number("pm.min_spare_servers", 0), number("pm.max_spare_servers", 0));
                let start = number("pm.start_servers", 0);
                let rate = number("pm.max_spawn_rate", 32);
                if low <= 0 {
                    return self
                        .alert(format!("pm.min_spare_servers({low}) must be a positive value"));
                }
                if high <= 0 {
                    return self
                        .alert(format!("pm.max_spare_servers({high}) must be a positive value"));
                }
                if low > max || high > max {
                    return self.alert(format!(
                        "pm.min_spare_servers({low}) and pm.max_spare_servers({high}) cannot be \
                         greater than pm.max_children({max})"
                    ));
                }
                if high < low {
                    return self.alert(format!(
                        "pm.max_spare_servers({high}) must not be less than \
                         pm.min_spare_servers({low})"
                    ));
                }
                if start <= 0 {
                    let start = low + (high - low) / 2;
                    self.pool.set_number("pm.start_servers", start);
                    let text = format!("pm.start_servers is not set. It's been set to {start}.");
                    self.tell(Level::Notice, text);
                } else if start < low || start > high {
                    return self.alert(format!(
                        "pm.start_servers({start}) must not be less than \
                         pm.min_spare_servers({low}) and not greater than \
                         pm.max_spare_servers({high})"
                    ));
                }
                if rate < 1 {
                    return self.alert("pm.max_spawn_rate must be a positive value");
                }
            }
            "ondemand" => {
                let idle = number("pm.process_idle_timeout", 10);
                let backlog = number("listen.backlog", DEFAULT_BACKLOG);
                if idle < 1 {
                    return self.alert(format!(
                        "pm.process_idle_timeout({idle}s) must be greater than 0s"
                    ));
                }
                if backlog < DEFAULT_BACKLOG {
                    let text = format!(
                        "listen.backlog({backlog}) was too low for the ondemand process manager. \
                         I updated it for you to {DEFAULT_BACKLOG}."
                    );
                    self.tell(Level::Warning, text);
                    self.pool.set_number("listen.backlog", DEFAULT_BACKLOG);
                }
                for name in ["pm.start_servers", "pm.min_spare_servers", "pm.max_spare_servers"] {
                    self.pool.set_number(name, 0);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn pages(&mut self) -> Result<(), Invalid> {
        let has_listener = self.pool.text("pm.status_listen").is_some();
        let status_or_ping =
            [("pm.status_path", "status", has_listener), ("ping.path", "ping", false)];
        for (name, kind, may_be_short) in status_or_ping {
            let Some(path) = self.pool.text(name) else { continue };
            if !path.starts_with('/') {
                return self.error(format!("the {kind} path '{path}' must start with a '/'"));
            }
            if !may_be_short && path.len() < 2 {
                return self.error(format!("the {kind} path '{path}' is not long enough"));
            }
            let is_plain = |one: u8| one.is_ascii_alphanumeric() || b"/-_.~".contains(&one);
            if !path.bytes().all(is_plain) {
                return self.error(format!(
                    "the {kind} path '{path}' must contain only the following characters \
                     '[alphanum]/_-.~'"
                ));
            }
        }
        let has_ping = self.pool.text("ping.path").is_some();
        if has_ping && !self.pool.is_set("ping.response") {
            self.pool.set_text("ping.response", "pong".to_owned());
        }
        if has_ping && self.pool.text("ping.response").is_none() {
            return self.error("the ping response page '' is not long enough");
        }
        if !has_ping {
            self.pool.values.remove("ping.response");
        }
        Ok(())
    }

    fn access_log(&mut self) -> Result<(), Invalid> {
        let Some(path) = self.pool.text("access.log") else { return Ok(()) };
        if !path.starts_with("/dev/") && !path.starts_with("/proc/") {
            let opened = File::options().append(true).create(true).mode(0o600).open(path);
            if let Err(error) = opened {
                let text = format!("failed to open access log ({path}){}", system(&error));
                return fail(self.log, Level::Error, text);
            }
        }
        if !self.pool.is_set("access.format") {
            self.pool.set_text("access.format", DEFAULT_FPM_FORMAT.to_owned());
        }
        Ok(())
    }

    fn slow_log(&mut self) -> Result<(), Invalid> {
        let slow = self.pool.number("request_slowlog_timeout", 0);
        let limit = self.pool.number("request_terminate_timeout", 0);
        let depth = self.pool.number("request_slowlog_trace_depth", 0);
        let path = self.pool.text("slowlog");
        if slow != 0 {
            let Some(path) = path else {
                let text = "'slowlog' must be specified for use with 'request_slowlog_timeout'";
                return self.error(text);
            };
            let opened = File::options().append(true).create(true).mode(0o600).open(path);
            if let Err(error) = opened {
                let text = format!("Unable to create or open slowlog({path}){}", system(&error));
                return fail(self.log, Level::Error, text);
            }
            if limit != 0 && slow > limit {
                return self.error(format!(
                    "'request_slowlog_timeout' ({slow}) can't be greater than \
                     'request_terminate_timeout' ({limit})"
                ));
            }
        }
        if depth == 0 {
            self.pool.set_number("request_slowlog_trace_depth", 20);
        } else if path.is_none() {
            let text = "'slowlog' must be specified for use with 'request_slowlog_trace_depth'";
            return self.error(text);
        } else if depth < 0 {
            return self.error(format!(
                "'request_slowlog_trace_depth' ({depth}) must be a positive value"
            ));
        }
        Ok(())
    }

    fn directories(&mut self) -> Result<(), Invalid> {
        if let Some(chroot) = self.pool.text("chroot") {
            let prefix = self.pool.text("prefix").map_or(self.prefix, Path::new);
            let chroot = match chroot.strip_prefix("$prefix") {
                Some(rest) => format!("{}{rest}", prefix.display()),
                None if chroot.contains("$prefix") => {
                    let text = "'$prefix' must be use at the beginning of the value";
                    return fail(self.log, Level::Error, text);
                }
                None => whole(chroot, prefix),
            };
            let is_directory = Path::new(&chroot).is_dir();
            self.pool.set_text("chroot", chroot.clone());
            if !is_directory {
                return self.error(format!(
                    "the chroot path '{chroot}' does not exist or is not a directory"
                ));
            }
        }
        self.complete("chdir");
        let Some(chdir) = self.pool.text("chdir") else { return Ok(()) };
        match self.pool.text("chroot") {
            Some(chroot) => {
                let inside = format!("{chroot}/{chdir}");
                if !Path::new(&inside).is_dir() {
                    return self.error(format!(
                        "the chdir path '{chdir}' within the chroot path '{chroot}' ('{inside}') \
                         does not exist or is not a directory"
                    ));
                }
            }
            None if !Path::new(chdir).is_dir() => {
                return self.error(format!(
                    "the chdir path '{chdir}' does not exist or is not a directory"
                ));
            }
            None => {}
        }
        Ok(())
    }
}

/// Returns true if an address of `listen` is a path: it has no colon, and is no port.
pub(crate) fn is_path(address: &str) -> bool {
    let is_port = !address.is_empty() && address.bytes().all(|byte| byte.is_ascii_digit());
    address.starts_with('/') || !address.contains(':') && !is_port
}

/// Returns true for the number of a user or group.
pub(crate) fn is_id(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit())
}

/// Checks that the users and groups of a pool exist.
pub(super) fn check_users(pool: &Section, log: &Log) -> Result<(), Invalid> {
    for (name, is_user) in
        [("user", true), ("group", false), ("listen.owner", true), ("listen.group", false)]
    {
        let Some(value) = pool.text(name).filter(|value| !is_id(value)) else { continue };
        let (is_known, what, id) = if is_user {
            (Credentials::uid_of(value).is_ok_and(|uid| uid.is_some()), "user", "uid")
        } else {
            (Credentials::gid_of(value).is_ok_and(|gid| gid.is_some()), "group", "gid")
        };
        if !is_known {
            let pool = &pool.name;
            let mut text = format!("[pool {pool}] cannot get {id} for {what} '{value}'");
            if name.starts_with("listen.") {
                text += &system(&std::io::Error::from_raw_os_error(2));
            }
            return fail(log, Level::Error, text);
        }
    }
    Ok(())
}
