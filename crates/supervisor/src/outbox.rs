//! The queue of messages for the router that wait until its socket has room.
//!
//! A busy router loses no messages; a router that does not read for [`READ_TIMEOUT`] is stuck. The
//! messages about each application are limited: the caller ends an application that exceeds its
//! limit, and the others are not affected.

use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use howdah_sys::packet;
use howdah_wire::messages::FromSupervisor;
use rustix::event::PollFlags;
use rustix::io::Errno;

/// Time within which the router must read a message.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// Interval between attempts if the kernel does not report when there is room: the number of a
/// user's descriptors in transit is limited too.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// Maximum number of messages and bytes that are queued about one application.
const MAX_PER_APPLICATION: Size = Size { messages: 4096, bytes: 1 << 20 };

/// Maximum number of messages and bytes in the queue. Beyond it the router's own messages are not
/// read.
const MAX_TOTAL: Size = Size { messages: 16_384, bytes: 16 << 20 };

/// The queue of messages for the router.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    waiting: VecDeque<Waiting>,
    size: Size,
    of_applications: HashMap<u32, Size>,
    /// Time at which the socket became full; `None` if it has room.
    blocked_since: Option<Instant>,
    /// Time of the next attempt although poll does not report room.
    retry_at: Option<Instant>,
}

#[derive(Debug)]
struct Waiting {
    application: Option<u32>,
    packet: Vec<u8>,
    descriptors: Vec<OwnedFd>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Size {
    messages: usize,
    bytes: usize,
}

impl Size {
    fn exceeds(self, limit: Size) -> bool {
        self.messages > limit.messages || self.bytes > limit.bytes
    }

    fn add(&mut self, bytes: usize) {
        self.messages += 1;
        self.bytes += bytes;
    }

    fn remove(&mut self, bytes: usize) {
        self.messages = self.messages.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

/// Reason why a message was neither sent nor queued.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SendError {
    /// The messages about this application exceed their limit, and were removed from the queue.
    OverLimit(u32),
    /// The socket is broken.
    Broken(Errno),
}

impl Outbox {
    /// Sends a message, or queues it behind the others. Never blocks.
    pub(crate) fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        message: &FromSupervisor,
        descriptors: &[BorrowedFd<'_>],
        now: Instant,
    ) -> Result<(), SendError> {
        let packet = message.encode();
        if self.waiting.is_empty() {
            match packet::send(socket, &packet, descriptors) {
                Ok(()) => return Ok(()),
                Err(error) => self.blocked(error, now).map_err(SendError::Broken)?,
            }
        }
        let application = application_of(message);
        if let Some(application) = application {
            let size = self.of_applications.entry(application).or_default();
            size.add(packet.len());
            // `Ended` must be sent in any case, and is sent once.
            if size.exceeds(MAX_PER_APPLICATION) && !matches!(message, FromSupervisor::Ended { .. })
            {
                self.forget(application);
                return Err(SendError::OverLimit(application));
            }
        }
        let owned: Result<Vec<_>, _> =
            descriptors.iter().map(|fd| fd.try_clone_to_owned()).collect();
        let descriptors = match (owned, application) {
            (Ok(owned), _) => owned,
            (Err(_), Some(application)) => {
                self.forget(application);
                return Err(SendError::OverLimit(application));
            }
            (Err(_), None) => return Err(SendError::Broken(Errno::MFILE)),
        };
        self.size.add(packet.len());
        self.waiting.push_back(Waiting { application, packet, descriptors });
        Ok(())
    }

    /// Sends queued messages, as far as there is room.
    pub(crate) fn flush(&mut self, socket: BorrowedFd<'_>, now: Instant) -> Result<(), Errno> {
        while let Some(next) = self.waiting.front() {
            let descriptors: Vec<_> = next.descriptors.iter().map(AsFd::as_fd).collect();
            if let Err(error) = packet::send(socket, &next.packet, &descriptors) {
                return self.blocked(error, now);
            }
            (self.blocked_since, self.retry_at) = (None, None);
            if let Some(sent) = self.waiting.pop_front() {
                self.count_out(&sent);
            }
        }
        Ok(())
    }

    /// Records that the socket is full. Returns errors that are not temporary.
    fn blocked(&mut self, error: Errno, now: Instant) -> Result<(), Errno> {
        match error {
            Errno::AGAIN => self.retry_at = None,
            Errno::TOOMANYREFS | Errno::NOBUFS | Errno::NOMEM => {
                self.retry_at = Some(now + RETRY_INTERVAL)
            }
            error => return Err(error),
        }
        self.blocked_since.get_or_insert(now);
        Ok(())
    }

    fn count_out(&mut self, message: &Waiting) {
        let bytes = message.packet.len();
        self.size.remove(bytes);
        let Some(application) = message.application else { return };
        if let Some(size) = self.of_applications.get_mut(&application) {
            size.remove(bytes);
            if size.messages == 0 {
                self.of_applications.remove(&application);
            }
        }
    }

    /// Removes the messages about an application from the queue.
    fn forget(&mut self, application: u32) {
        let all = std::mem::take(&mut self.waiting);
        let (dropped, kept) = all
            .into_iter()
            .partition::<Vec<_>, _>(|waiting| waiting.application == Some(application));
        self.waiting = kept.into();
        dropped.iter().for_each(|message| self.size.remove(message.packet.len()));
        self.of_applications.remove(&application);
        if self.waiting.is_empty() {
            (self.blocked_since, self.retry_at) = (None, None);
        }
    }

    /// Returns true if no message is queued.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns the events of the socket to poll for: room, if messages are queued, and messages of
    /// the router, unless [`Outbox::is_full`].
    pub(crate) fn poll_flags(&self) -> PollFlags {
        let room = !self.is_empty() && self.retry_at.is_none();
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, !self.is_full());
        flags.set(PollFlags::OUT, room);
        flags
    }

    /// Returns true if the caller must not read messages of the router until it has read some of
    /// the queue.
    pub(crate) fn is_full(&self) -> bool {
        self.size.exceeds(MAX_TOTAL)
    }

    /// Returns the time of the next call of [`Outbox::flush`] and [`Outbox::is_stuck`] although the
    /// socket is not writable.
    pub(crate) fn due(&self) -> Option<Instant> {
        let stuck = self.blocked_since.map(|since| since + READ_TIMEOUT);
        stuck.into_iter().chain(self.retry_at).min()
    }

    /// Returns true if the router has not read for too long.
    pub(crate) fn is_stuck(&self, now: Instant) -> bool {
        self.blocked_since.is_some_and(|since| now.saturating_duration_since(since) >= READ_TIMEOUT)
    }
}

/// Returns the application that a message is about.
fn application_of(message: &FromSupervisor) -> Option<u32> {
    match message {
        FromSupervisor::Ready { application, .. }
        | FromSupervisor::Ended { application, .. }
        | FromSupervisor::Started { application, .. }
        | FromSupervisor::NotStarted { application, .. }
        | FromSupervisor::Died { application, .. }
        | FromSupervisor::Traced { application, .. }
        | FromSupervisor::Measured { application, .. } => Some(*application),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use howdah_sys::packet::Received;
    use howdah_wire::messages::Problem;

    use super::*;

    fn not_started(application: u32, text: &str) -> FromSupervisor {
        FromSupervisor::NotStarted { application, is_temporary: false, message: text.to_owned() }
    }

    fn read(socket: &OwnedFd) -> Option<FromSupervisor> {
        let mut buffer = vec![0; 1 << 17];
        match packet::receive(socket, &mut buffer).unwrap() {
            Received::Packet(length, _) => Some(FromSupervisor::decode(&buffer[..length]).unwrap()),
            _ => None,
        }
    }

    #[test]
    fn a_router_that_is_busy_for_a_moment_loses_nothing_and_keeps_the_order() {
        let (ours, theirs) = packet::pair().unwrap();
        let (mut outbox, now) = (Outbox::default(), Instant::now());
        let count = 2000;
        for index in 0..count {
            let message = not_started(index, "x");
            assert_eq!(outbox.send(ours.as_fd(), &message, &[theirs.as_fd()], now), Ok(()));
        }
        assert!(!outbox.is_empty() && !outbox.is_stuck(now + READ_TIMEOUT / 2));
        for index in 0..count {
            outbox.flush(ours.as_fd(), now).unwrap();
            assert_eq!(read(&theirs), Some(not_started(index, "x")));
        }
        assert!(outbox.is_empty() && outbox.of_applications.is_empty());
        assert_eq!((outbox.size, outbox.due()), (Size::default(), None));
    }

    #[test]
    fn one_application_cannot_fill_it_for_the_others() {
        let (ours, theirs) = packet::pair().unwrap();
        let (mut outbox, now) = (Outbox::default(), Instant::now());
        let text = "x".repeat(1000);
        let other = not_started(2, "other");
        let mut send = |message: &FromSupervisor| outbox.send(ours.as_fd(), message, &[], now);
        let refused = (0..100_000).find_map(|_| send(&not_started(1, &text)).err());
        assert_eq!(refused, Some(SendError::OverLimit(1)));
        assert_eq!((outbox.due(), outbox.size), (None, Size::default()), "nobody waits any more");
        let mut send = |message: &FromSupervisor| outbox.send(ours.as_fd(), message, &[], now);
        let ended = FromSupervisor::Ended { application: 1, problem: Problem::of(text) };
        assert_eq!((send(&other), send(&ended)), (Ok(()), Ok(())));
        assert!(outbox.waiting.len() == 2 && !outbox.is_full());
        let mut seen = Vec::new();
        while !outbox.is_empty() {
            while let Some(message) = read(&theirs) {
                seen.push(message);
            }
            outbox.flush(ours.as_fd(), now).unwrap();
        }
        seen.extend(std::iter::from_fn(|| read(&theirs)));
        assert!(seen.ends_with(&[other, ended]));
    }

    #[test]
    fn a_router_that_reads_nothing_is_given_up_in_the_end() {
        let (ours, theirs) = packet::pair().unwrap();
        let (mut outbox, now) = (Outbox::default(), Instant::now());
        let message = FromSupervisor::Reopened {};
        while outbox.is_empty() {
            outbox.send(ours.as_fd(), &message, &[], now).unwrap();
        }
        let later = now + READ_TIMEOUT;
        assert_eq!(outbox.due(), Some(later));
        assert!(!outbox.is_stuck(later - RETRY_INTERVAL) && outbox.is_stuck(later));
        // Reading one message is enough to start the time anew.
        assert_eq!(read(&theirs), Some(message.clone()));
        outbox.flush(ours.as_fd(), later).unwrap();
        assert!(!outbox.is_stuck(later));
        drop(theirs);
        while outbox.is_empty() {
            let Err(gone) = outbox.send(ours.as_fd(), &message, &[], later) else { continue };
            assert!(matches!(gone, SendError::Broken(_)), "{gone:?}");
            return;
        }
    }
}
