//! A zygote: a process that has started PHP once, and forks the prototypes of several applications.
//!
//! The zygote is the program `howdah-php`, with the server's own user and the right to become the
//! users of applications. It runs no script. A prototype that it has forked is a child of the
//! supervisor, as an executed one is, and continues if the zygote ends.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use howdah_launch::open_files;
use howdah_sys::process::{self, Forked};
use howdah_sys::{packet, pipe, process_tree, signals};
use howdah_wire::messages::{FromZygote, MAX_REPORT, ToZygote};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::output::Output;

/// Time within which a zygote must have started PHP.
const LOAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Time within which a zygote must have forked. The supervisor waits for that.
const FORK_TIMEOUT: Duration = Duration::from_secs(1);

/// Interval at which a zygote that has not answered is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// A zygote that runs.
#[derive(Debug)]
pub(crate) struct Zygote {
    pub(crate) pid: u32,
    /// The socket that carries requests to the zygote.
    requests: OwnedFd,
    /// The pipe that carries its replies.
    replies: OwnedFd,
    reader: pipe::Reader,
    pub(crate) output: Option<Output>,
    pub(crate) started: Instant,
    /// PHP is loaded: the zygote can fork.
    pub(crate) is_ready: bool,
}

/// A report of a zygote.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// No message yet.
    Empty,
    /// PHP is loaded.
    Ready,
    /// Its forks could not run applications, for this reason; it ends.
    Unfit(String),
    /// The zygote has exited or violated the protocol.
    Closed,
}

/// Reason why a prototype was not forked.
#[derive(Debug)]
pub(crate) enum ForkFailure {
    /// A file has changed that PHP was started from; the zygote ends.
    Outdated,
    /// The zygote works, but there is no process.
    Refused(String),
    /// The zygote does not work.
    Broken(String),
}

impl Zygote {
    /// Starts a zygote, which then loads PHP. `user` is the user and group id that it changes to.
    pub(crate) fn start(
        executable: &File,
        version: &str,
        user: Option<u32>,
        ini_file: Option<String>,
    ) -> io::Result<Self> {
        let (output, writer) = Output::new()?;
        let (requests, socket) = packet::one_way()?;
        let (replies, replying) = pipe::new()?;
        let pid = match process::fork()? {
            Forked::Parent(pid) => pid,
            Forked::Child => {
                let error = execute(executable, version, &socket, &replying, &writer);
                eprintln!("howdah: cannot start a zygote: {error}");
                process::exit_now(127);
            }
        };
        packet::send(&requests, &ToZygote::Load { user, ini_file }.encode(), &[])?;
        let reader = pipe::Reader::new(MAX_REPORT);
        let (output, started) = (Some(output), Instant::now());
        Ok(Zygote { pid, requests, replies, reader, output, started, is_ready: false })
    }

    /// Returns the pipe of replies, to poll.
    pub(crate) fn replies(&self) -> BorrowedFd<'_> {
        self.replies.as_fd()
    }

    /// Returns the time at which a zygote that has not loaded PHP is killed.
    pub(crate) fn due(&self) -> Option<Instant> {
        (!self.is_ready).then(|| self.started + LOAD_TIMEOUT)
    }

    /// Takes the next report about the zygote itself.
    pub(crate) fn next_report(&mut self) -> Report {
        match self.receive() {
            Ok(None) => Report::Empty,
            Ok(Some(FromZygote::Ready {})) if !self.is_ready => {
                self.is_ready = true;
                Report::Ready
            }
            Ok(Some(FromZygote::Unfit { reason })) => Report::Unfit(reason),
            _ => Report::Closed,
        }
    }

    /// Forks a prototype. `descriptors` are its socket of requests, its pipe of reports and the
    /// pipe of its output. Returns the process id.
    pub(crate) fn fork(&mut self, descriptors: [BorrowedFd<'_>; 3]) -> Result<u32, ForkFailure> {
        let broken = |error: io::Error| ForkFailure::Broken(error.to_string());
        packet::send(&self.requests, &ToZygote::Fork {}.encode(), &descriptors)
            .map_err(|error| broken(error.into()))?;
        let deadline = Instant::now() + FORK_TIMEOUT;
        loop {
            match self.receive().map_err(broken)? {
                Some(FromZygote::Forked { pid }) if is_child(pid) => return Ok(pid),
                Some(FromZygote::NotForked { message }) => {
                    return Err(ForkFailure::Refused(message));
                }
                Some(FromZygote::Outdated {}) => return Err(ForkFailure::Outdated),
                Some(_) => return Err(ForkFailure::Broken("it sent a wrong reply".to_owned())),
                None => {}
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ForkFailure::Broken("it does not answer".to_owned()));
            }
            let step = left.min(CHECK_INTERVAL).subsec_nanos().max(1);
            let step = Timespec { tv_sec: 0, tv_nsec: i64::from(step) };
            let answered = poll(&mut [PollFd::new(&self.replies, PollFlags::IN)], Some(&step));
            if answered == Ok(0) && process_tree::state_of(self.pid) == Some(b'T') {
                return Err(ForkFailure::Broken("it was stopped by a signal".to_owned()));
            }
        }
    }

    fn receive(&mut self) -> io::Result<Option<FromZygote>> {
        match self.reader.receive(&self.replies)? {
            pipe::Received::Message(message) => match FromZygote::decode(&message) {
                Ok(message) => Ok(Some(message)),
                Err(_) => Err(io::Error::other("it sent a malformed reply")),
            },
            pipe::Received::Empty => Ok(None),
            pipe::Received::Closed => Err(io::Error::other("it has ended")),
        }
    }

    /// Kills the zygote. SIGCHLD reports its end.
    pub(crate) fn kill(&self) {
        let _ = signals::send(self.pid, signals::SIGKILL);
    }
}

/// Returns true if a process is a child of this one; the zygote is not trusted with signals to
/// any process that it names.
fn is_child(pid: u32) -> bool {
    process_tree::parent_of(pid) == Some(std::process::id())
}

/// Executes the program in the new process. Until then this is a copy of the supervisor and, like
/// it, cannot be traced.
fn execute(
    executable: &File,
    version: &str,
    socket: &OwnedFd,
    replies: &OwnedFd,
    output: &OwnedFd,
) -> io::Error {
    let prepare = || -> io::Result<File> {
        signals::reset();
        // Low numbers are about to be replaced.
        let high = |fd: BorrowedFd<'_>| rustix::io::fcntl_dupfd_cloexec(fd, 10);
        let (executable, output) = (high(executable.as_fd())?, high(output.as_fd())?);
        let (socket, replies) = (high(socket.as_fd())?, high(replies.as_fd())?);
        process::close_on_exec_from(3);
        process::set_standard_streams(output.as_fd(), output.as_fd())?;
        process::duplicate_to(&socket, 3)?;
        process::duplicate_to(&replies, 4)?;
        rustix::process::setsid()?;
        open_files::restore()?;
        Ok(executable.into())
    };
    match prepare() {
        Ok(executable) => {
            let title = format!("howdah: PHP {version} zygote");
            // Spaces reserve room for the titles of prototypes and workers.
            let room = " ".repeat(TITLE_ROOM);
            process::exec_file(&executable, &[title.as_str(), "zygote", room.as_str()], &[])
        }
        Err(error) => error,
    }
}

/// Length of the longest title of a prototype that is shown whole, in bytes.
const TITLE_ROOM: usize = 200;

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    /// A zygote that never answers by itself, its process, and the end to answer with.
    fn silent() -> (Zygote, Child, OwnedFd) {
        let process = Command::new("sleep").arg("100").spawn().unwrap();
        let (requests, _) = packet::pair().unwrap();
        let (replies, replying) = pipe::new().unwrap();
        let reader = pipe::Reader::new(MAX_REPORT);
        let (pid, started) = (process.id(), Instant::now());
        let zygote =
            Zygote { pid, requests, replies, reader, output: None, started, is_ready: true };
        (zygote, process, replying)
    }

    /// The result of a fork if the zygote answers with these messages.
    fn fork(answers: &[FromZygote]) -> Result<u32, ForkFailure> {
        let (mut zygote, mut process, replying) = silent();
        let (requests, _theirs) = packet::pair().unwrap();
        zygote.requests = requests;
        for answer in answers {
            pipe::send(&replying, &answer.encode()).unwrap();
        }
        let null = File::open("/dev/null").unwrap();
        let result = zygote.fork([null.as_fd(); 3]);
        process.kill().unwrap();
        process.wait().unwrap();
        result
    }

    #[test]
    fn only_a_child_of_the_supervisor_is_taken_for_a_prototype() {
        let mut child = Command::new("sleep").arg("100").spawn().unwrap();
        assert_eq!(fork(&[FromZygote::Forked { pid: child.id() }]).unwrap(), child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        for pid in [1, std::process::id(), 0, u32::MAX] {
            let result = fork(&[FromZygote::Forked { pid }]);
            assert!(matches!(result, Err(ForkFailure::Broken(_))), "{pid}: {result:?}");
        }
    }

    #[test]
    fn a_zygote_that_refuses_is_told_from_one_that_does_not_work() {
        let refused = fork(&[FromZygote::NotForked { message: "no memory".to_owned() }]);
        assert!(matches!(refused, Err(ForkFailure::Refused(message)) if message == "no memory"));
        assert!(matches!(fork(&[FromZygote::Outdated {}]), Err(ForkFailure::Outdated)));
        assert!(matches!(fork(&[FromZygote::Ready {}]), Err(ForkFailure::Broken(_))));
    }

    #[test]
    fn the_supervisor_does_not_wait_for_a_zygote_that_is_gone_or_silent() {
        let (mut zygote, mut process, replying) = silent();
        let null = File::open("/dev/null").unwrap();
        // The other end of the requests is closed.
        let result = zygote.fork([null.as_fd(); 3]);
        assert!(matches!(result, Err(ForkFailure::Broken(_))), "{result:?}");
        assert!(
            matches!(fork(&[]), Err(ForkFailure::Broken(reason)) if reason == "it does not answer")
        );
        drop(replying);
        process.kill().unwrap();
        process.wait().unwrap();
        assert_eq!(zygote.next_report(), Report::Closed);
    }
}
