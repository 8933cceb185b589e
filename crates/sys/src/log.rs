//! The server's log: one line per record, written with one call, in NGINX Unit's format `2026/11/20
//! 15:04:05 [notice] 123#123 message`. In the journal of systemd a record is `123#123 message` with
//! a priority, and has the journal's own time ([`journal`]). For containers it is a line of JSON
//! ([`json`]).
//!
//! Bytes that could forge a line or control a terminal are escaped; continuation lines of a record
//! are indented, so that no record can look like two.

mod about;
pub mod journal;
pub mod json;
mod level;
mod shortened;
mod unwritten;

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::log_rate::{Admission, LASTING_RATE, LogRate};
use crate::plain::Plain;

pub use self::about::{About, OfApplication, OfSite, Subject};
pub use self::level::Level;
pub use self::shortened::Shortened;
use self::unwritten::Unwritten;

/// Variable with the name of the least severe level of the log.
pub const LEVEL_VARIABLE: &str = "HOWDAH_LOG_LEVEL";

/// Variable with the name of the log, for processes that get only its descriptor.
const NAME_VARIABLE: &str = "HOWDAH_LOG_NAME";

/// Minimum cost of a record in the journal, in bytes. The journal drops records of a whole service
/// beyond 10,000 of a priority in 30 s by default (journald.conf(5)), whichever site they are about;
/// with this cost a site writes 2,048 and then 16 a second.
const MIN_JOURNAL_COST: usize = 8 << 10;

/// A log file, standard error or the journal. A file can be replaced (log rotation).
#[derive(Debug)]
pub struct Log {
    format: Format,
    /// The least severe level that is written.
    threshold: Level,
    file: RwLock<OwnedFd>,
    /// Its name in messages: the path of a file, `stderr` or `journald`.
    name: String,
    /// Lines that could not be written. The lock is held while one of these lines, or one after
    /// them, is written.
    unwritten: Mutex<Unwritten>,
    /// `unwritten` has lines; avoids the lock.
    is_failing: AtomicBool,
    /// The journal's socket for records with fields.
    native: Option<UnixDatagram>,
    /// Logs of sites that have one of their own, by the names of sites and applications.
    sites: RwLock<SiteLogs>,
}

/// Logs of sites, by the names of sites and applications.
pub type SiteLogs = HashMap<String, Arc<Log>>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Text,
    Journal,
    Json,
}

impl Log {
    /// Creates a log that writes to an open file (append mode) or stream.
    pub fn new(file: OwnedFd) -> Self {
        Log {
            format: Format::Text,
            threshold: Level::Debug,
            file: RwLock::new(file),
            name: "stderr".to_owned(),
            unwritten: Mutex::default(),
            is_failing: AtomicBool::new(false),
            native: None,
            sites: RwLock::default(),
        }
    }

    /// Creates the log of a site in an open file: with the threshold of this log, and in its format
    /// unless that is the journal's.
    pub fn of_site(&self, file: OwnedFd, name: &str) -> Self {
        let format = if self.format == Format::Json { Format::Json } else { Format::Text };
        Log { format, threshold: self.threshold, ..Log::new(file).named(name) }
    }

    /// Replaces the logs of sites, which records about them are written to ([`Log::about`]).
    pub fn set_sites(&self, sites: SiteLogs) {
        *self.sites.write().unwrap_or_else(PoisonError::into_inner) = sites;
    }

    /// Returns the log for records about a subject: that of its site if it has one, else this one.
    pub fn about<'a>(&'a self, subject: &'a dyn Subject) -> About<'a> {
        let sites = self.sites.read().unwrap_or_else(PoisonError::into_inner);
        let own = sites.get(subject.site());
        let own = own.or_else(|| sites.get(subject.application()?)).map(Arc::clone);
        About::new(self, own, subject)
    }

    /// Returns the log with its name in messages, such as the path of its file.
    pub fn named(self, name: impl Into<String>) -> Self {
        Log { name: name.into(), ..self }
    }

    /// Returns its name in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the log without records that are less severe than `threshold`.
    pub fn limited_to(self, threshold: Level) -> Self {
        Log { threshold, ..self }
    }

    /// Creates a log that writes to a descriptor of another process's log ([`Log::handle`]), to a
    /// file or to a standard stream, in the format that the environment asks for: JSON, or that of
    /// the journal if the descriptor leads there. [`LEVEL_VARIABLE`] has its threshold.
    pub fn passed(file: OwnedFd) -> Self {
        let stream = std::env::var_os(journal::STREAM_VARIABLE);
        let format = match std::env::var_os(json::FORMAT_VARIABLE) {
            chosen if json::is_chosen(chosen.as_deref()) => Format::Json,
            _ if journal::is_stream(&file, stream.as_deref()) => Format::Journal,
            _ => Format::Text,
        };
        let threshold = std::env::var(LEVEL_VARIABLE).ok();
        let threshold = threshold.and_then(|name| Level::named(&name)).unwrap_or(Level::Debug);
        let native = if format == Format::Journal { journal::connect_native() } else { None };
        let log = Log { format, threshold, native, ..Log::new(file) };
        match std::env::var(NAME_VARIABLE) {
            Ok(name) => log.named(name),
            Err(_) if format == Format::Journal => log.named("journald"),
            Err(_) => log,
        }
    }

    /// Creates a log that writes to standard error.
    pub fn standard_error() -> std::io::Result<Self> {
        Ok(Log::passed(std::io::stderr().as_fd().try_clone_to_owned()?))
    }

    /// Creates a log that writes to the journal: to standard error if that leads there, otherwise
    /// through a connection of its own.
    pub fn journal() -> std::io::Result<Self> {
        match Log::standard_error() {
            Ok(log) if log.format == Format::Journal => Ok(log),
            _ => {
                let log = Log::passed(journal::connect()?).named("journald");
                Ok(Log { format: Format::Journal, native: journal::connect_native(), ..log })
            }
        }
    }

    /// Returns true if records are not plain text: another program reads them, in the journal's
    /// format or as JSON.
    pub fn is_structured(&self) -> bool {
        self.format != Format::Text
    }

    /// Returns the environment variables by which another process recognises the format and the
    /// threshold of [`Log::handle`].
    pub fn variables(&self) -> Vec<(String, String)> {
        let file = self.file.read().unwrap_or_else(|e| e.into_inner());
        let format = match self.format {
            Format::Text => None,
            Format::Journal => {
                journal::stream_name(&*file).map(|name| (journal::STREAM_VARIABLE, name))
            }
            Format::Json => Some((json::FORMAT_VARIABLE, json::FORMAT.to_owned())),
        };
        let threshold = (LEVEL_VARIABLE, self.threshold.as_str().to_owned());
        let name = (NAME_VARIABLE, self.name.clone());
        let native = std::env::var(journal::NATIVE_VARIABLE).ok();
        let native = native.map(|path| (journal::NATIVE_VARIABLE, path));
        format
            .into_iter()
            .chain([threshold, name])
            .chain(native)
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }

    /// Replaces the file.
    pub fn reopen(&self, file: OwnedFd) {
        *self.file.write().unwrap_or_else(|e| e.into_inner()) = file;
    }

    /// Returns a descriptor of the file, for another process.
    pub fn handle(&self) -> std::io::Result<OwnedFd> {
        self.file.read().unwrap_or_else(|e| e.into_inner()).try_clone()
    }

    /// Writes a record. One that cannot be written is counted: see [`Log::problem`].
    pub fn write(&self, level: Level, message: impl fmt::Display) {
        self.write_counted(level, &message, None);
    }

    /// Writes a record in the name of another process.
    pub fn write_as(&self, pid: u32, level: Level, message: impl fmt::Display) {
        self.record(level, pid, pid, &Plain(message), None);
    }

    /// Writes a record in the name of another process, unchanged, and counts it against `rate`, or
    /// leaves it out. `source`: the origin of the record, for the line that says how many were left
    /// out.
    pub fn write_limited(
        &self,
        rate: &LogRate,
        source: &dyn fmt::Display,
        pid: u32,
        level: Level,
        message: impl fmt::Display,
    ) {
        self.limited(rate, source, pid, level, &message, None);
    }

    fn limited(
        &self,
        rate: &LogRate,
        source: &dyn fmt::Display,
        pid: u32,
        level: Level,
        message: &dyn fmt::Display,
        subject: Option<&dyn Subject>,
    ) {
        if level > self.threshold {
            return;
        }
        let lines = format_args!("lines of {source}");
        let excess = format_args!("{source} writes too much for the log: its lines");
        if !self.admits(rate, lines, excess, subject) {
            return rate.wrote(length(message));
        }
        let length = self.record(level, pid, pid, message, subject);
        rate.wrote(length);
        rate.kept(self.cost(length));
    }

    /// Writes a record about a request of a site, shortened, and counts it against `rate`, or
    /// leaves it out: clients can cause these records at any rate.
    fn shortened(
        &self,
        rate: &LogRate,
        subject: &dyn Subject,
        level: Level,
        message: &dyn fmt::Display,
    ) {
        if level > self.threshold {
            return;
        }
        let site = subject.application().unwrap_or(subject.site());
        let lines = format_args!("lines about requests to \"{site}\"");
        if self.admits(rate, lines, format_args!("too many {lines}: they"), Some(subject)) {
            let length = self.write_counted(level, &Shortened(message), Some(subject));
            rate.kept(self.cost(length));
        }
    }

    /// Returns the bytes that a record counts for in the lasting rate of its site.
    fn cost(&self, length: usize) -> usize {
        if self.format == Format::Journal { length.max(MIN_JOURNAL_COST) } else { length }
    }

    /// Returns true if a record may be written. Logs when `excess` is left out from now on, and how
    /// many `lines` were.
    fn admits(
        &self,
        rate: &LogRate,
        lines: fmt::Arguments<'_>,
        excess: fmt::Arguments<'_>,
        subject: Option<&dyn Subject>,
    ) -> bool {
        match rate.admit() {
            Admission::Open => return true,
            Admission::Opened(count) => {
                let line = format_args!("{count} {lines} were left out");
                self.write_counted(Level::Warn, &line, subject);
                return true;
            }
            Admission::Closed => {
                let lasting = LASTING_RATE >> 10;
                let line = format_args!(
                    "{excess} are left out for 10 s, beyond a lasting {lasting} KiB/s"
                );
                self.write_counted(Level::Warn, &line, subject);
            }
            Admission::LeftOut => {}
        }
        false
    }

    /// Returns why the last line could not be written, and the remedy. Tries again before, with the
    /// line that says how many were lost; `None` if that is written.
    pub fn problem(&self) -> Option<String> {
        if !self.is_failing.load(Relaxed) {
            return None;
        }
        let mut unwritten = self.unwritten.lock().unwrap_or_else(PoisonError::into_inner);
        self.report_lost(&mut unwritten);
        unwritten.problem()
    }

    /// Writes a record of this thread, and returns its length.
    fn write_counted(
        &self,
        level: Level,
        message: &dyn fmt::Display,
        subject: Option<&dyn Subject>,
    ) -> usize {
        let thread = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        self.record(level, std::process::id(), thread, &Plain(message), subject)
    }

    /// Writes a record, unless it is below the threshold, and returns its length. If the process is
    /// not known (0), it is this one.
    fn record(
        &self,
        level: Level,
        pid: u32,
        thread: u32,
        message: &dyn fmt::Display,
        subject: Option<&dyn Subject>,
    ) -> usize {
        if level > self.threshold {
            return 0;
        }
        let known = |id: u32| if id == 0 { std::process::id() } else { id };
        let put = &mut |line: &[u8]| self.write_line(line);
        self.encode(level, [known(pid), known(thread)], message, subject, put)
    }

    /// Passes the lines of a record of a process and thread to `put`, as far as the journal has not
    /// taken it as an entry. Returns the length of the record.
    fn encode(
        &self,
        level: Level,
        [pid, thread]: [u32; 2],
        message: &dyn fmt::Display,
        subject: Option<&dyn Subject>,
        put: &mut dyn FnMut(&[u8]),
    ) -> usize {
        if self.format == Format::Json {
            let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let line = json::line(time, level, [pid, thread], subject, &message.to_string());
            put(line.as_bytes());
            return line.len();
        }
        let mut text = String::with_capacity(128);
        if self.format == Format::Text {
            crate::clock::local_time(&mut text);
            text.push_str(" [");
            text.push_str(level.as_str());
            text.push_str("] ");
        }
        let written = fmt::Write::write_fmt(&mut text, format_args!("{pid}#{thread} {message}"));
        debug_assert!(written.is_ok());
        let mut record = Vec::with_capacity(text.len() + 1);
        escape(text.as_bytes().trim_ascii_end(), &mut record);
        if self.format == Format::Journal {
            let native = self.native.as_ref();
            let taken =
                native.map_or(0, |socket| journal::send_native(socket, level, &record, subject));
            let rest = record.get(taken..).filter(|rest| !rest.is_empty());
            rest.iter().flat_map(|rest| journal::lines(level, rest)).for_each(|line| put(&line));
            return record.len();
        }
        record.push(b'\n');
        put(&record);
        record.len()
    }

    /// Writes a line, or counts it as lost.
    fn write_line(&self, line: &[u8]) {
        if !self.is_failing.load(Relaxed) {
            let Err((error, is_torn)) = self.put(line) else { return };
            let mut unwritten = self.unwritten.lock().unwrap_or_else(PoisonError::into_inner);
            unwritten.lose(&error, is_torn);
            return self.is_failing.store(true, Relaxed);
        }
        let mut unwritten = self.unwritten.lock().unwrap_or_else(PoisonError::into_inner);
        self.report_lost(&mut unwritten);
        let failed = match unwritten.problem() {
            Some(_) => return unwritten.lose_another(),
            None => self.put(line),
        };
        if let Err((error, is_torn)) = failed {
            unwritten.lose(&error, is_torn);
            self.is_failing.store(true, Relaxed);
        }
    }

    /// Says how many lines were lost, if that can be written.
    fn report_lost(&self, unwritten: &mut Unwritten) {
        let Some(report) = unwritten.report() else { return self.is_failing.store(false, Relaxed) };
        let pid = std::process::id();
        // Behind a part of a line.
        let mut lines = if unwritten.is_torn() { b"\n".to_vec() } else { Vec::new() };
        let report = Plain(report);
        self.encode(Level::Alert, [pid, pid], &report, None, &mut |line| lines.extend(line));
        match self.put(&lines) {
            Ok(()) => {
                *unwritten = Unwritten::default();
                self.is_failing.store(false, Relaxed);
            }
            Err((error, is_torn)) => unwritten.still_fails(&error, is_torn),
        }
    }

    /// Writes bytes. Error: the reason, and whether a part of them was written.
    fn put(&self, bytes: &[u8]) -> Result<(), (io::Error, bool)> {
        let file = self.file.read().unwrap_or_else(|e| e.into_inner());
        let mut rest = bytes;
        while !rest.is_empty() {
            match rustix::io::retry_on_intr(|| rustix::io::write(&*file, rest)) {
                Ok(0) => return Err((io::ErrorKind::WriteZero.into(), rest.len() < bytes.len())),
                Ok(n) => rest = &rest[n..],
                Err(error) => return Err((error.into(), rest.len() < bytes.len())),
            }
        }
        Ok(())
    }
}

/// Appends `bytes` with control characters escaped and continuation lines indented. The controls of
/// Latin-1 (U+0080 to U+009F), encoded or as single bytes, are escaped too, because terminals
/// interpret them; so are all bytes that are not UTF-8.
pub fn escape(bytes: &[u8], out: &mut Vec<u8>) {
    for chunk in bytes.utf8_chunks() {
        let mut rest = chunk.valid();
        while let Some(at) = rest.find(|character: char| character.is_control()) {
            let (plain, from_control) = rest.split_at(at);
            out.extend_from_slice(plain.as_bytes());
            let length = from_control.chars().next().map_or(0, char::len_utf8);
            let (control, behind) = from_control.split_at(length);
            match control {
                "\n" => out.extend_from_slice(b"\n    "),
                "\t" => out.push(b'\t'),
                _ => hexadecimal(control.as_bytes(), out),
            }
            rest = behind;
        }
        out.extend_from_slice(rest.as_bytes());
        hexadecimal(chunk.invalid(), out);
    }
}

fn hexadecimal(bytes: &[u8], out: &mut Vec<u8>) {
    for byte in bytes {
        let [high, low] = howdah_text::hex::lower_digits(*byte);
        out.extend_from_slice(&[b'\\', b'x', high, low]);
    }
}

/// Returns the length of a text without keeping it, in bytes.
fn length(text: &dyn fmt::Display) -> usize {
    struct Count(usize);
    impl fmt::Write for Count {
        fn write_str(&mut self, part: &str) -> fmt::Result {
            self.0 += part.len();
            Ok(())
        }
    }
    let mut count = Count(0);
    let _ = fmt::Write::write_fmt(&mut count, format_args!("{text}"));
    count.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_cannot_forge_a_line_or_drive_a_terminal() {
        let mut out = Vec::new();
        escape(b"a\n2026/01/01 [alert] b\r\x1b[2J\x7f", &mut out);
        assert_eq!(out, b"a\n    2026/01/01 [alert] b\\x0d\\x1b[2J\\x7f");
    }

    #[test]
    fn latin_1_controls_drive_no_terminal_in_either_encoding() {
        let mut out = Vec::new();
        escape("é\u{9b}2J\u{85}".as_bytes(), &mut out);
        escape(b"\x9b2J\xe9", &mut out);
        assert_eq!(out, "é\\xc2\\x9b2J\\xc2\\x85\\x9b2J\\xe9".as_bytes());
    }

    #[test]
    fn a_record_in_the_journal_has_a_priority_and_no_time() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let log = Log { format: Format::Journal, ..Log::new(writer) };
        log.write_as(7, Level::Alert, "hello\n<0>forged");
        let mut buffer = [0; 200];
        let n = rustix::io::read(reader, &mut buffer).unwrap();
        let (first, rest) = std::str::from_utf8(&buffer[..n]).unwrap().split_once('\n').unwrap();
        assert_eq!(first, "<1>7#7 hello");
        assert!(rest.is_empty() || rest == "<1>    <0>forged\n", "{rest}");
    }

    #[test]
    fn records_below_the_threshold_are_left_out() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let log = Log::new(writer).limited_to(Level::Warn);
        for level in Level::ALL {
            log.write(level, "a message");
        }
        let known = log.variables();
        drop(log);
        let mut text = String::new();
        std::io::Read::read_to_string(&mut std::fs::File::from(reader), &mut text).unwrap();
        for level in Level::ALL {
            let is_written = text.contains(&format!("[{}] ", level.as_str()));
            assert_eq!(is_written, level <= Level::Warn, "{text}");
            assert_eq!(Level::named(level.as_str()), Some(level));
        }
        assert_eq!(known[0], (LEVEL_VARIABLE.to_owned(), "warn".to_owned()));
        assert_eq!(Level::named("loud"), None);
    }

    #[test]
    fn lines_that_are_lost_are_counted_and_told_once_there_is_room() {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let log = Log::new(full.into()).named("/log");
        assert_eq!((log.name(), log.problem()), ("/log", None));
        (0..3).for_each(|number| log.write(Level::Notice, number));
        let problem = log.problem().unwrap();
        assert!(problem.starts_with("it cannot be written: No space left on device"), "{problem}");
        assert!(problem.ends_with("; make room there: df -h"), "{problem}");
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        log.reopen(writer);
        assert_eq!(log.problem(), None);
        log.write(Level::Notice, "on it goes");
        drop(log);
        let mut text = String::new();
        std::io::Read::read_to_string(&mut std::fs::File::from(reader), &mut text).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[0].contains("[alert]"), "{text}");
        let told =
            " 3 lines of this log are lost, as it could not be written: No space left on device";
        assert!(lines[0].ends_with(told), "{text}");
        assert!(lines[1].ends_with(" on it goes") && lines.len() == 2, "{text}");
    }

    #[test]
    fn a_record_has_time_level_process_and_message() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        Log::new(writer).write(Level::Notice, format_args!("hello {}", 1));
        let mut buffer = [0; 200];
        let n = rustix::io::read(reader, &mut buffer).unwrap();
        let line = std::str::from_utf8(&buffer[..n]).unwrap();
        assert_eq!(&line[4..5], "/");
        assert!(line.contains(&format!("[notice] {}#", std::process::id())), "{line}");
        assert!(line.ends_with(" hello 1\n"), "{line}");
    }
}
