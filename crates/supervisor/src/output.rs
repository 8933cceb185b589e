//! Standard output and error of an application: a pipe whose lines go to the log.
//!
//! A pipe and not the log itself, so that neither workers nor what they start hold a descriptor
//! of the log.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use howdah_sys::log::{Level, Log};
use howdah_sys::pipe;
use rustix::fs::{Access, AtFlags, CWD, accessat};

/// Longest line kept together.
const MAX_LINE: usize = 64 * 1024;

/// The reading end of an application's output.
#[derive(Debug)]
pub(crate) struct Output {
    pipe: OwnedFd,
    line: Vec<u8>,
}

impl Output {
    /// A pipe: what reads it, and the end that the application gets.
    pub(crate) fn new() -> std::io::Result<(Self, OwnedFd)> {
        let (read, write) = pipe::new()?;
        Ok((Output { pipe: read, line: Vec::new() }, write))
    }

    /// To wait on.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }

    /// Takes what is there and logs complete lines. `false` when nobody can write any more.
    pub(crate) fn drain(&mut self, name: &str, log: &Log) -> bool {
        let mut buffer = [0; 16 * 1024];
        // A bounded number of turns: a script that writes without end must not keep the
        // supervisor from its work.
        for _ in 0..16 {
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
            log.write(Level::Error, format_args!("\"{name}\" application output: {text}"));
        }
        self.line.clear();
    }
}

/// Opens a file that an application's output is appended to.
pub(crate) fn open(path: &str) -> std::io::Result<OwnedFd> {
    Ok(File::options().append(true).create(true).open(path)?.into())
}

/// Whether [`open`] could open a file. None is made.
pub(crate) fn look(path: &str) -> std::io::Result<()> {
    match File::options().append(true).open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let directory = Path::new(path).parent().filter(|path| !path.as_os_str().is_empty());
            let wanted = Access::WRITE_OK | Access::EXEC_OK;
            let directory = directory.unwrap_or(Path::new("."));
            Ok(accessat(CWD, directory, wanted, AtFlags::EACCESS)?)
        }
        opened => opened.map(|_| ()),
    }
}
