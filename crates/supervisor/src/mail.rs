//! Mail of applications: the connections of their scripts to the mail process, and that process.
//!
//! An application has one end of a packet socket, on which it can receive alone. Its packets are
//! connections: the application's ends of two pipes. One connection is unused at any time. When
//! bytes are written to it, the supervisor passes the other ends to the mail process, with the name
//! of the application, and offers the next one. So the mail process has no socket of a script,
//! which could send descriptors, and a script cannot choose in whose name it writes.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use howdah_sys::log::Log;
use howdah_sys::{machine, packet, pipe};
use howdah_wire::messages::ToMail;

use crate::options::Options;
use crate::unprivileged::{self, Kind};

/// Maximum number of messages of an application that are sent at the same time; others wait. Mail
/// servers limit the connections of a client.
const MAX_IN_PROGRESS: u32 = 8;

/// Minimum time between two connections, so that a script which uses one after the other does not
/// occupy the supervisor.
const OFFER_INTERVAL: Duration = Duration::from_millis(5);

/// The server's ends of a connection.
#[derive(Debug)]
pub(crate) struct Connection {
    /// The pipe that the script writes to.
    pub(crate) requests: OwnedFd,
    /// The pipe that it reads.
    pub(crate) answers: OwnedFd,
}

/// The connections of an application.
#[derive(Debug)]
pub(crate) struct Submissions {
    socket: OwnedFd,
    /// The unused connection.
    next: Option<Connection>,
    in_progress: u32,
    /// Earliest time of the next connection.
    next_offer: Instant,
    /// Name of the application's user.
    pub(crate) user: String,
}

impl Submissions {
    /// Creates the socket. Returns the application's end, too.
    pub(crate) fn new(user: String, now: Instant) -> io::Result<(Submissions, OwnedFd)> {
        let (socket, theirs) = packet::one_way()?;
        let mut submissions =
            Submissions { socket, next: None, in_progress: 0, next_offer: now, user };
        submissions.offer()?;
        Ok((submissions, theirs))
    }

    /// Returns a descriptor to poll: readable when the connection is used.
    pub(crate) fn waiting(&self) -> Option<BorrowedFd<'_>> {
        self.next.as_ref().map(|next| next.requests.as_fd())
    }

    /// Takes the connection, which is readable; `None` if it was closed without use.
    pub(crate) fn take(&mut self, now: Instant) -> Option<Connection> {
        let taken = self.next.take()?;
        self.next_offer = now + OFFER_INTERVAL;
        let is_used = rustix::io::ioctl_fionread(&taken.requests).is_ok_and(|bytes| bytes > 0);
        is_used.then(|| {
            self.in_progress += 1;
            taken
        })
    }

    /// A message was sent, or has failed.
    pub(crate) fn ended(&mut self) {
        self.in_progress = self.in_progress.saturating_sub(1);
    }

    /// Returns the time of the next connection; `None` if there is one, or none may follow yet.
    pub(crate) fn due(&self) -> Option<Instant> {
        (self.next.is_none() && self.in_progress < MAX_IN_PROGRESS).then_some(self.next_offer)
    }

    /// Offers the next connection if it is due.
    pub(crate) fn step(&mut self, now: Instant) {
        if self.due().is_some_and(|due| due <= now) && self.offer().is_err() {
            // Descriptors are short, or the application is about to end.
            self.next_offer = now + Duration::from_secs(1);
        }
    }

    fn offer(&mut self) -> io::Result<()> {
        let (requests, writing) = pipe::new()?;
        let (reading, answers) = pipe::new()?;
        packet::send(&self.socket, b"c", &[writing.as_fd(), reading.as_fd()])?;
        self.next = Some(Connection { requests, answers });
        Ok(())
    }
}

/// A running mail process.
#[derive(Debug)]
pub(crate) struct MailProcess {
    pub(crate) pid: u32,
    pub(crate) socket: OwnedFd,
    pub(crate) started: Instant,
}

/// Starts the mail process.
pub(crate) fn start(options: &Options, log: &Log, now: Instant) -> io::Result<MailProcess> {
    let (pid, socket) = unprivileged::start(Kind::Mail, options, log)?;
    let hello = ToMail::Hello { sandbox: options.sandbox, host: machine::name() };
    packet::send(&socket, &hello.encode(), &[])?;
    Ok(MailProcess { pid, socket, started: now })
}

#[cfg(test)]
mod tests {
    use howdah_sys::packet::Received;

    use super::*;

    fn connection(socket: &OwnedFd) -> Option<Vec<OwnedFd>> {
        match packet::receive(socket, &mut [0; 16]).unwrap() {
            Received::Packet(_, descriptors) => Some(descriptors),
            _ => None,
        }
    }

    #[test]
    fn there_is_one_unused_connection_and_a_limit_for_used_ones() {
        let mut now = Instant::now();
        let (mut submissions, theirs) = Submissions::new("www".to_owned(), now).unwrap();
        let mut used = Vec::new();
        for _ in 0..MAX_IN_PROGRESS {
            let ends = connection(&theirs).unwrap();
            assert!(connection(&theirs).is_none(), "one at a time");
            rustix::io::write(&ends[0], b"x").unwrap();
            used.push((ends, submissions.take(now).unwrap()));
            submissions.step(now);
            assert!(submissions.waiting().is_none(), "not at once");
            now += OFFER_INTERVAL;
            submissions.step(now);
        }
        assert!(submissions.waiting().is_none() && submissions.due().is_none());
        submissions.ended();
        submissions.step(now);
        assert!(submissions.waiting().is_some());
        // A program has taken it, and has ended.
        drop(connection(&theirs));
        assert!(submissions.take(now).is_none());
        now += OFFER_INTERVAL;
        submissions.step(now);
        assert!(connection(&theirs).is_some());
    }

    #[test]
    fn a_script_can_send_nothing_to_the_supervisor() {
        let (submissions, theirs) = Submissions::new(String::new(), Instant::now()).unwrap();
        assert!(packet::send(&theirs, b"x", &[theirs.as_fd()]).is_err());
        drop(submissions);
    }
}
