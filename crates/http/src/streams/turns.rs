//! The order in which the streams of a connection send: by the urgency that the client has
//! requested with the field `Priority` (RFC 9218).
//!
//! A stream waits while a more urgent one sends; if neither of two equally urgent streams is
//! incremental, also while the earlier one sends. A stream that cannot send although the connection
//! can, because its window is closed or its file is on a slow disk, stops the others for
//! [`MAX_STALL`] only.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::Instant;

use crate::timer::Timer;

/// Time for which a stream stops others without sending.
const MAX_STALL: Duration = Duration::from_millis(20);

/// Priority of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Priority {
    /// 0 (most urgent) to 7.
    urgency: u8,
    /// The client can use parts of the response.
    incremental: bool,
}

/// Priority of a request without the field. Incremental in contrast to RFC 9218, 4, so that clients
/// that do not know the field get their responses side by side.
const DEFAULT_PRIORITY: Priority = Priority { urgency: 3, incremental: true };

impl Priority {
    /// Reads the values of `Priority`. Members that are invalid or unknown are ignored.
    pub fn read<'a>(values: impl Iterator<Item = &'a [u8]>) -> Priority {
        let mut priority = None;
        for member in values.flat_map(|value| value.split(|byte| *byte == b',')) {
            let member = member.split(|byte| *byte == b';').next().unwrap_or_default();
            let known = priority.get_or_insert(Priority { incremental: false, ..DEFAULT_PRIORITY });
            match member.trim_ascii() {
                [b'u', b'=', urgency @ b'0'..=b'7'] => known.urgency = urgency - b'0',
                b"i" | b"i=?1" => known.incremental = true,
                b"i=?0" => known.incremental = false,
                _ => {}
            }
        }
        priority.unwrap_or(DEFAULT_PRIORITY)
    }

    /// Returns 0 (most urgent) to 7.
    pub fn urgency(self) -> u8 {
        self.urgency
    }
}

/// Streams of a connection that have a response to send.
#[derive(Debug)]
pub(crate) struct Turns {
    streams: RefCell<Vec<Sending>>,
    /// Time since which the client does not take the output of the connection.
    blocked: Rc<Cell<Option<Instant>>>,
    /// Priorities of streams that have no response yet, which replace those of their heads.
    updates: RefCell<VecDeque<(u64, Priority)>>,
}

/// Maximum number of such priorities; the oldest is forgotten.
const MAX_UPDATES: usize = 100;

#[derive(Debug)]
struct Sending {
    stream: u64,
    priority: Priority,
    /// The stream has bytes to send.
    is_active: bool,
    /// Time since which the stream cannot send.
    stuck: Option<Instant>,
    waker: Option<Waker>,
}

impl Sending {
    /// Returns true if `other` must wait for this stream.
    fn goes_before(&self, other: &Sending) -> bool {
        let in_turn = !self.priority.incremental && !other.priority.incremental;
        match self.priority.urgency.cmp(&other.priority.urgency) {
            std::cmp::Ordering::Less => true,
            std::cmp::Ordering::Equal => in_turn && self.stream < other.stream,
            std::cmp::Ordering::Greater => false,
        }
    }
}

impl Turns {
    /// Creates the state of a connection without streams. `blocked` is set by its transport.
    pub fn new(blocked: Rc<Cell<Option<Instant>>>) -> Rc<Self> {
        Rc::new(Turns { streams: RefCell::default(), blocked, updates: RefCell::default() })
    }

    /// Changes the priority of a stream, whether its response is being sent or not yet.
    pub fn update(&self, stream: u64, priority: Priority) {
        if let Some(sending) =
            self.streams.borrow_mut().iter_mut().find(|other| other.stream == stream)
        {
            sending.priority = priority;
            return;
        }
        let mut updates = self.updates.borrow_mut();
        updates.retain(|(other, _)| *other != stream);
        if updates.len() == MAX_UPDATES {
            updates.pop_front();
        }
        updates.push_back((stream, priority));
    }

    /// Takes the priority of a stream that has replaced that of its head.
    fn take_update(&self, stream: u64) -> Option<Priority> {
        let mut updates = self.updates.borrow_mut();
        let at = updates.iter().position(|(other, _)| *other == stream)?;
        updates.remove(at).map(|(_, priority)| priority)
    }

    /// Returns two flags: the stream has its turn; another stream is stuck, so the first may change
    /// without an event.
    fn look(&self, stream: u64, now: Instant) -> (bool, bool) {
        let streams = self.streams.borrow();
        let Some(own) = streams.iter().find(|other| other.stream == stream) else {
            return (true, false);
        };
        let stuck = |other: &Sending| other.stuck.is_some_and(|since| now - since >= MAX_STALL);
        let can_write = self.blocked.get().is_none();
        let before = || streams.iter().filter(|other| other.is_active && other.goes_before(own));
        let waits = before().any(|other| !(can_write && stuck(other)));
        (!waits, before().any(|other| other.stuck.is_some()))
    }
}

/// The turn of a stream, until dropped.
pub(crate) struct Turn {
    turns: Rc<Turns>,
    stream: u64,
    timer: Timer,
}

impl Turn {
    /// Registers a stream.
    pub fn new(turns: &Rc<Turns>, stream: u64, priority: Priority) -> Self {
        let priority = turns.take_update(stream).unwrap_or(priority);
        let sending = Sending { stream, priority, is_active: false, stuck: None, waker: None };
        turns.streams.borrow_mut().push(sending);
        Turn { turns: Rc::clone(turns), stream, timer: Timer::default() }
    }

    fn own<T>(&self, f: impl FnOnce(&mut Sending) -> T) -> Option<T> {
        let mut streams = self.turns.streams.borrow_mut();
        streams.iter_mut().find(|other| other.stream == self.stream).map(f)
    }

    /// Records that the stream has bytes to send: less urgent streams wait.
    pub fn begin(&self) {
        self.own(|own| own.is_active = true);
    }

    /// Records that the stream has no bytes to send for now.
    pub fn pause(&self) {
        self.own(|own| (own.is_active, own.stuck) = (false, None));
        self.wake_others();
    }

    /// Records that the stream cannot send, or that it can again.
    pub fn set_stuck(&self, is_stuck: bool) {
        self.own(|own| {
            own.stuck = if is_stuck { own.stuck.or_else(|| Some(Instant::now())) } else { None };
        });
    }

    /// Waits until no other stream goes before this one.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let now = Instant::now();
        let (has_turn, is_soon) = self.turns.look(self.stream, now);
        if has_turn {
            return Poll::Ready(());
        }
        self.own(|own| own.waker = Some(cx.waker().clone()));
        // No event tells that another stream is stuck.
        let recheck = if is_soon { MAX_STALL } else { 10 * MAX_STALL };
        if self.timer.poll(cx, now + recheck).is_ready() {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }

    fn wake_others(&self) {
        let mut streams = self.turns.streams.borrow_mut();
        streams.iter_mut().filter_map(|other| other.waker.take()).for_each(Waker::wake);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.turns.streams.borrow_mut().retain(|other| other.stream != self.stream);
        self.wake_others();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(values: &[&str]) -> (u8, bool) {
        let priority = Priority::read(values.iter().map(|value| value.as_bytes()));
        (priority.urgency, priority.incremental)
    }

    #[test]
    fn what_the_field_says_is_read_and_the_rest_ignored() {
        assert_eq!(read(&[]), (3, true), "nothing was said");
        assert_eq!(read(&["u=1"]), (1, false));
        assert_eq!(read(&["u=7, i"]), (7, true));
        assert_eq!(read(&["i;x=1", " u=0;y"]), (0, true));
        assert_eq!(read(&["u=5,i=?0"]), (5, false));
        for odd in ["", "u=8", "u=-1", "u=1.0", "u=", "U=1", "=", ",,;", "\u{80}"] {
            assert_eq!(read(&[odd]), (3, false), "{odd:?}");
        }
    }

    fn turn(turns: &Rc<Turns>, stream: u64, value: &str) -> Turn {
        let turn = Turn::new(turns, stream, Priority::read(std::iter::once(value.as_bytes())));
        turn.begin();
        turn
    }

    fn order(turns: &Rc<Turns>, streams: &[u64]) -> Vec<bool> {
        streams.iter().map(|stream| turns.look(*stream, Instant::now()).0).collect()
    }

    #[tokio::test]
    async fn the_most_urgent_goes_first_and_equals_in_turn_or_side_by_side() {
        let turns = Turns::new(Rc::default());
        let late = turn(&turns, 1, "u=5");
        let (first, second) = (turn(&turns, 3, "u=2"), turn(&turns, 5, "u=2"));
        let pieces = turn(&turns, 7, "u=2, i");
        assert_eq!(order(&turns, &[1, 3, 5, 7]), [false, true, false, true]);
        first.pause();
        assert_eq!(order(&turns, &[1, 5, 7]), [false, true, true]);
        drop((second, pieces));
        assert_eq!(order(&turns, &[1]), [true]);
        first.begin();
        assert_eq!(order(&turns, &[1]), [false]);
        drop((first, late));
        assert!(turns.streams.borrow().is_empty());
    }

    #[tokio::test]
    async fn a_client_changes_priorities_before_and_while_it_is_answered() {
        let turns = Turns::new(Rc::default());
        let read = |value: &str| Priority::read(std::iter::once(value.as_bytes()));
        turns.update(4, read("u=7"));
        turns.update(4, read("u=0"));
        let (_first, _second) = (turn(&turns, 0, "u=3"), turn(&turns, 4, "u=5"));
        assert_eq!(order(&turns, &[0, 4]), [false, true]);
        turns.update(4, read("u=6"));
        assert_eq!(order(&turns, &[0, 4]), [true, false]);
        assert!(turns.updates.borrow().is_empty());
        (0..1000).for_each(|stream| turns.update(stream * 4 + 8, read("u=1")));
        assert_eq!(turns.updates.borrow().len(), MAX_UPDATES);
    }

    #[tokio::test]
    async fn one_that_is_stuck_is_passed_by_unless_nobody_could_send() {
        let blocked = Rc::new(Cell::new(None));
        let turns = Turns::new(Rc::clone(&blocked));
        let (urgent, _other) = (turn(&turns, 1, "u=0"), turn(&turns, 3, "u=6"));
        urgent.set_stuck(true);
        let later = Instant::now() + MAX_STALL;
        assert!(!turns.look(3, Instant::now() - MAX_STALL / 2).0, "not at once");
        assert!(turns.look(3, later).0);
        blocked.set(Some(Instant::now()));
        assert!(!turns.look(3, later).0, "the connection itself is busy");
        blocked.set(None);
        urgent.set_stuck(false);
        assert!(!turns.look(3, later).0);
    }
}
