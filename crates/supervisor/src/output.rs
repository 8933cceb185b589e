//! Standard output and error of an application: a pipe whose lines go to the log.
//!
//! A pipe and not the log itself, so that neither workers nor what they start hold a descriptor
//! of the log.

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

/// Longest line kept together.
const MAX_LINE: usize = 64 * 1024;

/// The reading end of an application's output.
#[derive(Debug)]
pub(crate) struct Output {
    pipe: OwnedFd,
    line: Vec<u8>,
    rate: LogRate,
}

impl Output {
    /// A pipe: what reads it, and the end that the application gets.
    pub(crate) fn new() -> std::io::Result<(Self, OwnedFd)> {
        let (read, write) = pipe::new()?;
        Ok((Output { pipe: read, line: Vec::new(), rate: LogRate::default() }, write))
    }

    /// To wait on.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }

    /// How long nothing is taken, because too much has come; zero if it is.
    pub(crate) fn pause(&self) -> Duration {
        self.rate.wait()
    }

    /// Takes what is there and logs complete lines. `false` when nobody can write any more.
    pub(crate) fn drain(&mut self, name: &str, log: &Log) -> bool {
        let mut buffer = [0; 16 * 1024];
        // A bounded number of turns: a script that writes without end must not keep the
        // supervisor from its work.
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

/// Opens a file that an application's output is appended to. It may be a FIFO that somebody reads.
///
/// Opening waits for nobody: scripts may have put anything in the place of the file.
pub(crate) fn open(path: &str) -> std::io::Result<OwnedFd> {
    let mut options = File::options();
    let options = options.append(true).custom_flags(NOT_BLOCKING);
    let file = options.create(true).open(path).map_err(explained)?;
    ioctl_fionbio(&file, false)?;
    Ok(file.into())
}

/// A FIFO without a reader, a socket, and a file with somebody's lease on it are refused at once; a
/// terminal does not become this session's.
const NOT_BLOCKING: i32 = (OFlags::NONBLOCK.bits() | OFlags::NOCTTY.bits()) as i32;

fn explained(error: std::io::Error) -> std::io::Error {
    match Errno::from_io_error(&error) {
        Some(Errno::NXIO) => std::io::Error::other("it is a FIFO that nobody reads, or a socket"),
        Some(Errno::AGAIN) => std::io::Error::other("a process has a lease on it"),
        _ => error,
    }
}

/// Whether [`open`] could open a file. None is made.
pub(crate) fn look(path: &str) -> std::io::Result<()> {
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
    fn hardening_14_a_flood_is_taken_no_faster_than_the_log_may_grow() {
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
