//! The file of an access log, or a pipe or socket in its place. Only a write to a file may take
//! time.

use std::collections::HashMap;
use std::fmt;
use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use howdah_config::Destination;
use howdah_sys::full_disk;
use howdah_sys::log::{Level, Log};
use rustix::fs::{FileType, OFlags, fcntl_getfl, fstat};
use rustix::io::{Errno, retry_on_intr, write, writev};
use rustix::net::{SendFlags, send};

use super::backlog::{Backlog, Piece, Sent, Taken, lines_in};
use super::datagram::{self, Framing};

/// The open files of a configuration's access logs.
pub type LogFiles = HashMap<Destination, Arc<LogFile>>;

/// The file of an access log, shared by all threads. Log rotation replaces the descriptor.
#[derive(Debug)]
pub struct LogFile {
    /// Its name in messages.
    name: String,
    /// Framing of lines; `None` for a file.
    framing: Option<Framing>,
    /// `None` while a server cannot be reached.
    file: RwLock<Option<Output>>,
    /// The last write failed. The number of lost lines is reported in the error log.
    is_failing: AtomicBool,
    /// The socket is no longer connected.
    is_disconnected: AtomicBool,
    /// Lines that the server has not taken yet, or that the disk has no room for.
    backlog: Mutex<Backlog>,
    /// `backlog` is not empty; avoids the lock.
    has_backlog: AtomicBool,
    /// A thread sends the backlog. Changed under the lock of `backlog`.
    is_retried: AtomicBool,
    /// Time of the last report that a port is closed.
    refused: Mutex<Option<Instant>>,
    /// Reason why it could not be opened or cannot be written.
    problem: Mutex<Option<String>>,
    /// Reason why it could not be opened again, so that the former file stays in use.
    former: Mutex<Option<String>>,
}

/// An open file, pipe or socket.
#[derive(Debug)]
struct Output {
    file: OwnedFd,
    channel: Channel,
}

/// The way in which lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Channel {
    /// Any number of lines at once; the call may take as long as the disk.
    File,
    /// A pipe that does not block.
    Pipe,
    /// A connected socket of datagrams that does not block.
    Datagrams,
    /// A stream socket, such as standard output in a service of systemd.
    Stream,
}

/// Maximum length of a piece for a pipe: it is written as a whole or not at all (pipe(7)).
const MAX_PIECE_BYTES: usize = 4096;

/// Minimum time between two reports that a port is closed. Some machines say so after some of the
/// datagrams only.
const REFUSED_INTERVAL: Duration = Duration::from_secs(60);

/// Maximum time for which the end of a thread waits for a server.
const LAST_WAIT: Duration = Duration::from_millis(200);

/// Pause between two attempts during that time.
const LAST_PAUSE: Duration = Duration::from_millis(1);

impl LogFile {
    /// Takes over a file that is open for appending, or a connected datagram socket that does not
    /// block. Without a socket, which the caller reports, lines wait for one ([`LogFile::reopen`]).
    pub fn new(destination: &Destination, file: Option<OwnedFd>) -> Self {
        LogFile {
            name: destination.to_string(),
            framing: Framing::of(destination),
            is_failing: AtomicBool::new(file.is_none()),
            is_disconnected: AtomicBool::new(file.is_none()),
            backlog: Mutex::default(),
            has_backlog: AtomicBool::new(false),
            is_retried: AtomicBool::new(false),
            refused: Mutex::default(),
            problem: Mutex::default(),
            former: Mutex::default(),
            file: RwLock::new(file.map(|file| Output::new(file, destination.socket().is_some()))),
        }
    }

    /// Returns the log without a file, which waits for one, for this reason.
    pub fn unopened(destination: &Destination, problem: String) -> Self {
        let log = LogFile::new(destination, None);
        log.set_problem(Some(problem));
        log
    }

    /// Returns the reason why it could not be opened, or why a file cannot be written; `None` if
    /// lines are taken.
    pub fn problem(&self) -> Option<String> {
        let problem = self.problem.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // A server that has gone away is reported in the error log.
        problem.filter(|_| !self.is_server() || !self.is_open())
    }

    fn set_problem(&self, problem: Option<String>) {
        *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = problem;
    }

    /// Returns the reason why the former file stays in use after log rotation; `None` if it does
    /// not.
    pub fn former_because(&self) -> Option<String> {
        self.former.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records that the file could not be opened again: its former one stays in use, and it is
    /// tried again ([`LogFile::take_disconnected`]).
    pub fn set_former(&self, reason: Option<String>) {
        self.is_disconnected.store(reason.is_some(), Relaxed);
        *self.former.lock().unwrap_or_else(PoisonError::into_inner) = reason;
    }

    /// Returns true if it may have to be opened again, without log rotation.
    pub fn may_need_file(&self) -> bool {
        self.is_server() || !self.is_open() || self.former_because().is_some()
    }

    /// Returns true if it has been opened.
    pub fn is_open(&self) -> bool {
        self.file.read().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Returns its name: the path of a file, or the address of a server.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns true for a server.
    pub fn is_server(&self) -> bool {
        self.framing.is_some()
    }

    /// Returns true, once, after a server has gone away or a file could not be opened: it must be
    /// opened again.
    pub fn take_disconnected(&self) -> bool {
        self.is_disconnected.swap(false, Relaxed)
    }

    /// Records that a socket could not be connected. The first `reason` in a row is reported in
    /// `log`.
    pub fn set_disconnected(&self, reason: &dyn fmt::Display, log: &Log) {
        self.is_disconnected.store(true, Relaxed);
        self.set_problem(Some(reason.to_string()));
        if !self.is_failing.swap(true, Relaxed) {
            let name = &self.name;
            let problem =
                format_args!("access log {name}: {reason}; lines wait until it can be reached");
            log.write(Level::Error, problem);
        }
    }

    /// Replaces the file.
    pub fn reopen(&self, file: OwnedFd) {
        let output = Output::new(file, self.framing.is_some());
        let mut file = self.file.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        *file = Some(output);
        // Under the lock: the result of the first write to the new file counts.
        self.set_former(None);
        self.set_problem(None);
    }

    /// Appends whole lines. Lines that cannot be written to a file, or that a server, or the reader
    /// of a pipe, does not take wait ([`LogFile::claim_retry`]). Those that are lost are reported
    /// in `log`.
    pub fn append(&self, lines: &[u8], log: &Log) {
        let file = self.file.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        match (&self.framing, &*file) {
            (Some(framing), output) => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                let header = framing.header(now);
                let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
                let datagrams = lines.map(|line| {
                    let parts = [header.as_bytes(), datagram::cut(line), framing.end()];
                    Piece { parts, lines: 1 }
                });
                self.send(output.as_ref(), datagrams, log);
            }
            (None, Some(Output { file, channel: Channel::File })) => {
                // Held while a part of a line is in the file and the rest is not.
                let mut backlog = self.backlog();
                let written = if backlog.is_empty() { self.write(file, lines) } else { 0 };
                if written < lines.len() {
                    let rest = lines.get(written..).unwrap_or_default();
                    self.keep(&mut backlog, Pieces(rest), log);
                }
            }
            (None, output) => self.send(output.as_ref(), Pieces(lines), log),
        }
    }

    /// Returns true if lines wait and no other thread sends them: the caller must call
    /// [`LogFile::retry`] a little later, again and again, until no line is left.
    pub fn claim_retry(&self) -> bool {
        self.has_backlog.load(Relaxed) && {
            let backlog = self.backlog();
            !backlog.is_empty() && !self.is_retried.swap(true, Relaxed)
        }
    }

    /// Sends lines that wait.
    pub fn retry(&self, log: &Log) -> Sent {
        let file = self.file.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut backlog = self.backlog();
        let mut lost = 0;
        let sent = match &*file {
            Some(Output { file, channel: Channel::File }) => {
                backlog.send(|piece| match self.write(file, piece.parts[0]) {
                    all if all == piece.parts[0].len() => Taken::All,
                    written => Taken::Bytes(written),
                })
            }
            Some(output) => backlog.send(|piece| match self.send_one(output, piece.parts, log) {
                Attempt::Sent => Taken::All,
                Attempt::Lost => {
                    lost += piece.lines;
                    Taken::All
                }
                Attempt::NotTaken => Taken::Nothing,
            }),
            None if backlog.is_empty() => Sent::All,
            None => Sent::Nothing,
        };
        backlog.lose(lost);
        self.report_lost(&mut backlog, Instant::now(), log);
        self.has_backlog.store(!backlog.is_empty(), Relaxed);
        match sent {
            // The report is still due.
            Sent::All if backlog.has_lost() => Sent::Nothing,
            Sent::All => {
                self.is_retried.store(false, Relaxed);
                Sent::All
            }
            sent => sent,
        }
    }

    /// Gives the server a last moment to take the lines that wait. Blocks the thread.
    pub fn finish(&self, log: &Log) {
        let end = Instant::now() + LAST_WAIT;
        while self.has_backlog.load(Relaxed) && Instant::now() < end {
            if self.retry(log) != Sent::All {
                std::thread::sleep(LAST_PAUSE);
            }
        }
        if let Some(left) = self.backlog().left() {
            let name = &self.name;
            let problem = format_args!("access log {name}: {left} lines lost, as the server ends");
            log.write(Level::Error, problem);
        }
    }

    /// Sends pieces. Those that are not taken wait.
    fn send<'l>(
        &self,
        output: Option<&Output>,
        mut pieces: impl Iterator<Item = Piece<'l>>,
        log: &Log,
    ) {
        let (mut rest, mut lost) = (None, 0);
        if let Some(output) = output
            && !self.has_backlog.load(Relaxed)
        {
            rest = pieces.find(|piece| match self.send_one(output, piece.parts, log) {
                Attempt::Sent => false,
                Attempt::Lost => {
                    lost += piece.lines;
                    false
                }
                Attempt::NotTaken => true,
            });
            if rest.is_none() && lost == 0 {
                return;
            }
        }
        let mut backlog = self.backlog();
        backlog.lose(lost);
        self.keep(&mut backlog, rest.into_iter().chain(pieces), log);
    }

    /// Lets pieces wait.
    fn keep<'l>(&self, backlog: &mut Backlog, pieces: impl Iterator<Item = Piece<'l>>, log: &Log) {
        pieces.for_each(|piece| backlog.push(piece));
        self.has_backlog.store(!backlog.is_empty(), Relaxed);
        self.report_lost(backlog, Instant::now(), log);
    }

    fn send_one(&self, output: &Output, parts: [&[u8]; 3], log: &Log) -> Attempt {
        let Output { file, channel } = output;
        let slices = parts.map(IoSlice::new);
        let put = || retry_on_intr(|| writev(file, &slices));
        let first = match channel {
            // Independent of its mode: other processes have the same stream.
            Channel::Stream => {
                let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
                retry_on_intr(|| send(file, &parts.concat(), flags))
            }
            _ => put(),
        };
        // An error of a datagram before this one (a port that is closed) is reported with the next;
        // the line itself can be sent then.
        let was_refused = *channel == Channel::Datagrams && first == Err(Errno::CONNREFUSED);
        match if was_refused { put() } else { first } {
            Ok(written) => {
                if was_refused {
                    self.report_refused(Instant::now(), log);
                }
                if self.is_failing.swap(false, Relaxed) {
                    let name = &self.name;
                    log.write(Level::Notice, format_args!("access log {name} takes lines again"));
                }
                let is_whole = written >= parts.iter().map(|part| part.len()).sum();
                if is_whole { Attempt::Sent } else { Attempt::Lost }
            }
            Err(Errno::MSGSIZE) => Attempt::Lost,
            // The server is slow. That is usual for a moment, and reported if lines are lost.
            Err(Errno::AGAIN | Errno::NOBUFS) => Attempt::NotTaken,
            Err(error) if *channel == Channel::Datagrams => {
                self.set_disconnected(&error, log);
                Attempt::NotTaken
            }
            // The reader has gone, and the socket is not connected again.
            Err(error) => {
                self.report(error, log);
                Attempt::Sent
            }
        }
    }

    /// Reports that datagrams are lost at a closed port.
    fn report_refused(&self, now: Instant, log: &Log) {
        let mut last = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_none_or(|last| now.duration_since(last) >= REFUSED_INTERVAL) {
            *last = Some(now);
            let name = &self.name;
            let problem = format_args!(
                "access log {name}: lines are lost, as no server has the port (connection refused)"
            );
            log.write(Level::Error, problem);
        }
    }

    fn report_lost(&self, backlog: &mut Backlog, now: Instant, log: &Log) {
        if let Some(lost) = backlog.report(now) {
            let (name, lines) = (&self.name, if lost == 1 { "line" } else { "lines" });
            let problem = format_args!(
                "access log {name}: {lost} {lines} lost, as it does not take them in time"
            );
            log.write(Level::Error, problem);
        }
    }

    fn backlog(&self) -> MutexGuard<'_, Backlog> {
        self.backlog.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends the lines to a file with one write. Returns the number of bytes that are written:
    /// fewer after an error, which becomes the problem.
    fn write(&self, file: &OwnedFd, lines: &[u8]) -> usize {
        let mut rest = lines;
        while !rest.is_empty() {
            // More than one turn only if the disk or a pipe is full.
            match retry_on_intr(|| write(file, rest)) {
                Ok(0) => return lines.len() - rest.len(),
                Ok(written) => rest = rest.get(written..).unwrap_or_default(),
                Err(error) => {
                    let error = std::io::Error::from(error);
                    let advice = full_disk::advice(&error);
                    self.is_failing.store(true, Relaxed);
                    self.set_problem(Some(format!("it cannot be written: {error}; {advice}")));
                    return lines.len() - rest.len();
                }
            }
        }
        if self.is_failing.swap(false, Relaxed) {
            self.set_problem(None);
        }
        lines.len()
    }

    fn report(&self, error: Errno, log: &Log) {
        if !self.is_failing.swap(true, Relaxed) {
            let name = &self.name;
            let problem = format_args!(
                "access log {name}: {error}; lines are lost until it can be written to"
            );
            log.write(Level::Error, problem);
        }
    }
}

impl Output {
    fn new(file: OwnedFd, is_server: bool) -> Self {
        let kind = fstat(&file).map(|stat| FileType::from_raw_mode(stat.st_mode));
        let may_block = || !fcntl_getfl(&file).is_ok_and(|flags| flags.contains(OFlags::NONBLOCK));
        let channel = match kind {
            _ if is_server => Channel::Datagrams,
            Ok(FileType::Socket) => Channel::Stream,
            Ok(FileType::Fifo) if !may_block() => Channel::Pipe,
            _ => Channel::File,
        };
        Output { file, channel }
    }
}

/// Result of sending a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attempt {
    /// Done; also if there is no reader, which is reported.
    Sent,
    /// The piece is too long for the socket.
    Lost,
    NotTaken,
}

/// Divides text into pieces of whole lines; a longer line is divided, too.
struct Pieces<'l>(&'l [u8]);

impl<'l> Iterator for Pieces<'l> {
    type Item = Piece<'l>;

    fn next(&mut self) -> Option<Piece<'l>> {
        let most = self.0.get(..MAX_PIECE_BYTES).unwrap_or(self.0);
        let end = match memchr::memrchr(b'\n', most) {
            Some(last) => last + 1,
            None => most.len(),
        };
        let (piece, rest) = self.0.split_at_checked(end).filter(|_| end > 0)?;
        self.0 = rest;
        let lines = lines_in(piece);
        Some(Piece { parts: [piece, b"", b""], lines })
    }
}

#[cfg(test)]
mod tests;
