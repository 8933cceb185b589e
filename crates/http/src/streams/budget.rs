//! The budget of a connection for frames. A client that sends frames which only cost work exhausts
//! it, and the connection is closed (CVE-2019-9511 to 9518, CVE-2025-8671).
//!
//! A frame costs credits in proportion to its processing time, which the protocol knows: PING 1, the
//! head of a request more.
//! Requests and bodies in both directions earn more credits than an honest client needs for them:
//! one that sends two WINDOW_UPDATE per DATA, resets its streams or changes their priorities never
//! exhausts the budget. Time earns a little too, for clients that send only PING for hours.

use std::cell::Cell;
use std::time::Duration;

use tokio::time::Instant;

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
pub(crate) const BYTES_PER_CREDIT: usize = 64;

/// Maximum number of kinds of frames that costs are told apart by.
pub(crate) const MAX_KINDS: usize = 11;

/// Credits of a connection.
#[derive(Debug)]
pub(crate) struct Budget {
    left: Cell<i64>,
    /// Time up to which credits were earned by time.
    since: Cell<Instant>,
    is_spent: Cell<bool>,
    /// Recent cost of the frames of each type; halved with each request.
    costs: [Cell<u32>; MAX_KINDS],
    /// Names of the kinds.
    names: [&'static str; MAX_KINDS],
}

impl Budget {
    /// Creates the budget of a new connection, with the names of the kinds of frames.
    pub fn new(now: Instant, names: [&'static str; MAX_KINDS]) -> Self {
        let (left, since, is_spent) =
            (Cell::new(INITIAL_CREDITS), Cell::new(now), Cell::new(false));
        Budget { left, since, is_spent, costs: Default::default(), names }
    }

    /// Subtracts the cost of a frame. A kind without a name counts as the last one.
    pub fn spend(&self, kind: usize, cost: u32) {
        self.left.set(self.left.get() - i64::from(cost));
        let costs = &self.costs[kind.min(MAX_KINDS - 1)];
        costs.set(costs.get().saturating_add(cost));
    }

    /// Returns the name of the kind of frames with the greatest recent cost.
    pub fn costliest_type(&self) -> &'static str {
        let costliest = self.costs.iter().zip(self.names).max_by_key(|(cost, _)| cost.get());
        costliest.map_or("", |(_, name)| name)
    }

    /// Adds the credits for a request that is answered, with `bytes` bytes of fields.
    pub fn earn_request(&self, bytes: usize) {
        self.costs.iter().for_each(|cost| cost.set(cost.get() / 2));
        self.earn(REQUEST_CREDITS);
        self.earn_bytes(bytes);
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

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; MAX_KINDS] = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "other"];
    const HEADERS: usize = 1;
    const PING: usize = 6;
    const WINDOW_UPDATE: usize = 8;

    fn new(now: Instant) -> Budget {
        Budget::new(now, NAMES)
    }

    #[test]
    fn requests_and_bodies_earn_by_their_size_up_to_a_limit() {
        let budget = new(Instant::now());
        let earned = |earn: &dyn Fn()| {
            let before = budget.left.get();
            earn();
            budget.left.get() - before
        };
        assert_eq!(earned(&|| budget.earn_request(64)), REQUEST_CREDITS + 1);
        assert_eq!(earned(&|| budget.earn_request(63)), REQUEST_CREDITS);
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
        let budget = new(started_at);
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
        let budget = new(Instant::now());
        for _ in 0..100_000 {
            budget.earn_request(0);
            // Head, priority, a window for the stream, and that it is given up.
            budget.spend(HEADERS, 5 + 1 + 1 + 1);
            budget.earn_piece(1);
            budget.spend(WINDOW_UPDATE, 2); // both windows
        }
        assert!(!budget.is_spent(Instant::now));
    }

    #[test]
    fn what_most_was_spent_for_lately_is_told() {
        let budget = new(Instant::now());
        for _ in 0..1000 {
            budget.spend(HEADERS, 5);
            budget.earn_request(0);
        }
        // The cost of frames since the last request is not halved.
        budget.spend(WINDOW_UPDATE, 30);
        budget.spend(PING, 1);
        budget.earn_request(0);
        assert_eq!(budget.costliest_type(), "8");
        budget.spend(PING, u32::MAX);
        assert_eq!(budget.costliest_type(), "6");
        budget.spend(99, u32::MAX);
        budget.spend(255, u32::MAX);
        assert_eq!(budget.costliest_type(), "other");
    }
}
