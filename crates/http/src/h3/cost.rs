//! Cost of the frames of a client. A frame is as long as the client likes, and its payload costs no
//! more than that of DATA: it is skipped, or has a limit of its own.

use super::frames::{Frame, kind};
use crate::streams::{BYTES_PER_CREDIT, Budget, MAX_KINDS};

/// Names of the kinds of frames.
pub(super) const NAMES: [&str; MAX_KINDS] = [
    "DATA",
    "HEADERS",
    "SETTINGS",
    "GOAWAY",
    "MAX_PUSH_ID",
    "PRIORITY_UPDATE",
    "QPACK",
    "stream",
    "",
    "",
    "unknown",
];

const QPACK: usize = 6;
const STREAM: usize = 7;
const UNKNOWN: usize = MAX_KINDS - 1;

/// Bytes of an unknown frame per credit.
const SKIPPED_PER_CREDIT: u64 = 1024;

/// Maximum cost of the length of a frame: no more of it is read than of a head that is permitted.
const MAX_COST: u32 = 512;

/// Subtracts the cost of a frame.
pub(super) fn spend_frame(budget: &Budget, Frame { kind, length }: Frame) {
    let of = |bytes: u64| u32::try_from(length / bytes).unwrap_or(u32::MAX).min(MAX_COST);
    let (place, cost) = match kind {
        // The windows of QUIC bound those that were not read yet.
        kind::DATA => (0, u32::from(length == 0)),
        kind::HEADERS => (1, 5 + of(BYTES_PER_CREDIT as u64)),
        kind::SETTINGS => (2, 10),
        kind::GOAWAY => (3, 1),
        kind::MAX_PUSH_ID => (4, 1),
        kind::PRIORITY_UPDATE => (5, 1 + of(BYTES_PER_CREDIT as u64)),
        _ => (UNKNOWN, 1 + of(SKIPPED_PER_CREDIT)),
    };
    budget.spend(place, cost);
}

/// Subtracts the cost of instructions of so many bytes.
pub(super) fn spend_instructions(budget: &Budget, bytes: usize) {
    budget.spend(QPACK, 1 + (bytes / BYTES_PER_CREDIT) as u32);
}

/// Subtracts the cost of a unidirectional stream.
pub(super) fn spend_stream(budget: &Budget) {
    budget.spend(STREAM, 2);
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[test]
    fn frames_that_only_cost_work_exhaust_the_budget_and_bodies_do_not() {
        let exhausts = |kind, length, count| {
            let budget = Budget::new(Instant::now(), NAMES);
            (0..count).for_each(|_| spend_frame(&budget, Frame { kind, length }));
            budget.is_spent(Instant::now)
        };
        assert!(!exhausts(kind::DATA, 1, 100_000));
        assert!(exhausts(kind::DATA, 0, 2000));
        assert!(exhausts(kind::HEADERS, 30_000, 100));
        assert!(exhausts(0x21, 0, 2000));
        assert!(!exhausts(0x21, 500_000, 1));
        assert!(!exhausts(0x21, 9, 500));
        assert!(exhausts(kind::PRIORITY_UPDATE, 5, 2000));
        assert!(exhausts(0x21, u64::MAX, 2));
        let budget = Budget::new(Instant::now(), NAMES);
        (0..2000).for_each(|_| spend_instructions(&budget, 1));
        (0..10).for_each(|_| spend_stream(&budget));
        assert!(budget.is_spent(Instant::now));
        assert_eq!(budget.costliest_type(), "QPACK");
    }
}
