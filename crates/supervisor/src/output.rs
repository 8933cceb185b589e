//! Standard output and error of an application: a pipe whose lines are written to the log.
//!
//! With the pipe, workers and the programs that they start need no descriptor of the log.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use howdah_sys::log::{Level, Log};
use howdah_sys::log_rate::LogRate;
use howdah_sys::pipe;

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
            let (source, pid) = (format_args!("application \"{name}\""), std::process::id());
            log.write_limited(&self.rate, &source, pid, Level::Error, message);
        }
        self.line.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

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
