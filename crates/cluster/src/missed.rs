//! Purges that a server has missed, because Valkey no longer keeps them.
//!
//! Each entry of the stream names the entry before it, and a hash has the last entry of each
//! application. A server that finds a gap compares the hash with the last entries that it knows: it
//! can have missed purges only of the applications that differ. An application that purges without
//! end thus empties its own part of the caches only.

use std::collections::HashMap;

/// Adds a purge to the stream, with the position of the entry before it, and keeps its position as
/// the last one of all and that of its application.
///
/// Keys: the stream, the hash. Arguments: number of entries that are kept, field of the application
/// in the hash, message.
pub const PURGE: &str = r"
local before = redis.call('HGET', KEYS[2], 'last') or '0-0'
local id = redis.call(
    'XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], '*', 'purge', ARGV[3], 'after', before)
redis.call('HSET', KEYS[2], 'last', id, ARGV[2], id)
return id
";

/// Position before the first entry.
pub const BEGINNING: Position = Position { time: 0, number: 0 };

/// Maximum number of applications whose last entries are known.
const MAX_KNOWN: usize = 1 << 16;

/// Position of an entry in the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    time: u64,
    number: u64,
}

/// The last entries of all applications, as the hash has them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct LastEntries {
    /// Position of the last entry of all.
    pub last: Option<Position>,
    /// Positions by application, as messages name it.
    pub of: HashMap<Vec<u8>, Position>,
}

/// The entries that a server has received.
#[derive(Debug)]
pub struct Received {
    /// Position of the last entry that others may follow.
    last: Position,
    of: HashMap<Vec<u8>, Position>,
}

/// The consequence of a gap.
#[derive(Debug, PartialEq, Eq)]
pub enum Missed {
    /// Purges of these applications.
    Of(Vec<Vec<u8>>),
    /// Unknown purges: Valkey has lost its entries.
    Unknown,
}

impl Position {
    /// Reads a position as Valkey writes it.
    pub fn read(text: &[u8]) -> Option<Position> {
        let text = std::str::from_utf8(text).ok()?;
        let (time, number) = text.split_once('-')?;
        let read = |text: &str| {
            if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
        };
        Some(Position { time: read(time)?, number: read(number)? })
    }
}

impl std::fmt::Display for Position {
    fn fmt(&self, out: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(out, "{}-{}", self.time, self.number)
    }
}

/// Returns the field of an application in the hash.
pub fn field(subject: &[u8]) -> Vec<u8> {
    [b":", subject].concat()
}

impl Default for Received {
    fn default() -> Self {
        Received { last: BEGINNING, of: HashMap::new() }
    }
}

impl Received {
    /// Returns true if there is a gap between the received entries and an entry that follows
    /// `after`.
    pub fn is_gap(&self, after: Position) -> bool {
        after != self.last
    }

    /// Notes an entry, after the gap before it was dealt with.
    pub fn receive(&mut self, position: Position, subject: &[u8]) {
        self.last = position;
        if let Some(known) = self.of.get_mut(subject) {
            *known = position;
        } else if self.of.len() < MAX_KNOWN {
            self.of.insert(subject.to_vec(), position);
        }
    }

    /// Compares the received entries with the last ones, which count as received from now on.
    /// Called if the newest entry is older than the received ones, or if an entry does not follow
    /// the last received one.
    pub fn compare(&mut self, last: LastEntries) -> Missed {
        let Some(newest) = last.last.filter(|newest| *newest >= self.last) else {
            let is_new = self.last == BEGINNING && last.of.is_empty();
            *self = Received { last: last.last.unwrap_or(BEGINNING), of: last.of };
            return if is_new { Missed::Of(Vec::new()) } else { Missed::Unknown };
        };
        let known = std::mem::replace(self, Received { last: newest, of: last.of });
        let changed = self.of.iter().filter(|(subject, at)| known.of.get(*subject) != Some(at));
        let gone = known.of.keys().filter(|subject| !self.of.contains_key(*subject));
        Missed::Of(changed.map(|(subject, _)| subject).chain(gone).cloned().collect())
    }

    /// Returns the position of the last entry.
    pub fn last(&self) -> Position {
        self.last
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(time: u64) -> Position {
        Position { time, number: 0 }
    }

    fn last(newest: u64, of: &[(&str, u64)]) -> LastEntries {
        let of = of.iter().map(|(subject, time)| (subject.as_bytes().to_vec(), at(*time)));
        LastEntries { last: Some(at(newest)), of: of.collect() }
    }

    fn received(entries: &[(&str, u64)]) -> Received {
        let mut received = Received::default();
        entries.iter().for_each(|(subject, time)| received.receive(at(*time), subject.as_bytes()));
        received
    }

    #[test]
    fn a_gap_concerns_the_applications_that_have_purged() {
        let mut known = received(&[("a", 1), ("b", 2)]);
        assert!(!known.is_gap(at(2)) && known.is_gap(at(3)));
        let missed = known.compare(last(9, &[("a", 9), ("b", 2)]));
        assert_eq!(missed, Missed::Of(vec![b"a".to_vec()]));
        assert!(!known.is_gap(at(9)));
        assert_eq!(known.compare(last(9, &[("a", 9), ("b", 2)])), Missed::Of(Vec::new()));
        // A new entry, and one that an administrator has removed.
        assert_eq!(known.compare(last(9, &[("a", 9), ("c", 5)])), {
            Missed::Of(vec![b"c".to_vec(), b"b".to_vec()])
        });
    }

    #[test]
    fn it_is_not_known_what_a_server_had_that_has_lost_it() {
        let known = || received(&[("a", 5)]);
        assert_eq!(known().compare(LastEntries::default()), Missed::Unknown);
        assert_eq!(known().compare(last(4, &[("a", 4)])), Missed::Unknown);
        assert_eq!(known().compare(last(5, &[("a", 5)])), Missed::Of(Vec::new()));
        let mut new = Received::default();
        assert_eq!(new.compare(LastEntries::default()), Missed::Of(Vec::new()));
    }

    proptest! {
        #[test]
        fn a_position_is_two_numbers(text in "[0-9-]{0,24}") {
            let parts: Vec<_> = text.split('-').map(str::parse::<u64>).collect();
            let expected = parts.len() == 2 && parts.iter().all(Result::is_ok);
            prop_assert_eq!(Position::read(text.as_bytes()).is_some(), expected);
        }

        #[test]
        fn hostile_bytes_are_no_positions(text: Vec<u8>) {
            if let Some(position) = Position::read(&text) {
                prop_assert_eq!(Position::read(position.to_string().as_bytes()), Some(position));
            }
        }
    }
}
