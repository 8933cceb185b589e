//! The budget of a connection for frames. A client that sends frames which only cost work exhausts
//! it, and the connection is closed (CVE-2019-9511 to 9518, CVE-2025-8671).
//!
//! A frame costs credits in proportion to its processing time: PING 1, the head of a request more.
//! Requests and bodies in both directions earn more credits than an honest client needs for them:
//! one that sends two WINDOW_UPDATE per DATA, resets its streams or changes their priorities never
//! exhausts the budget. Time earns a little too, for clients that send only PING for hours.

use std::cell::Cell;
use std::time::Duration;

use http::HeaderMap;
use tokio::time::Instant;

use super::frames::{CONTINUATION, DATA, Frame, HEADERS, PADDED, SETTINGS};

/// Credits of a new connection, and maximum number of credits that time earns.
const INITIAL_CREDITS: i64 = 1000;

/// Time that earns one credit.
const CREDIT_INTERVAL: Duration = Duration::from_millis(10);

/// Maximum number of credits: the acknowledgements of bytes in flight may arrive together.
const MAX_CREDITS: i64 = 100_000;

/// Credits that a request earns beside the size of its head: for a reset, changes of its priority
/// and window updates.
const REQUEST_CREDITS: i64 = 20;

/// Bytes of a head or a body per credit.
const BYTES_PER_CREDIT: usize = 64;

/// Names of the frame types 0 to 9; the last is for all others.
const TYPE_NAMES: [&str; 11] = [
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

/// Credits of a connection.
#[derive(Debug)]
pub(super) struct Budget {
    left: Cell<i64>,
    /// Time up to which credits were earned by time.
    since: Cell<Instant>,
    is_spent: Cell<bool>,
    /// Recent cost of the frames of each type; halved with each request.
    costs: [Cell<u32>; TYPE_NAMES.len()],
}

impl Budget {
    /// Creates the budget of a new connection.
    pub fn new(now: Instant) -> Self {
        let (left, since, is_spent) =
            (Cell::new(INITIAL_CREDITS), Cell::new(now), Cell::new(false));
        Budget { left, since, is_spent, costs: Default::default() }
    }

    /// Subtracts the cost of a frame.
    pub fn spend_frame(&self, frame: Frame) {
        self.spend(frame.kind, cost_of(frame.kind, frame.flags, frame.length));
    }

    fn spend(&self, kind: u8, cost: u32) {
        self.left.set(self.left.get() - i64::from(cost));
        let costs = &self.costs[usize::from(kind).min(TYPE_NAMES.len() - 1)];
        costs.set(costs.get().saturating_add(cost));
    }

    /// Returns the name of the frame type with the greatest recent cost.
    pub fn costliest_type(&self) -> &'static str {
        let costliest = self.costs.iter().zip(TYPE_NAMES).max_by_key(|(cost, _)| cost.get());
        costliest.map_or("", |(_, name)| name)
    }

    /// Adds the credits for a request that is answered.
    pub fn earn_request(&self, fields: &HeaderMap) {
        self.costs.iter().for_each(|cost| cost.set(cost.get() / 2));
        self.earn(REQUEST_CREDITS);
        self.earn_bytes(fields.iter().map(|(name, value)| name.as_str().len() + value.len()).sum());
    }

    /// Adds the credits for a piece of a body of `bytes` bytes, whose sender chose its size.
    pub fn earn_piece(&self, bytes: usize) {
        self.earn(2);
        self.earn_bytes(bytes);
    }

    /// Adds the credits for `bytes` bytes of a body, whose client may have chosen the size of the
    /// piece.
    pub fn earn_bytes(&self, bytes: usize) {
        self.earn(i64::try_from(bytes / BYTES_PER_CREDIT).unwrap_or(MAX_CREDITS));
    }

    fn earn(&self, more: i64) {
        self.left.set(self.left.get().saturating_add(more).min(MAX_CREDITS));
    }

    /// Returns true if the budget is exhausted, then for ever. Calls `now` only if time may still
    /// help.
    pub fn is_spent(&self, now: impl FnOnce() -> Instant) -> bool {
        if self.left.get() <= 0 && !self.is_spent.get() {
            let now = now();
            let time = now.saturating_duration_since(self.since.replace(now));
            let earned = time.as_millis() / CREDIT_INTERVAL.as_millis();
            self.earn(i64::try_from(earned).unwrap_or(INITIAL_CREDITS).min(INITIAL_CREDITS));
            self.is_spent.set(self.left.get() <= 0);
        }
        self.is_spent.get()
    }
}

fn cost_of(kind: u8, flags: u8, length: u32) -> u32 {
    let fixed = match kind {
        // `h2` itself bounds short DATA frames that were not read yet.
        DATA if length > 0 && flags & PADDED == 0 => return 0,
        DATA => return 1,
        HEADERS | CONTINUATION => 5,
        SETTINGS => 10,
        _ => 1,
    };
    fixed + length / BYTES_PER_CREDIT as u32
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
            let cost = INITIAL_CREDITS - budget.left.get();
            assert_eq!(cost, 1 + 1 + 1 + 15 + 1, "{size} bytes at a time");
            assert_eq!(payload, 8 + 1 + 9 + 640, "{size} bytes at a time");
            assert_eq!(budget.costliest_type(), "HEADERS");
        }
    }

    #[test]
    fn each_type_of_frame_has_its_cost() {
        for (kind, flags, length, cost) in [
            (DATA, 0, 0, 1),
            (DATA, 0, 640, 0),
            (DATA, 1, 640, 0),
            (DATA, PADDED, 0, 1),
            (DATA, PADDED, 640, 1),
            (HEADERS, 0, 63, 5),
            (HEADERS, 0, 640, 15),
            (CONTINUATION, 0, 64, 6),
            (SETTINGS, 0, 0, 10),
            (PING, 0, 8, 1),
            (99, 0, 128, 3),
        ] {
            assert_eq!(cost_of(kind, flags, length), cost, "{kind} {flags} {length}");
        }
    }

    #[test]
    fn requests_and_bodies_earn_by_their_size_up_to_a_limit() {
        let budget = Budget::new(Instant::now());
        let earned = |earn: &dyn Fn()| {
            let before = budget.left.get();
            earn();
            budget.left.get() - before
        };
        let fields = [(http::header::HOST, "x".repeat(60).parse().unwrap())];
        let fields = HeaderMap::from_iter(fields);
        assert_eq!(earned(&|| budget.earn_request(&fields)), REQUEST_CREDITS + 1);
        assert_eq!(earned(&|| budget.earn_request(&HeaderMap::new())), REQUEST_CREDITS);
        assert_eq!(
            [0, 63, 64, 640].map(|bytes| earned(&|| budget.earn_bytes(bytes))),
            [0, 0, 1, 10]
        );
        assert_eq!([0, 640].map(|bytes| earned(&|| budget.earn_piece(bytes))), [2, 12]);
        budget.earn_bytes(usize::MAX);
        assert_eq!(budget.left.get(), MAX_CREDITS);
    }

    #[test]
    fn time_alone_earns_little_and_no_more_than_in_the_beginning() {
        let started_at = Instant::now();
        let budget = Budget::new(started_at);
        let after = |time| move || started_at + Duration::from_secs(time);
        budget.spend(PING, 999);
        assert!(!budget.is_spent(|| unreachable!("there is something left")));
        budget.spend(PING, 1);
        assert!(!budget.is_spent(after(1)), "a second has earned 100");
        budget.spend(PING, 99);
        assert!(!budget.is_spent(after(1)));
        budget.spend(PING, 1);
        assert!(!budget.is_spent(after(1_000_000)), "a long time has earned what it may");
        budget.spend(PING, INITIAL_CREDITS as u32);
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
        // The cost of frames since the last request is not halved.
        budget.spend(WINDOW_UPDATE, 30);
        budget.spend(PING, 1);
        budget.earn_request(&HeaderMap::new());
        assert_eq!(budget.costliest_type(), "WINDOW_UPDATE");
        budget.spend(PING, u32::MAX);
        assert_eq!(budget.costliest_type(), "PING");
        budget.spend(99, u32::MAX);
        budget.spend(255, u32::MAX);
        assert_eq!(budget.costliest_type(), "extension");
    }
}
