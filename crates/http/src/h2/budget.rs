//! What frames of a client cost and what is done for it earns, so that one that only has frames read
//! and answered is told to calm down (CVE-2019-9511 to 9518, CVE-2025-8671).
//!
//! A frame costs about its part of the processor's time: a PING 1, a request's head more. Requests
//! that are answered, bodies that come and bodies that go earn what an honest client needs for them,
//! and more: whoever answers each DATA with two WINDOW_UPDATE, gives up what it has asked for, or
//! thinks aloud about priorities is never short of it. Time earns a little too, for those
//! who do nothing for hours but to ask whether we are still there.

use std::cell::Cell;
use std::time::Duration;

use http::HeaderMap;
use tokio::time::Instant;

use super::frames::{CONTINUATION, DATA, Frame, HEADERS, PADDED, SETTINGS};

/// What a connection begins with, and what time earns at most.
const ALLOWANCE: i64 = 1000;

/// Time earns one in this.
const REFILL: Duration = Duration::from_millis(10);

/// What can be earned beyond what was spent: acknowledgements of what is on its way may come together.
const MOST: i64 = 100_000;

/// What a request earns beside the size of its head: that it may be given up, moved in the order of
/// priorities, and its windows be changed.
const REQUEST: i64 = 20;

/// So many bytes of a head or of a body are worth one.
const BYTES: usize = 64;

/// What types of frames are called, in their order; the last is for all others.
const NAMES: [&str; 11] = [
    "DATA",
    "HEADERS",
    "PRIORITY",
    "RST_STREAM",
    "SETTINGS",
    "PUSH_PROMISE",
    "PING",
    "GOAWAY",
    "WINDOW_UPDATE",
    "CONTINUATION",
    "extension",
];

/// What a connection has earned and not spent.
#[derive(Debug)]
pub(super) struct Budget {
    left: Cell<i64>,
    /// Since when time earns.
    since: Cell<Instant>,
    is_spent: Cell<bool>,
    /// What frames have cost lately, by their type: half of it is forgotten with each request.
    costs: [Cell<u32>; NAMES.len()],
}

impl Budget {
    /// With what every connection begins with.
    pub fn new(now: Instant) -> Self {
        let (left, since, is_spent) = (Cell::new(ALLOWANCE), Cell::new(now), Cell::new(false));
        Budget { left, since, is_spent, costs: Default::default() }
    }

    /// A frame came.
    pub fn spend_frame(&self, frame: Frame) {
        self.spend(frame.kind, cost_of(frame.kind, frame.flags, frame.length));
    }

    /// A frame of this type came.
    fn spend(&self, kind: u8, cost: u32) {
        self.left.set(self.left.get() - i64::from(cost));
        let costs = &self.costs[usize::from(kind).min(NAMES.len() - 1)];
        costs.set(costs.get().saturating_add(cost));
    }

    /// The type of frames that most was spent for lately.
    pub fn mostly(&self) -> &'static str {
        let most = self.costs.iter().zip(NAMES).max_by_key(|(cost, _)| cost.get());
        most.map_or("", |(_, name)| name)
    }

    /// A request came that is answered.
    pub fn earn_request(&self, fields: &HeaderMap) {
        self.costs.iter().for_each(|cost| cost.set(cost.get() / 2));
        self.earn(REQUEST);
        self.earn_bytes(fields.iter().map(|(name, value)| name.as_str().len() + value.len()).sum());
    }

    /// So much of a body came or goes, in a piece of the size that its sender chose.
    pub fn earn_piece(&self, bytes: usize) {
        self.earn(2);
        self.earn_bytes(bytes);
    }

    /// So many bytes; that they are no more may be the client's choice.
    pub fn earn_bytes(&self, bytes: usize) {
        self.earn(i64::try_from(bytes / BYTES).unwrap_or(MOST));
    }

    fn earn(&self, more: i64) {
        self.left.set(self.left.get().saturating_add(more).min(MOST));
    }

    /// Whether it is used up; if so, for ever. The time is asked for only if it matters.
    pub fn is_spent(&self, now: impl FnOnce() -> Instant) -> bool {
        if self.left.get() <= 0 && !self.is_spent.get() {
            let now = now();
            let time = now.saturating_duration_since(self.since.replace(now));
            let earned = time.as_millis() / REFILL.as_millis();
            self.earn(i64::try_from(earned).unwrap_or(ALLOWANCE).min(ALLOWANCE));
            self.is_spent.set(self.left.get() <= 0);
        }
        self.is_spent.get()
    }
}

fn cost_of(kind: u8, flags: u8, length: u32) -> u32 {
    let fixed = match kind {
        // Small ones the library counts, with what of them nobody has taken yet.
        DATA if length > 0 && flags & PADDED == 0 => return 0,
        DATA => return 1,
        HEADERS | CONTINUATION => 5,
        SETTINGS => 10,
        _ => 1,
    };
    fixed + length / BYTES as u32
}

#[cfg(test)]
mod tests {
    use super::super::frames::{Frames, Piece};
    use super::*;

    const PING: u8 = 6;
    const WINDOW_UPDATE: u8 = 8;

    fn frame(kind: u8, flags: u8, length: usize) -> Vec<u8> {
        let [.., a, b, c] = length.to_be_bytes();
        let mut bytes = vec![a, b, c, kind, flags, 0, 0, 0, 1];
        bytes.resize(9 + length, 0xff);
        bytes
    }

    #[test]
    fn frames_are_counted_wherever_the_reads_cut_them() {
        let mut bytes = vec![0xff; 24];
        let frames = [
            (6, 0, 8),
            (DATA, 0, 1),
            (DATA, 0, 0),
            (DATA, PADDED, 9),
            (HEADERS, 4, 640),
            (99, 0, 0),
        ];
        frames.iter().for_each(|(kind, flags, length)| bytes.extend(frame(*kind, *flags, *length)));
        for size in 1..=bytes.len() {
            let (mut frames, budget) = (Frames::new(24), Budget::new(Instant::now()));
            let mut payload = 0;
            for part in bytes.chunks(size) {
                frames.read(part, |piece| match piece {
                    Piece::Head(frame) => budget.spend_frame(frame),
                    Piece::Payload(bytes) => payload += bytes.len(),
                });
            }
            let cost = ALLOWANCE - budget.left.get();
            assert_eq!(cost, 1 + 1 + 1 + 15 + 1, "{size} bytes at a time");
            assert_eq!(payload, 8 + 1 + 9 + 640, "{size} bytes at a time");
            assert_eq!(budget.mostly(), "HEADERS");
        }
    }

    #[test]
    fn time_alone_earns_little_and_no_more_than_in_the_beginning() {
        let begun = Instant::now();
        let budget = Budget::new(begun);
        let after = |time| move || begun + Duration::from_secs(time);
        budget.spend(PING, 999);
        assert!(!budget.is_spent(|| unreachable!("there is something left")));
        budget.spend(PING, 1);
        assert!(!budget.is_spent(after(1)), "a second has earned 100");
        budget.spend(PING, 99);
        assert!(!budget.is_spent(after(1)));
        budget.spend(PING, 1);
        assert!(!budget.is_spent(after(1_000_000)), "a long time has earned what it may");
        budget.spend(PING, ALLOWANCE as u32);
        assert!(budget.is_spent(after(1_000_000)));
        assert!(budget.is_spent(after(2_000_000)), "it is over");
    }

    #[test]
    fn work_earns_what_honest_clients_send_for_it() {
        let budget = Budget::new(Instant::now());
        for _ in 0..100_000 {
            budget.earn_request(&HeaderMap::new());
            // Head, priority, a window for the stream, and that it is given up.
            budget.spend(HEADERS, 5 + 1 + 1 + 1);
            budget.earn_piece(1);
            budget.spend(WINDOW_UPDATE, 2); // both windows
        }
        assert!(!budget.is_spent(Instant::now));
    }

    #[test]
    fn what_most_was_spent_for_lately_is_told() {
        let budget = Budget::new(Instant::now());
        for _ in 0..1000 {
            budget.spend(HEADERS, 5);
            budget.earn_request(&HeaderMap::new());
        }
        // What came along with a request is not forgotten.
        budget.spend(WINDOW_UPDATE, 30);
        budget.spend(PING, 1);
        budget.earn_request(&HeaderMap::new());
        assert_eq!(budget.mostly(), "WINDOW_UPDATE");
        budget.spend(PING, u32::MAX);
        assert_eq!(budget.mostly(), "PING");
        budget.spend(99, u32::MAX);
        budget.spend(255, u32::MAX);
        assert_eq!(budget.mostly(), "extension");
    }
}
