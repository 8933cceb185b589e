//! Spans that wait to be sent.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use howdah_wire::lost_spans::LostSpans;
use howdah_wire::spans;
use tokio::sync::Notify;

/// Maximum bytes of the spans that wait. More are lost: the newest, so that traces that have begun
/// to be sent are complete.
pub(crate) const MAX_BYTES: usize = 32 << 20;

/// Bytes that a span takes in addition to its own.
const SPAN_COST: usize = 48;

/// Maximum bytes of the spans in one message, far below what servers take (4 MiB with gRPC).
const MAX_BATCH_BYTES: usize = 1 << 20;

/// Spans that wait, as they were received.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    spans: RefCell<VecDeque<Box<[u8]>>>,
    bytes: Cell<usize>,
    /// Number of spans that this process has lost.
    lost: Cell<u64>,
    /// Number of those that any process has lost.
    lost_by_all: LostSpans,
    /// Notified of new spans, and of the end.
    pub(crate) changed: Notify,
    /// No more spans follow.
    pub(crate) is_finishing: Cell<bool>,
}

impl Queue {
    /// Creates an empty queue. `lost_by_all` has the number of spans that any process has lost.
    pub(crate) fn new(lost_by_all: LostSpans) -> Queue {
        Queue { lost_by_all, ..Queue::default() }
    }

    /// Adds the spans of a packet. Those for which there is no room are lost, and a packet that no
    /// router sends, too.
    pub(crate) fn add(&self, packet: &[u8]) {
        for span in spans::split(packet).unwrap_or_default() {
            let bytes = self.bytes.get() + span.len() + SPAN_COST;
            if bytes > MAX_BYTES {
                self.lose(1);
                continue;
            }
            self.bytes.set(bytes);
            self.spans.borrow_mut().push_back(span.into());
        }
        self.changed.notify_one();
    }

    /// Returns true if the spans fill a message of `max` spans.
    pub(crate) fn fills_message(&self, max: usize) -> bool {
        self.len() >= max || self.bytes.get() >= MAX_BATCH_BYTES
    }

    /// Takes the spans of the next message.
    pub(crate) fn take(&self, max: usize) -> Vec<Box<[u8]>> {
        let (mut spans, mut taken, mut bytes) = (self.spans.borrow_mut(), Vec::new(), 0);
        while taken.len() < max && bytes < MAX_BATCH_BYTES {
            let Some(span) = spans.pop_front() else { break };
            bytes += span.len();
            self.bytes.set(self.bytes.get().saturating_sub(span.len() + SPAN_COST));
            taken.push(span);
        }
        // A burst must not hold its memory.
        if spans.is_empty() {
            *spans = VecDeque::new();
        }
        taken
    }

    /// Returns the number of spans.
    pub(crate) fn len(&self) -> usize {
        self.spans.borrow().len()
    }

    /// Counts lost spans.
    pub(crate) fn lose(&self, spans: u64) {
        self.lost.set(self.lost.get().saturating_add(spans));
        self.lost_by_all.add(spans);
    }

    /// Returns the number of spans that were lost since the start.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.get()
    }
}

#[cfg(test)]
mod tests {
    use howdah_wire::bytes::Encode;

    use super::*;

    #[test]
    fn spans_beyond_the_limit_are_lost_and_counted() {
        let queue = Queue::default();
        let mut packet = Vec::new();
        packet.put_bytes(&[0; 100_000]);
        for _ in 0..1000 {
            queue.add(&packet);
        }
        let kept = MAX_BYTES / (100_000 + SPAN_COST);
        assert_eq!((queue.len(), queue.lost()), (kept, 1000 - kept as u64));
        assert!(queue.fills_message(1000), "as many bytes as a message may have");
        assert_eq!(queue.take(3).len(), 3);
        assert_eq!(queue.take(1000).len(), MAX_BATCH_BYTES.div_ceil(100_000));
        while !queue.take(1000).is_empty() {}
        assert_eq!((queue.len(), queue.bytes.get()), (0, 0));
        assert!(!queue.fills_message(1));
        queue.lose(u64::MAX);
        assert_eq!(queue.lost(), u64::MAX);
        queue.add(&[1, 2, 3]);
        assert_eq!(queue.len(), 0);
    }
}
