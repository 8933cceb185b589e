//! The file of an access log.

use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use howdah_sys::log::{Level, Log};
use rustix::io::{Errno, retry_on_intr, writev};

/// The file of an access log, shared by all threads. Log rotation replaces the descriptor.
#[derive(Debug)]
pub struct LogFile {
    path: String,
    file: RwLock<OwnedFd>,
    /// The last write failed; a report is in the error log.
    is_failing: AtomicBool,
    /// The last write ended within a line.
    is_torn: AtomicBool,
}

impl LogFile {
    /// Takes over a file that is open for appending. `path` is its name in the configuration.
    pub fn new(path: &str, file: OwnedFd) -> Self {
        LogFile {
            path: path.to_owned(),
            file: RwLock::new(file),
            is_failing: AtomicBool::new(false),
            is_torn: AtomicBool::new(false),
        }
    }

    /// Returns its name in the configuration.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Replaces the file.
    pub fn reopen(&self, file: OwnedFd) {
        *self.file.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = file;
        self.is_torn.store(false, Relaxed);
    }

    /// Appends whole lines with one write. Lines that cannot be written are lost; the first failure
    /// in a row is reported in `log`.
    pub fn append(&self, lines: &[u8], log: &Log) {
        let file = self.file.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut lead: &[u8] = if self.is_torn.swap(false, Relaxed) { b"\n" } else { b"" };
        let mut rest = lines;
        while !rest.is_empty() {
            // More than one turn only if the disk or a pipe is full.
            let parts = [IoSlice::new(lead), IoSlice::new(rest)];
            let written = match retry_on_intr(|| writev(&*file, &parts)) {
                Ok(0) => return self.failed(rest, lines, Errno::IO, log),
                Ok(written) => written,
                Err(error) => return self.failed(rest, lines, error, log),
            };
            let of_lead = written.min(lead.len());
            lead = lead.get(of_lead..).unwrap_or_default();
            rest = rest.get(written - of_lead..).unwrap_or_default();
        }
        self.is_failing.store(false, Relaxed);
    }

    fn failed(&self, rest: &[u8], lines: &[u8], error: Errno, log: &Log) {
        let done = lines.len() - rest.len(); // `rest` is the end of `lines`
        let within = done.checked_sub(1).and_then(|last| lines.get(last));
        self.is_torn.store(within.is_some_and(|last| *last != b'\n'), Relaxed);
        if !self.is_failing.swap(true, Relaxed) {
            log.write(
                Level::Error,
                format_args!(
                    "access log {}: {error}; lines are lost until it can be written to",
                    self.path
                ),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn quiet() -> Log {
        Log::new(fs::OpenOptions::new().write(true).open("/dev/null").unwrap().into())
    }

    fn open(path: &std::path::Path) -> OwnedFd {
        fs::OpenOptions::new().append(true).create(true).open(path).unwrap().into()
    }

    #[test]
    fn lines_go_on_in_the_file_that_is_opened_anew() {
        let dir = tempfile::tempdir().unwrap();
        let (path, old) = (dir.path().join("log"), dir.path().join("old"));
        let file = LogFile::new("log", open(&path));
        file.append(b"a\n", &quiet());
        fs::rename(&path, &old).unwrap();
        file.append(b"b\n", &quiet());
        file.reopen(open(&path));
        file.append(b"c\n", &quiet());
        assert_eq!(fs::read(old).unwrap(), b"a\nb\n");
        assert_eq!(fs::read(path).unwrap(), b"c\n");
    }

    #[test]
    fn a_full_disk_is_reported_once() {
        let dir = tempfile::tempdir().unwrap();
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let file = LogFile::new("/dev/full", full.into());
        let report = dir.path().join("report");
        let log = Log::new(open(&report));
        file.append(b"a\n", &log);
        file.append(b"b\n", &log);
        let text = fs::read_to_string(report).unwrap();
        assert_eq!(text.matches("access log /dev/full: ").count(), 1, "{text}");
    }

    #[test]
    fn a_line_that_was_torn_is_ended_before_the_next() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        rustix::pipe::fcntl_setpipe_size(&writer, 4096).unwrap();
        rustix::fs::fcntl_setfl(&writer, rustix::fs::OFlags::NONBLOCK).unwrap();
        let file = LogFile::new("pipe", writer);
        file.append(&[&[b'x'; 4999][..], b"\n"].concat(), &quiet());
        let mut buffer = vec![0; 8192];
        assert_eq!(rustix::io::read(&reader, &mut buffer).unwrap(), 4096);
        file.append(b"next\n", &quiet());
        let read = rustix::io::read(&reader, &mut buffer).unwrap();
        assert_eq!(&buffer[..read], b"\nnext\n");
    }
}
