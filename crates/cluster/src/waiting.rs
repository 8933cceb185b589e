//! Messages that wait for the server, apart for each application.
//!
//! An application that purges without end fills its own queue only: its purges are then replaced by
//! one purge of all its entries. Queues take turns, so it delays the purges of others by one
//! message at most.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use howdah_limits::rules::SharedBlock;

/// Maximum number of purges of an application that wait.
const MAX_PURGES: usize = 1000;

/// Maximum bytes of the purges of an application that wait.
const MAX_PURGE_BYTES: usize = 1 << 20;

/// Maximum number of blocks of limits that wait.
const MAX_BLOCKS: usize = 1000;

/// Maximum bytes of their keys.
const MAX_BLOCK_BYTES: usize = 1 << 20;

/// A message that no request waits for.
#[derive(Debug, Clone)]
pub enum Outgoing {
    /// A purge: its subject, as messages name it, and its bytes.
    Purge(Arc<[u8]>, Arc<[u8]>),
    /// A key of a limit that is blocked.
    Block(Arc<SharedBlock>),
}

/// The queues.
#[derive(Debug, Default)]
pub struct Waiting {
    purges: HashMap<Arc<[u8]>, Queue>,
    /// Applications with purges, in the order of their turns.
    turns: VecDeque<Arc<[u8]>>,
    blocks: VecDeque<Arc<SharedBlock>>,
    /// The next message is a block, if one waits.
    is_turn_of_blocks: bool,
}

#[derive(Debug, Default)]
struct Queue {
    messages: VecDeque<Arc<[u8]>>,
    bytes: usize,
}

impl Waiting {
    /// Adds a purge of an application; if too many wait, they become `all`, a purge of everything
    /// of that application.
    pub fn purge(&mut self, subject: &[u8], message: Vec<u8>, all: impl FnOnce() -> Vec<u8>) {
        let subject: Arc<[u8]> = subject.into();
        let queue = self.purges.entry(Arc::clone(&subject)).or_default();
        if queue.messages.is_empty() && !self.turns.contains(&subject) {
            self.turns.push_back(subject);
        }
        let is_full = queue.messages.len() >= MAX_PURGES
            || queue.bytes + message.len() > MAX_PURGE_BYTES && !queue.messages.is_empty();
        let message = if is_full {
            *queue = Queue::default();
            all()
        } else {
            message
        };
        queue.bytes += message.len();
        queue.messages.push_back(message.into());
    }

    /// Adds the purges of other queues. Their blocks are left out, which costs accuracy only.
    pub fn add_purges_of(&mut self, other: Waiting) {
        for (subject, added) in other.purges {
            let queue = self.purges.entry(Arc::clone(&subject)).or_default();
            queue.messages.extend(added.messages);
            queue.bytes += added.bytes;
            if !queue.messages.is_empty() && !self.turns.contains(&subject) {
                self.turns.push_back(subject);
            }
        }
    }

    /// Returns the number of purges.
    #[cfg(test)]
    pub fn purges(&self) -> usize {
        self.purges.values().map(|queue| queue.messages.len()).sum()
    }

    /// Adds a block. One that finds no place costs accuracy only.
    pub fn block(&mut self, block: SharedBlock) {
        // At most a thousand are added up, and blocks are rare.
        let bytes: usize = self.blocks.iter().map(|block| block.key.len()).sum();
        if self.blocks.len() < MAX_BLOCKS && bytes + block.key.len() <= MAX_BLOCK_BYTES {
            self.blocks.push_back(Arc::new(block));
        }
    }

    /// Returns the next message, which stays in its queue.
    pub fn next(&self) -> Option<Outgoing> {
        let block = || self.blocks.front().cloned().map(Outgoing::Block);
        let purge = || {
            let subject = self.turns.front()?;
            let message = self.purges.get(subject)?.messages.front()?;
            Some(Outgoing::Purge(Arc::clone(subject), Arc::clone(message)))
        };
        if self.is_turn_of_blocks { block().or_else(purge) } else { purge().or_else(block) }
    }

    /// Removes a message that was sent, if it was not replaced meanwhile, and ends its turn.
    pub fn sent(&mut self, message: &Outgoing) {
        match message {
            Outgoing::Block(sent) => {
                if self.blocks.front().is_some_and(|first| Arc::ptr_eq(first, sent)) {
                    self.blocks.pop_front();
                }
                self.is_turn_of_blocks = false;
            }
            Outgoing::Purge(subject, sent) => {
                let Some(queue) = self.purges.get_mut(subject) else { return };
                if queue.messages.front().is_some_and(|first| Arc::ptr_eq(first, sent)) {
                    queue.messages.pop_front();
                    queue.bytes = queue.bytes.saturating_sub(sent.len());
                }
                self.turns.retain(|other| other != subject);
                if queue.messages.is_empty() {
                    drop(self.purges.remove(subject))
                } else {
                    self.turns.push_back(Arc::clone(subject))
                }
                self.is_turn_of_blocks = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn purge(waiting: &mut Waiting, subject: &str, message: &[u8]) {
        waiting.purge(subject.as_bytes(), message.to_vec(), || b"all".to_vec());
    }

    fn sent(waiting: &mut Waiting) -> Option<(String, Vec<u8>)> {
        let message = waiting.next()?;
        waiting.sent(&message);
        match message {
            Outgoing::Purge(subject, bytes) => {
                Some((String::from_utf8_lossy(&subject).into_owned(), bytes.to_vec()))
            }
            Outgoing::Block(_) => None,
        }
    }

    #[test]
    fn a_flood_of_one_application_becomes_one_purge_of_its_own() {
        let mut waiting = Waiting::default();
        purge(&mut waiting, "other", b"1");
        for _ in 0..=MAX_PURGES {
            purge(&mut waiting, "flood", b"x");
        }
        purge(&mut waiting, "other", b"2");
        let all: Vec<_> = std::iter::from_fn(|| sent(&mut waiting)).collect();
        let expected: [(&str, &[u8]); 3] = [("other", b"1"), ("flood", b"all"), ("other", b"2")];
        assert_eq!(all, expected.map(|(subject, bytes)| (subject.to_owned(), bytes.to_vec())));
    }

    #[test]
    fn applications_take_turns() {
        let mut waiting = Waiting::default();
        (0..10).for_each(|_| purge(&mut waiting, "flood", b"x"));
        purge(&mut waiting, "other", b"1");
        let subjects: Vec<_> =
            std::iter::from_fn(|| sent(&mut waiting)).map(|(subject, _)| subject).collect();
        assert_eq!(subjects[..3], ["flood", "other", "flood"]);
        assert_eq!(subjects.len(), 11);
        assert!(waiting.purges.is_empty() && waiting.turns.is_empty());
    }

    #[test]
    fn long_purges_are_limited_by_their_bytes() {
        let mut waiting = Waiting::default();
        let long = vec![b'x'; MAX_PURGE_BYTES / 4 + 1];
        (0..4).for_each(|_| purge(&mut waiting, "a", &long));
        assert_eq!(sent(&mut waiting), Some(("a".to_owned(), b"all".to_vec())));
        assert_eq!(sent(&mut waiting), None);
    }

    #[test]
    fn blocks_have_a_limit_in_number_and_bytes() {
        for (length, expected) in [(10, MAX_BLOCKS), (MAX_BLOCK_BYTES / 64, 64)] {
            let mut waiting = Waiting::default();
            for _ in 0..3 * MAX_BLOCKS {
                let (zone, key) = ("z".to_owned(), vec![b'k'; length].into());
                waiting.block(SharedBlock { zone, key, debt: 1, longest_debt: 1 });
            }
            assert_eq!(waiting.blocks.len(), expected);
        }
    }

    #[test]
    fn what_replaces_a_message_in_progress_is_sent_as_well() {
        let mut waiting = Waiting::default();
        purge(&mut waiting, "a", b"1");
        let in_progress = waiting.next().unwrap();
        (0..MAX_PURGES).for_each(|_| purge(&mut waiting, "a", b"x"));
        waiting.sent(&in_progress);
        assert_eq!(sent(&mut waiting), Some(("a".to_owned(), b"all".to_vec())));
    }
}
