//! PHP-FPM's log: lines `[29-Nov-2026 04:49:02] NOTICE: message`, as monitors read them.

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
    Syslog { socket: UnixDatagram, ident: String, facility: u8 },
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

    /// Connects to the syslog server of this machine. `facility`: its number.
    pub fn open_syslog(&mut self, ident: &str, facility: u8) -> io::Result<()> {
        let socket = UnixDatagram::unbound()?;
        socket.connect("/dev/log")?;
        self.target = Target::Syslog { socket, ident: ident.to_owned(), facility };
        Ok(())
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
        if matches!(self.target, Target::Syslog { .. }) {
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
            Target::Syslog { socket, ident, facility } => {
                let priority = u16::from(*facility) * 8 + u16::from(level.severity());
                let record = format!("<{priority}>{ident}[{}]: {line}", std::process::id());
                let _ = socket.send(record.as_bytes());
                if self.is_starting {
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

/// Returns a time such as `2026/11/29 04:49:02` with the name of its month.
fn dated(text: &str) -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let parts = || {
        let (date, time) = text.split_once(' ')?;
        let mut date = date.splitn(3, '/');
        let (year, month, day) = (date.next()?, date.next()?, date.next()?);
        let month = MONTHS.get(month.parse::<usize>().ok()?.checked_sub(1)?)?;
        Some(format!("{day}-{month}-{year} {time}"))
    };
    parts().unwrap_or_else(|| text.to_owned())
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
}
