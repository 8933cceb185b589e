//! PHP-FPM's log: lines `[29-Nov-2026 04:49:02] NOTICE: message`, as monitors read them.

use std::cell::RefCell;
use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use howdah_sys::clock;

/// The severity of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// For developers.
    Debug,
    /// What happens as it should.
    Notice,
    /// What an administrator should look at.
    Warning,
    /// What has failed.
    Error,
    /// What ends the server.
    Alert,
}

impl Level {
    /// Returns the level that `log_level` names.
    pub fn named(name: &str) -> Option<Level> {
        Some(match name.to_ascii_lowercase().as_str() {
            "debug" => Level::Debug,
            "notice" => Level::Notice,
            "warning" | "warn" => Level::Warning,
            "error" => Level::Error,
            "alert" => Level::Alert,
            _ => return None,
        })
    }

    /// Returns its name in a line.
    pub fn as_str(self) -> &'static str {
        match self {
            Level::Debug => "DEBUG",
            Level::Notice => "NOTICE",
            Level::Warning => "WARNING",
            Level::Error => "ERROR",
            Level::Alert => "ALERT",
        }
    }

    /// Returns its number for syslog (RFC 5424, section 6.2.1).
    fn severity(self) -> u8 {
        match self {
            Level::Debug => 7,
            Level::Notice => 5,
            Level::Warning => 4,
            Level::Error => 3,
            Level::Alert => 1,
        }
    }
}

/// Where lines go.
#[derive(Debug)]
enum Target {
    Stderr,
    File { file: OwnedFd, path: PathBuf },
    Syslog(Syslog),
}

/// The syslog server of this machine.
#[derive(Debug)]
struct Syslog {
    /// `None` before the first record, and after one that was not taken.
    socket: RefCell<Option<UnixDatagram>>,
    path: PathBuf,
    ident: String,
    facility: u8,
}

/// The socket of the syslog server.
const SYSLOG: &str = "/dev/log";

impl Syslog {
    /// Sends a line in the form of the C library. The server may have been started again since the
    /// last one.
    fn send(&self, level: Level, line: &str) -> io::Result<()> {
        let Syslog { path, ident, facility, .. } = self;
        let priority = u16::from(*facility) * 8 + u16::from(level.severity());
        let (time, pid) = (syslog_time(), std::process::id());
        let record = format!("<{priority}>{time} {ident}[{pid}]: {line}");
        let mut socket = self.socket.borrow_mut();
        if let Some(connected) = &*socket
            && connected.send(record.as_bytes()).is_ok()
        {
            return Ok(());
        }
        *socket = None;
        let new = UnixDatagram::unbound()?;
        new.connect(path)?;
        new.send(record.as_bytes())?;
        *socket = Some(new);
        Ok(())
    }
}

/// The log.
#[derive(Debug)]
pub struct Log {
    target: Target,
    level: Level,
    /// Maximum length of a line with its end, in bytes (`log_limit`).
    limit: usize,
    /// Lines go to standard error, too: the server has not started.
    is_starting: bool,
}

/// `log_limit` without the directive.
pub const DEFAULT_LIMIT: usize = 1024;

impl Default for Log {
    fn default() -> Self {
        let (level, limit) = (Level::Notice, DEFAULT_LIMIT);
        Log { target: Target::Stderr, level, limit, is_starting: true }
    }
}

impl Log {
    /// Sets `log_level` and `log_limit`.
    pub fn configure(&mut self, level: Level, limit: usize) {
        (self.level, self.limit) = (level, limit.max(16));
    }

    /// Opens the file of `error_log`. Lines go there as well as to standard error until
    /// [`Log::started`] is called.
    pub fn open_file(&mut self, path: &Path) -> io::Result<()> {
        let file = open(path)?;
        self.target = Target::File { file: file.into(), path: path.to_owned() };
        Ok(())
    }

    /// Lines go to the syslog server of this machine, or to standard error while there is none.
    /// `facility`: its number.
    pub fn use_syslog(&mut self, ident: &str, facility: u8) {
        self.use_syslog_at(Path::new(SYSLOG), ident, facility);
    }

    fn use_syslog_at(&mut self, path: &Path, ident: &str, facility: u8) {
        let (path, ident) = (path.to_owned(), ident.to_owned());
        self.target = Target::Syslog(Syslog { socket: RefCell::default(), path, ident, facility });
    }

    /// Lines go to standard error alone.
    pub fn use_stderr(&mut self) {
        self.target = Target::Stderr;
    }

    /// The server serves: lines go to the target alone.
    pub fn started(&mut self) {
        self.is_starting = false;
    }

    /// Opens the file again, after it was renamed.
    pub fn reopen(&mut self) -> io::Result<()> {
        if let Target::File { file, path } = &mut self.target {
            *file = open(path)?.into();
        }
        Ok(())
    }

    /// Returns the file of the log.
    pub fn file(&self) -> Option<&OwnedFd> {
        match &self.target {
            Target::File { file, .. } => Some(file),
            _ => None,
        }
    }

    /// Returns the maximum length of a line.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Returns true if lines of this level are written.
    pub fn takes(&self, level: Level) -> bool {
        level >= self.level
    }

    /// Writes a line; a message that is too long is cut, with `...` at its end.
    pub fn write(&self, level: Level, message: impl fmt::Display) {
        if !self.takes(level) {
            return;
        }
        let prefix = self.prefix(level);
        let mut line = format!("{prefix}{}", plain(&message.to_string()));
        if line.len() >= self.limit {
            line.truncate(line.floor_char_boundary(self.limit.saturating_sub(4)));
            line.push_str("...");
        }
        self.put(level, &prefix, &line);
    }

    /// Writes `"text"` behind `introduction`, in as many lines as `log_limit` asks for; each has the
    /// introduction.
    pub fn write_quoted(&self, level: Level, introduction: &str, text: &str) {
        if !self.takes(level) {
            return;
        }
        let prefix = self.prefix(level);
        let text = plain(text);
        let room = self.limit.saturating_sub(prefix.len() + introduction.len() + 3).max(1);
        for part in parts(&text, room) {
            self.put(level, &prefix, &format!("{prefix}{introduction}\"{part}\""));
        }
    }

    /// Writes text without anything in front of it.
    pub fn write_bare(&self, text: &str) {
        for part in parts(&plain(text), self.limit.saturating_sub(1).max(1)) {
            self.put(Level::Notice, "", part);
        }
    }

    fn prefix(&self, level: Level) -> String {
        if matches!(self.target, Target::Syslog(_)) {
            return format!("[{}] ", level.as_str());
        }
        format!("[{}] {}: ", now(), level.as_str())
    }

    fn put(&self, level: Level, prefix: &str, line: &str) {
        let whole = format!("{line}\n");
        match &self.target {
            Target::Stderr => drop(io::stderr().write_all(whole.as_bytes())),
            Target::File { file, .. } => {
                let _ = write_all(file, whole.as_bytes());
                if self.is_starting {
                    let _ = io::stderr().write_all(whole.as_bytes());
                }
            }
            Target::Syslog(syslog) => {
                if syslog.send(level, line).is_err() || self.is_starting {
                    let text = line.strip_prefix(prefix).unwrap_or(line);
                    let line = format!("[{}] {}: {text}\n", now(), level.as_str());
                    let _ = io::stderr().write_all(line.as_bytes());
                }
            }
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    File::options().append(true).create(true).mode(0o600).open(path)
}

fn write_all(file: impl AsFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = rustix::io::retry_on_intr(|| rustix::io::write(&file, bytes))?;
        bytes = &bytes[written..];
    }
    Ok(())
}

/// Splits a text into parts of at most `room` bytes; an empty text is one part.
fn parts(text: &str, room: usize) -> Vec<&str> {
    let (mut found, mut left) = (Vec::new(), text);
    loop {
        let mut end = left.floor_char_boundary(room);
        if end == 0 {
            end = left.ceil_char_boundary(1).min(left.len());
        }
        let (part, rest) = left.split_at(end);
        found.push(part);
        if rest.is_empty() {
            return found;
        }
        left = rest;
    }
}

/// Returns a text without characters that could forge a line or control a terminal; tabulators
/// and NULs stay, as in php-fpm's log.
pub(crate) fn plain(text: &str) -> String {
    let text = text.trim_end_matches('\n');
    text.chars()
        .map(|one| if one.is_control() && !matches!(one, '\t' | '\0') { ' ' } else { one })
        .collect()
}

/// Returns the local time as `29-Nov-2026 04:49:02`.
pub(crate) fn now() -> String {
    let mut text = String::new();
    clock::local_time(&mut text);
    dated(&text)
}

/// Returns the local time as `Nov 29 04:49:02` (RFC 3164, section 4.1.2).
fn syslog_time() -> String {
    let mut text = String::new();
    clock::local_time(&mut text);
    parts_of(&text).map_or(String::new(), |[_, month, day, time]| {
        format!("{month} {:>2} {time}", day.trim_start_matches('0'))
    })
}

/// Returns a time such as `2026/11/29 04:49:02` with the name of its month.
fn dated(text: &str) -> String {
    parts_of(text).map_or_else(
        || text.to_owned(),
        |[year, month, day, time]| format!("{day}-{month}-{year} {time}"),
    )
}

/// Returns the year, the name of the month, the day and the time of one such as
/// `2026/11/29 04:49:02`.
fn parts_of(text: &str) -> Option<[&str; 4]> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (date, time) = text.split_once(' ')?;
    let mut date = date.splitn(3, '/');
    let (year, month, day) = (date.next()?, date.next()?, date.next()?);
    let month = MONTHS.get(month.parse::<usize>().ok()?.checked_sub(1)?)?;
    Some([year, month, day, time])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(level: Level, limit: usize, write: impl FnOnce(&Log)) -> Vec<String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let mut log = Log::default();
        log.configure(level, limit);
        log.open_file(&path).unwrap();
        log.started();
        write(&log);
        let text = std::fs::read_to_string(path).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn lines_have_the_time_and_the_level() {
        assert_eq!(dated("2026/11/29 04:49:02"), "29-Nov-2026 04:49:02");
        let lines = written(Level::Warning, 1024, |log| {
            log.write(Level::Notice, "below");
            log.write(Level::Warning, "at\nthe \u{1b}level");
        });
        assert_eq!(lines.len(), 1);
        assert!(lines[0].starts_with('[') && lines[0].ends_with("] WARNING: at the  level"));
    }

    #[test]
    fn a_long_message_is_cut_and_a_long_output_goes_on_in_further_lines() {
        let lines = written(Level::Notice, 100, |log| {
            log.write(Level::Error, "x".repeat(200));
            log.write_quoted(Level::Warning, "said: ", &"é".repeat(100));
        });
        assert_eq!(lines[0].len(), 99);
        assert!(lines[0].ends_with("x..."), "{}", lines[0]);
        assert!(lines[1..].iter().all(|line| line.len() < 100 && line.contains("said: \"é")));
        let all: usize = lines[1..].iter().map(|line| line.matches('é').count()).sum();
        assert_eq!(all, 100);
    }

    #[test]
    fn a_syslog_server_gets_the_facility_the_severity_and_the_name_and_may_be_started_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let mut log = Log::default();
        log.use_syslog_at(&path, "shop", 17);
        log.started();
        log.write(Level::Error, "there is no server yet");
        for _ in 0..2 {
            let server = UnixDatagram::bind(&path).unwrap();
            log.write(Level::Warning, "a warning");
            let mut buffer = [0; 200];
            let length = server.recv(&mut buffer).unwrap();
            let record = String::from_utf8_lossy(&buffer[..length]).into_owned();
            let (priority, rest) = record.split_once('>').unwrap();
            assert_eq!(priority, "<140", "17 * 8 + 4");
            let line = format!(" shop[{}]: [WARNING] a warning", std::process::id());
            assert_eq!(rest.strip_suffix(&line).map(str::len), Some("Nov 29 04:49:02".len()));
            drop(server);
            std::fs::remove_file(&path).unwrap();
        }
    }
}
