//! Standard output and error of an application: a pipe whose lines are written to the log.
//!
//! With the pipe, workers and the programs that they start need no descriptor of the log.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use howdah_sys::log::{Level, Log};
use howdah_sys::log_rate::LogRate;
use howdah_sys::pipe;
use rustix::fs::{Access, AtFlags, CWD, OFlags, accessat};
use rustix::io::{Errno, ioctl_fionbio};

/// Maximum length of a line, in bytes; a longer one is split.
const MAX_LINE: usize = 64 * 1024;

/// The reading end of an application's pipe.
#[derive(Debug)]
pub(crate) struct Output {
    pipe: OwnedFd,
    line: Vec<u8>,
    rate: LogRate,
}

impl Output {
    /// Creates a pipe. Returns its reader and the application's end.
    pub(crate) fn new() -> std::io::Result<(Self, OwnedFd)> {
        let (read, write) = pipe::new()?;
        Ok((Output { pipe: read, line: Vec::new(), rate: LogRate::default() }, write))
    }

    /// Returns the descriptor to poll.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }

    /// Returns the time until output may be read again; zero if the rate is not exceeded.
    pub(crate) fn pause(&self) -> Duration {
        self.rate.wait()
    }

    /// Reads output and logs complete lines. Returns false if all writers have closed the pipe.
    pub(crate) fn drain(&mut self, name: &str, log: &Log) -> bool {
        let mut buffer = [0; 16 * 1024];
        // The number of reads is limited: a script that writes without end must not block the
        // supervisor.
        for _ in 0..16 {
            if !self.rate.has_room() {
                break;
            }
            match rustix::io::retry_on_intr(|| rustix::io::read(&self.pipe, &mut buffer)) {
                Ok(0) => {
                    self.flush(name, log);
                    return false;
                }
                Ok(n) => self.take(&buffer[..n], name, log),
                Err(_) => break,
            }
        }
        true
    }

    fn take(&mut self, bytes: &[u8], name: &str, log: &Log) {
        for part in bytes.split_inclusive(|b| *b == b'\n') {
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") || self.line.len() >= MAX_LINE {
                self.flush(name, log);
            }
        }
    }

    fn flush(&mut self, name: &str, log: &Log) {
        let text = String::from_utf8_lossy(self.line.trim_ascii_end());
        if !text.is_empty() {
            let message = format_args!("\"{name}\" application output: {text}");
            log.write_limited(&self.rate, std::process::id(), Level::Error, message);
        }
        self.line.clear();
    }
}

/// Opens a file to which an application's output is appended. It may be a FIFO that has a reader.
///
/// Never waits: scripts may have replaced the file.
pub(crate) fn open(path: &str) -> std::io::Result<OwnedFd> {
    let mut options = File::options();
    let options = options.append(true).custom_flags(NOT_BLOCKING);
    let file = options.create(true).open(path).map_err(explained)?;
    ioctl_fionbio(&file, false)?;
    Ok(file.into())
}

/// Flags with which a FIFO without a reader, a socket, and a file with a lease are refused at once,
/// and a terminal does not become this session's.
const NOT_BLOCKING: i32 = (OFlags::NONBLOCK.bits() | OFlags::NOCTTY.bits()) as i32;

fn explained(error: std::io::Error) -> std::io::Error {
    match Errno::from_io_error(&error) {
        Some(Errno::NXIO) => std::io::Error::other("it is a FIFO without a reader, or a socket"),
        Some(Errno::AGAIN) => std::io::Error::other("a process has a lease on it"),
        _ => error,
    }
}

/// Checks that [`open`] could open a file. No file is made.
pub(crate) fn check(path: &str) -> std::io::Result<()> {
    match File::options().append(true).custom_flags(NOT_BLOCKING).open(path).map_err(explained) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let directory = Path::new(path).parent().filter(|path| !path.as_os_str().is_empty());
            let wanted = Access::WRITE_OK | Access::EXEC_OK;
            let directory = directory.unwrap_or(Path::new("."));
            Ok(accessat(CWD, directory, wanted, AtFlags::EACCESS)?)
        }
        opened => opened.map(|_| ()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_taken_no_faster_than_the_log_may_grow() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let log = Log::new(File::create(&path).unwrap().into());
        let (mut output, writer) = Output::new().unwrap();
        let line = [vec![b'x'; 100], vec![b'\n']].concat();
        let mut taken = 0;
        while output.pause().is_zero() && taken < 64 << 20 {
            taken += rustix::io::write(&writer, &line.repeat(300)).unwrap_or(0);
            assert!(output.drain("flood", &log));
        }
        assert!(!output.pause().is_zero());
        let before = std::fs::metadata(&path).unwrap().len();
        let _ = rustix::io::write(&writer, &line);
        assert!(output.drain("flood", &log));
        let after = std::fs::metadata(&path).unwrap().len();
        assert!(before > 100_000 && after < before + 100_000, "{before} {after}");
    }
}
