//! The new server, as the one that it replaces sees it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use howdah_launch::open_files;
use howdah_sys::packet::{self, Received};
use howdah_sys::{process, signals};
use howdah_wire::messages::{
    FromSuccessor, HANDOVER_PROTOCOL, MAX_DESCRIPTORS, MAX_MESSAGE, Secret, ToSuccessor,
};

use super::{Invocation, SOCKET, VARIABLE, VERSION, check_protocol};
use crate::memory::memory_file;
use crate::passed_socket::Owner;
use crate::router_link;
use crate::sockets::OpenSocket;

/// Maximum time from the start of the new server until it serves: an application may take a minute
/// to load PHP.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// Maximum time from [`ToSuccessor::TakeOver`] to its answer.
const TAKE_OVER_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum length of the reason for which the document at its source is refused.
const MAX_REASON_BYTES: usize = 4096;

/// A new server.
#[derive(Debug)]
pub(crate) struct Successor {
    pub(crate) pid: u32,
    socket: OwnedFd,
    version: Option<String>,
    /// Time at which the upgrade has failed; `None` once the new server has taken over.
    deadline: Option<Instant>,
    limit: Duration,
    /// The end for this server's router of its socket to the new one.
    router_link: Option<OwnedFd>,
}

/// Everything that the new server gets.
pub(crate) struct State<'a> {
    pub(crate) listeners: Vec<OpenSocket<'a>>,
    pub(crate) document: &'a [u8],
    /// Certificate bundles, encoded.
    pub(crate) bundles: Vec<u8>,
    pub(crate) origin: String,
    /// Since when the document at its source is refused, in seconds since 1970, and why.
    pub(crate) refused: Option<(u64, String)>,
    pub(crate) control: Option<String>,
    pub(crate) running: Vec<String>,
    pub(crate) with_php: Vec<String>,
    pub(crate) control_groups: Vec<String>,
    /// The secret of HTTP/3 in hexadecimal.
    pub(crate) http3_secret: String,
}

/// An answer of the new server.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// No message has arrived.
    None,
    /// The new server serves.
    Ready,
    /// The new server has taken over.
    TookOver,
    /// The new server has closed the listening socket of this address.
    Closed(String),
    /// The new server was told to end; true if it finishes its requests first.
    Stopping(bool),
    /// The new server cannot serve. With the reason.
    Failed(String),
}

impl Successor {
    /// Sends the state, and starts the program. Its standard output and error are `output`, or
    /// those of this process.
    pub(crate) fn start(
        invocation: &Invocation,
        state: &State<'_>,
        output: Option<BorrowedFd<'_>>,
    ) -> Result<Successor, String> {
        let program = invocation.trusted()?;
        let failed = |error: io::Error| format!("cannot start the program: {error}");
        let (ours, theirs) = packet::pair().map_err(|error| failed(error.into()))?;
        let (new, former) = router_link::pair().map_err(failed)?;
        state.send(&ours, new.as_fd()).map_err(failed)?;
        drop(new);
        match process::fork().map_err(failed)? {
            process::Forked::Parent(pid) => {
                let (limit, version) = (START_TIMEOUT, None);
                let deadline = Some(Instant::now() + limit);
                let router_link = Some(former);
                Ok(Successor { pid, socket: ours, version, deadline, limit, router_link })
            }
            process::Forked::Child => {
                signals::reset();
                process::close_on_exec_from(3);
                let own = std::process::id().to_string();
                let prepared = open_files::restore()
                    .map_err(io::Error::from)
                    .and_then(|()| match output {
                        Some(output) => process::set_output_streams(output, output),
                        None => Ok(()),
                    })
                    .and_then(|()| process::duplicate_to(&theirs, SOCKET));
                let error = match prepared {
                    Ok(()) => invocation.execute(&program, (VARIABLE, &own)),
                    Err(error) => error,
                };
                let message = format!("cannot execute {}: {error}", program.display());
                let _ = packet::send(&theirs, &FromSuccessor::Failed { message }.encode(), &[]);
                process::exit_now(127);
            }
        }
    }

    /// Returns the socket, to poll.
    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Returns the version of the new program, as far as it is known.
    pub(crate) fn version(&self) -> &str {
        self.version.as_deref().unwrap_or("of unknown version")
    }

    /// Returns the time at which the upgrade has failed, unless the new server answers before.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.deadline
    }

    /// Returns the reason of the failure once the time is over.
    pub(crate) fn late(&self, now: Instant) -> Option<String> {
        self.deadline.filter(|deadline| *deadline <= now)?;
        Some(format!("the new server did not answer within {} s", self.limit.as_secs()))
    }

    /// Reads the next answer.
    pub(crate) fn answer(&mut self) -> Answer {
        let mut buffer = vec![0; MAX_MESSAGE];
        let mut is_reset = false;
        loop {
            let length = match packet::receive(&self.socket, &mut buffer) {
                Ok(Received::Packet(length, _)) => length,
                // If a process ends with unread messages, the kernel reports that once, before its
                // last answer (ECONNRESET).
                Ok(Received::Closed) if !is_reset => {
                    is_reset = true;
                    continue;
                }
                // SIGCHLD reports its end.
                Ok(Received::Empty | Received::Closed) => return Answer::None,
                Err(error) => return Answer::Failed(format!("cannot read its answer: {error}")),
            };
            let has_greeted = self.version.is_some();
            match FromSuccessor::decode(&buffer[..length]) {
                Ok(FromSuccessor::Hello { protocol, version }) if !has_greeted => {
                    if let Err(problem) = check_protocol(protocol, &version) {
                        return Answer::Failed(problem);
                    }
                    self.version = Some(version);
                }
                Ok(FromSuccessor::Failed { message }) => return Answer::Failed(message),
                Ok(FromSuccessor::Ready {}) if has_greeted => return Answer::Ready,
                Ok(FromSuccessor::Stopping { graceful }) => return Answer::Stopping(graceful),
                Ok(FromSuccessor::Closed { address }) => return Answer::Closed(address),
                Ok(FromSuccessor::TookOver {}) if has_greeted => return Answer::TookOver,
                _ => return Answer::Failed("the new server sent a malformed answer".to_owned()),
            }
        }
    }

    /// Tells the new server to take over. `mail` are the recipients of the applications' mail,
    /// encoded, `usage` the counts of sites.
    pub(crate) fn hand_over(
        &mut self,
        mail: &[u8],
        usage: &[u8],
        now: Instant,
    ) -> Result<(), String> {
        self.limit = TAKE_OVER_TIMEOUT;
        self.deadline = Some(now + self.limit);
        let files =
            memory_file("mail", mail).and_then(|mail| Ok([mail, memory_file("usage", usage)?]));
        let sent = files.and_then(|files| {
            let take_over = ToSuccessor::TakeOver {}.encode();
            let files = files.each_ref().map(AsFd::as_fd);
            packet::send(&self.socket, &take_over, &files).map_err(io::Error::from)
        });
        sent.map_err(|error| format!("cannot tell the new server to take over: {error}"))
    }

    /// Sends counts of sites to the new server, which has taken over.
    pub(crate) fn send_usage(&self, usage: &[u8]) -> io::Result<()> {
        let file = memory_file("usage", usage)?;
        let message = ToSuccessor::Used {}.encode();
        packet::send(&self.socket, &message, &[file.as_fd()]).map_err(io::Error::from)
    }

    /// Records that the new server has taken over.
    pub(crate) fn settle(&mut self) {
        self.deadline = None;
    }

    /// Takes the end for this server's router of its socket to the new one.
    pub(crate) fn take_router_link(&mut self) -> Option<OwnedFd> {
        self.router_link.take()
    }

    /// Ends the new server. Its processes end with it.
    pub(crate) fn kill(&self) {
        let _ = signals::send(self.pid, signals::SIGKILL);
    }
}

/// Shortens a reason: all messages must have room in the socket.
fn shortened(mut reason: String) -> String {
    reason.truncate(reason.floor_char_boundary(MAX_REASON_BYTES));
    reason
}

impl State<'_> {
    /// Sends everything, with the end for the new router of its socket to the current one; it waits in
    /// the socket.
    pub(super) fn send(&self, socket: &OwnedFd, router_link: BorrowedFd<'_>) -> io::Result<()> {
        let send = |message: &ToSuccessor, descriptors: &[BorrowedFd<'_>]| {
            packet::send(socket, &message.encode(), descriptors).map_err(io::Error::from)
        };
        let hello = ToSuccessor::Hello { protocol: HANDOVER_PROTOCOL, version: VERSION.to_owned() };
        send(&hello, &[])?;
        for some in self.listeners.chunks(MAX_DESCRIPTORS) {
            let sockets = some.iter().map(|listening| {
                (listening.name.clone(), listening.owner == Owner::ServiceManager)
            });
            let descriptors: Vec<_> = some.iter().map(|listening| listening.fd).collect();
            send(&ToSuccessor::Listeners { sockets: sockets.collect() }, &descriptors)?;
        }
        if let Some((since, reason)) = self.refused.clone() {
            send(&ToSuccessor::Refused { since, reason: shortened(reason) }, &[])?;
        }
        let document = memory_file("document", self.document)?;
        let bundles = memory_file("certificates", &self.bundles)?;
        let server = ToSuccessor::Server {
            pid: std::process::id(),
            origin: self.origin.clone(),
            control: self.control.clone(),
            running: self.running.clone(),
            with_php: self.with_php.clone(),
            control_groups: self.control_groups.clone(),
            http3_secret: Secret::new(self.http3_secret.clone()),
        };
        send(&server, &[document.as_fd(), bundles.as_fd(), router_link])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates the view of a new server that is played by the test, and its end of the socket.
    fn successor() -> (Successor, OwnedFd) {
        let (socket, theirs) = packet::pair().unwrap();
        let (limit, version) = (START_TIMEOUT, None);
        let deadline = Some(Instant::now() + limit);
        // No process has this id, so signals to it have no effect.
        let (pid, router_link) = (u32::MAX >> 1, None);
        (Successor { pid, socket, version, deadline, limit, router_link }, theirs)
    }

    fn say(socket: &OwnedFd, message: &FromSuccessor) {
        packet::send(socket, &message.encode(), &[]).unwrap();
    }

    fn hello(protocol: u32) -> FromSuccessor {
        FromSuccessor::Hello { protocol, version: "9.1.0".to_owned() }
    }

    #[test]
    fn the_answers_of_a_new_server_are_read_in_their_order() {
        let (mut successor, theirs) = successor();
        assert_eq!(successor.answer(), Answer::None);
        say(&theirs, &hello(HANDOVER_PROTOCOL));
        say(&theirs, &FromSuccessor::Ready {});
        say(&theirs, &FromSuccessor::TookOver {});
        assert_eq!(successor.answer(), Answer::Ready);
        assert_eq!((successor.answer(), successor.version()), (Answer::TookOver, "9.1.0"));
        drop(theirs);
        assert_eq!(successor.answer(), Answer::None, "its end is reported by the kernel");
    }

    #[test]
    fn another_protocol_is_refused_with_both_versions() {
        let (mut successor, theirs) = successor();
        say(&theirs, &hello(HANDOVER_PROTOCOL + 1));
        let Answer::Failed(problem) = successor.answer() else { panic!() };
        assert!(problem.contains("9.1.0") && problem.contains(VERSION), "{problem}");
    }

    #[test]
    fn a_new_server_that_answers_nonsense_is_refused() {
        for bytes in [&b"\xff"[..], &FromSuccessor::Ready {}.encode(), &[0; 5000]] {
            let (mut successor, theirs) = successor();
            packet::send(&theirs, bytes, &[]).unwrap();
            assert!(matches!(successor.answer(), Answer::Failed(_)), "{bytes:?}");
        }
    }

    #[test]
    fn a_new_server_has_a_limited_time_until_it_has_taken_over() {
        let (mut successor, _theirs) = successor();
        let now = Instant::now();
        assert_eq!(successor.late(now), None);
        assert!(successor.late(now + START_TIMEOUT * 2).unwrap().contains("within 120 s"));
        successor.hand_over(&[], &[], now).unwrap();
        assert!(successor.late(now + TAKE_OVER_TIMEOUT).unwrap().contains("within 10 s"));
        successor.settle();
        assert_eq!((successor.late(now + START_TIMEOUT * 2), successor.due()), (None, None));
    }
}
