//! The file of an access log, or the socket of a server in its place.

use std::collections::HashMap;
use std::fmt;
use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use howdah_config::Destination;
use howdah_sys::log::{Level, Log};
use rustix::io::{Errno, retry_on_intr, writev};

use super::backlog::{Backlog, Sent};
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
    file: RwLock<Option<OwnedFd>>,
    /// The last write failed; a report is in the error log.
    is_failing: AtomicBool,
    /// The last write ended within a line.
    is_torn: AtomicBool,
    /// The socket is no longer connected.
    is_disconnected: AtomicBool,
    /// Lines that the server has not taken yet.
    backlog: Mutex<Backlog>,
    /// `backlog` is not empty; avoids the lock.
    has_backlog: AtomicBool,
    /// A thread sends the backlog. Changed under the lock of `backlog`.
    is_retried: AtomicBool,
    /// Time of the last report that a port is closed.
    refused: Mutex<Option<Instant>>,
}

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
            is_torn: AtomicBool::new(false),
            is_disconnected: AtomicBool::new(file.is_none()),
            backlog: Mutex::default(),
            has_backlog: AtomicBool::new(false),
            is_retried: AtomicBool::new(false),
            refused: Mutex::default(),
            file: RwLock::new(file),
        }
    }

    /// Returns its name: the path of a file, or the address of a server.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns true for a server.
    pub fn is_server(&self) -> bool {
        self.framing.is_some()
    }

    /// Returns true, once, after a server has gone away: a new socket must be connected.
    pub fn take_disconnected(&self) -> bool {
        self.is_disconnected.swap(false, Relaxed)
    }

    /// Records that a socket could not be connected. The first `reason` in a row is reported in `log`.
    pub fn set_disconnected(&self, reason: &dyn fmt::Display, log: &Log) {
        self.is_disconnected.store(true, Relaxed);
        if !self.is_failing.swap(true, Relaxed) {
            let name = &self.name;
            let problem =
                format_args!("access log {name}: {reason}; lines wait until it can be reached");
            log.write(Level::Error, problem);
        }
    }

    /// Replaces the file.
    pub fn reopen(&self, file: OwnedFd) {
        *self.file.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(file);
        self.is_torn.store(false, Relaxed);
        self.is_disconnected.store(false, Relaxed);
    }

    /// Appends whole lines. Lines that cannot be written to a file are lost; the first failure in a row
    /// is reported in `log`. Lines that a server does not take wait ([`LogFile::claim_retry`]).
    pub fn append(&self, lines: &[u8], log: &Log) {
        let file = self.file.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        match (&self.framing, &*file) {
            (Some(framing), socket) => self.send(socket.as_ref(), framing, lines, log),
            (None, Some(file)) => self.write(file, lines, log),
            (None, None) => {}
        }
    }

    /// Returns true if lines wait and no other thread sends them: the caller must call
    /// [`LogFile::retry`] a little later, again and again, until nothing is left.
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
            Some(socket) => {
                backlog.send(|datagram| match self.send_one(socket, [datagram, b"", b""], log) {
                    Attempt::Sent => true,
                    Attempt::TooLong => {
                        lost += 1;
                        true
                    }
                    Attempt::NotTaken => false,
                })
            }
            None if backlog.is_empty() => Sent::All,
            None => Sent::Nothing,
        };
        (0..lost).for_each(|_| backlog.lose());
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

    /// Sends each line as a datagram. Lines that the server does not take wait.
    fn send(&self, socket: Option<&OwnedFd>, framing: &Framing, lines: &[u8], log: &Log) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let header = framing.header(now);
        let mut lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let datagram = |line| [header.as_bytes(), datagram::cut(line), framing.end()];
        let mut rest = None;
        if let Some(socket) = socket
            && !self.has_backlog.load(Relaxed)
        {
            let mut lost = 0;
            rest = lines.find(|line| match self.send_one(socket, datagram(line), log) {
                Attempt::Sent => false,
                Attempt::TooLong => {
                    lost += 1;
                    false
                }
                Attempt::NotTaken => true,
            });
            if rest.is_none() && lost == 0 {
                return;
            }
            let mut backlog = self.backlog();
            (0..lost).for_each(|_| backlog.lose());
        }
        let mut backlog = self.backlog();
        rest.into_iter().chain(lines).for_each(|line| backlog.push(datagram(line)));
        self.has_backlog.store(!backlog.is_empty(), Relaxed);
        self.report_lost(&mut backlog, Instant::now(), log);
    }

    fn send_one(&self, socket: &OwnedFd, datagram: [&[u8]; 3], log: &Log) -> Attempt {
        let parts = datagram.map(IoSlice::new);
        // An error of a datagram before this one (a port that is closed) is reported with the next; the
        // line itself can be sent then.
        let first = retry_on_intr(|| writev(socket, &parts));
        let sent = match first {
            Err(Errno::CONNREFUSED) => retry_on_intr(|| writev(socket, &parts)),
            sent => sent,
        };
        match sent {
            Ok(_) => {
                if first == Err(Errno::CONNREFUSED) {
                    self.report_refused(Instant::now(), log);
                }
                if self.is_failing.swap(false, Relaxed) {
                    let name = &self.name;
                    log.write(Level::Notice, format_args!("access log {name} takes lines again"));
                }
                Attempt::Sent
            }
            Err(Errno::MSGSIZE) => Attempt::TooLong,
            // The server is slow. That is usual for a moment, and reported if lines are lost.
            Err(Errno::AGAIN | Errno::NOBUFS) => Attempt::NotTaken,
            Err(error) => {
                self.set_disconnected(&error, log);
                Attempt::NotTaken
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

    /// Appends the lines to a file with one write.
    fn write(&self, file: &OwnedFd, lines: &[u8], log: &Log) {
        let mut lead: &[u8] = if self.is_torn.swap(false, Relaxed) { b"\n" } else { b"" };
        let mut rest = lines;
        while !rest.is_empty() {
            // More than one turn only if the disk or a pipe is full.
            let parts = [IoSlice::new(lead), IoSlice::new(rest)];
            let written = match retry_on_intr(|| writev(file, &parts)) {
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
        self.report(error, log);
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

/// Result of sending a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attempt {
    Sent,
    /// The datagram is too long for the socket.
    TooLong,
    NotTaken,
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
        let file = LogFile::new(&Destination::File("log".into()), Some(open(&path)));
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
        let file = LogFile::new(&Destination::File("/dev/full".into()), Some(full.into()));
        let report = dir.path().join("report");
        let log = Log::new(open(&report));
        file.append(b"a\n", &log);
        file.append(b"b\n", &log);
        let text = fs::read_to_string(report).unwrap();
        assert_eq!(text.matches("access log /dev/full: ").count(), 1, "{text}");
    }

    #[test]
    fn each_line_is_a_datagram_and_a_server_that_is_gone_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let server = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
        let client = std::os::unix::net::UnixDatagram::unbound().unwrap();
        client.connect(&path).unwrap();
        client.set_nonblocking(true).unwrap();
        let journal = howdah_config::Journal { identifier: "test".into(), priority: 6 };
        let file = LogFile::new(&Destination::Journal(journal), Some(client.into()));
        file.append(b"one\ntwo\n", &quiet());
        let mut buffer = [0; 100];
        for line in ["one", "two"] {
            let length = server.recv(&mut buffer).unwrap();
            let expected = format!("PRIORITY=6\nSYSLOG_IDENTIFIER=test\nMESSAGE={line}\n");
            assert_eq!(std::str::from_utf8(&buffer[..length]).unwrap(), expected);
        }
        assert!(!file.take_disconnected());
        drop(server);
        file.append(b"lost\n", &quiet());
        assert!(file.take_disconnected());
        assert!(!file.take_disconnected());
    }

    /// The socket of a daemon holds few datagrams, and the daemon is slow.
    #[test]
    fn lines_that_a_server_does_not_take_yet_are_sent_later_in_their_order() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let bind = || {
            let server = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
            let client = std::os::unix::net::UnixDatagram::unbound().unwrap();
            client.connect(&path).unwrap();
            client.set_nonblocking(true).unwrap();
            server.set_nonblocking(true).unwrap();
            (server, OwnedFd::from(client))
        };
        let (server, client) = bind();
        let journal = howdah_config::Journal { identifier: "test".into(), priority: 6 };
        let file = LogFile::new(&Destination::Journal(journal), Some(client));
        let lines: String = (0..2000).map(|number| format!("{number}\n")).collect();
        file.append(lines.as_bytes(), &quiet());
        file.append(b"last\n", &quiet());
        assert!(file.claim_retry() && !file.claim_retry(), "one thread sends them");
        let mut received = Vec::new();
        let mut receive = |server: &std::os::unix::net::UnixDatagram| {
            let mut buffer = [0; 100];
            while let Ok(length) = server.recv(&mut buffer) {
                let text = std::str::from_utf8(&buffer[..length]).unwrap();
                received.push(text.split("MESSAGE=").nth(1).unwrap().trim_end().to_owned());
            }
        };
        receive(&server);
        assert_eq!(file.retry(&quiet()), Sent::Some);
        // The daemon ends without having read everything, and another one begins.
        receive(&server);
        drop(server);
        assert_eq!(file.retry(&quiet()), Sent::Nothing);
        assert!(file.take_disconnected());
        std::fs::remove_file(&path).unwrap();
        let (server, client) = bind();
        file.reopen(client);
        while file.retry(&quiet()) != Sent::All {
            receive(&server);
        }
        receive(&server);
        let numbers = (0..2000).map(|number| number.to_string());
        assert_eq!(received, numbers.chain(["last".to_owned()]).collect::<Vec<_>>());
        assert!(!file.claim_retry());
    }

    #[test]
    fn a_closed_port_is_reported_once() {
        let dir = tempfile::tempdir().unwrap();
        let port = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let client = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        client.connect(port).unwrap();
        client.set_nonblocking(true).unwrap();
        let journal = howdah_config::Journal { identifier: "test".into(), priority: 6 };
        let file = LogFile::new(&Destination::Journal(journal), Some(client.into()));
        let report = dir.path().join("report");
        let log = Log::new(open(&report));
        (0..9).for_each(|_| file.append(b"line\n", &log));
        let text = fs::read_to_string(&report).unwrap();
        assert_eq!(text.matches("no server has the port").count(), 1, "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }

    #[test]
    fn a_server_that_cannot_be_reached_is_reported_until_it_can_be() {
        let dir = tempfile::tempdir().unwrap();
        let (path, report) = (dir.path().join("socket"), dir.path().join("report"));
        let log = Log::new(open(&report));
        let journal = howdah_config::Journal { identifier: "test".into(), priority: 6 };
        let file = LogFile::new(&Destination::Journal(journal), None);
        file.append(b"first\n", &log);
        assert!(file.take_disconnected());
        file.set_disconnected(&"reported by the caller", &log);
        let server = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
        let client = std::os::unix::net::UnixDatagram::unbound().unwrap();
        client.connect(&path).unwrap();
        file.reopen(client.into());
        assert_eq!(file.retry(&log), Sent::All);
        let mut buffer = [0; 100];
        let length = server.recv(&mut buffer).unwrap();
        assert!(buffer[..length].ends_with(b"MESSAGE=first\n"));
        drop(server);
        (0..2).for_each(|_| file.append(b"waits\n", &log));
        file.set_disconnected(&"No such file", &log);
        let text = fs::read_to_string(&report).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[0].contains("takes lines again") && lines.len() == 2, "{text}");
        assert!(lines[1].contains("; lines wait until it can be reached"), "{text}");
    }

    #[test]
    fn a_line_that_was_torn_is_ended_before_the_next() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        rustix::pipe::fcntl_setpipe_size(&writer, 4096).unwrap();
        rustix::fs::fcntl_setfl(&writer, rustix::fs::OFlags::NONBLOCK).unwrap();
        let file = LogFile::new(&Destination::File("pipe".into()), Some(writer));
        file.append(&[&[b'x'; 4999][..], b"\n"].concat(), &quiet());
        let mut buffer = vec![0; 8192];
        assert_eq!(rustix::io::read(&reader, &mut buffer).unwrap(), 4096);
        file.append(b"next\n", &quiet());
        let read = rustix::io::read(&reader, &mut buffer).unwrap();
        assert_eq!(&buffer[..read], b"\nnext\n");
    }
}
