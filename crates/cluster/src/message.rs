//! The bytes of a purge in the stream of purges.
//!
//! ```text
//! "HP" version(1) sender(16) flags(1) kind(1) strings
//! string: length(4, big endian) bytes
//! ```
//!
//! The strings are the name of the store, and those of the kind: the host (without one, an empty
//! string and flag 2), then path and query, the beginning of a path, or tags.

use howdah_cache::place::MAX_TAGS;
use howdah_cache::purge::Purge;

/// Maximum length of a message.
pub const MAX_BYTES: usize = 256 << 10;

/// Random number of a server.
pub type Sender = [u8; 16];

/// A purge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The server that it comes from.
    pub sender: Sender,
    /// Name of the store; all stores if empty. After a NUL, the name of the application whose
    /// entries are concerned.
    pub store: Vec<u8>,
    /// The entries to purge.
    pub what: Purge,
    /// Entries become stale instead of being removed.
    pub is_soft: bool,
}

const MAGIC: &[u8] = b"HP";
const VERSION: u8 = 1;

/// Flag of a soft purge.
const SOFT: u8 = 1;
/// Flag of a purge that is not about one host.
const ALL_HOSTS: u8 = 2;

const ALL: u8 = 0;
const HOST: u8 = 1;
const URL: u8 = 2;
const PREFIX: u8 = 3;
const TAGS: u8 = 4;

impl Message {
    /// Returns the bytes. A purge that would be too long becomes one of everything: other servers
    /// must not keep the entries that it names.
    pub fn encode(&self) -> Vec<u8> {
        let encoded = self.encode_any();
        if encoded.len() <= MAX_BYTES {
            encoded
        } else {
            Message { what: Purge::All, ..self.clone() }.encode_any()
        }
    }

    fn encode_any(&self) -> Vec<u8> {
        let no_host: &Vec<u8> = &Vec::new();
        let (kind, host, others): (u8, Option<&Vec<u8>>, Vec<&Vec<u8>>) = match &self.what {
            Purge::All => (ALL, None, Vec::new()),
            Purge::Host(host) => (HOST, Some(host), Vec::new()),
            Purge::Url { host, path, query } => (URL, Some(host), vec![path, query]),
            Purge::Prefix { host, path } => (PREFIX, host.as_ref(), vec![path]),
            Purge::Tags { host, tags } => (TAGS, host.as_ref(), tags.iter().collect()),
        };
        let flags =
            if self.is_soft { SOFT } else { 0 } | if host.is_none() { ALL_HOSTS } else { 0 };
        let mut out = [MAGIC, &[VERSION], &self.sender, &[flags, kind]].concat();
        for string in [&self.store, host.unwrap_or(no_host)].into_iter().chain(others) {
            // A string of 4 GB makes the message too long in any case.
            out.extend(u32::try_from(string.len()).unwrap_or(u32::MAX).to_be_bytes());
            out.extend(string);
        }
        out
    }

    /// Reads the bytes; `None` if they are no purge. One of a later version, which cannot be
    /// understood, is a purge of everything.
    pub fn decode(bytes: &[u8]) -> Option<Message> {
        let rest = bytes.strip_prefix(MAGIC).filter(|_| bytes.len() <= MAX_BYTES)?;
        let (version, rest) = rest.split_first()?;
        let (sender, rest) = rest.split_first_chunk::<16>()?;
        let sender = *sender;
        if *version > VERSION {
            return Some(Message { sender, store: Vec::new(), what: Purge::All, is_soft: false });
        }
        let ([flags, kind], mut rest) = rest.split_first_chunk::<2>()?;
        if *version != VERSION || flags & !(SOFT | ALL_HOSTS) != 0 {
            return None;
        }
        let mut strings = Vec::new();
        while let Some((length, after)) = rest.split_first_chunk::<4>() {
            let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
            let (string, after) = after.split_at_checked(length)?;
            strings.push(string.to_vec());
            rest = after;
            if strings.len() > MAX_TAGS + 2 {
                return None;
            }
        }
        if !rest.is_empty() {
            return None;
        }
        let mut strings = strings.into_iter();
        let (store, host) = (strings.next()?, strings.next()?);
        let host = match flags & ALL_HOSTS != 0 {
            true if !host.is_empty() => return None,
            true => None,
            false => Some(host),
        };
        let what = match (*kind, host) {
            (ALL, None) => Purge::All,
            (HOST, Some(host)) => Purge::Host(host),
            (URL, Some(host)) => Purge::Url { host, path: strings.next()?, query: strings.next()? },
            (PREFIX, host) => Purge::Prefix { host, path: strings.next()? },
            (TAGS, host) => Purge::Tags { host, tags: strings.by_ref().collect() },
            _ => return None,
        };
        let is_soft = flags & SOFT != 0;
        strings.next().is_none().then_some(Message { sender, store, what, is_soft })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn messages() -> Vec<Message> {
        let host = || Some(b"example.org".to_vec());
        let (path, query) = (b"/a".to_vec(), b"b=1".to_vec());
        let tags = vec![b"post-1".to_vec(), Vec::new(), b"\xff\0".to_vec()];
        let all = [
            Purge::All,
            Purge::Host(b"example.org".to_vec()),
            Purge::Url { host: b"h".to_vec(), path: path.clone(), query },
            Purge::Prefix { host: host(), path: path.clone() },
            Purge::Prefix { host: None, path },
            Purge::Tags { host: host(), tags: tags.clone() },
            Purge::Tags { host: None, tags },
            Purge::Tags { host: None, tags: vec![b"t".to_vec(); MAX_TAGS] },
        ];
        let message = |what| Message { sender: [7; 16], store: b"s".to_vec(), what, is_soft: true };
        all.into_iter().map(message).collect()
    }

    #[test]
    fn a_purge_is_read_back() {
        for message in messages() {
            assert_eq!(Message::decode(&message.encode()), Some(message));
        }
    }

    #[test]
    fn a_purge_that_is_too_long_is_one_of_everything() {
        let tags = vec![vec![b'x'; 1000]; MAX_TAGS];
        let what = Purge::Tags { host: None, tags };
        let message = Message { sender: [1; 16], store: b"s".to_vec(), what, is_soft: false };
        let read = Message::decode(&message.encode()).unwrap();
        assert_eq!((read.what, read.store), (Purge::All, b"s".to_vec()));
    }

    #[test]
    fn what_a_later_version_says_is_not_lost() {
        let mut bytes = messages()[1].encode();
        bytes[2] = 2;
        bytes.truncate(20);
        let read = Message::decode(&bytes).unwrap();
        assert_eq!((read.what, read.is_soft, read.store), (Purge::All, false, Vec::new()));
        bytes[2] = 0;
        assert_eq!(Message::decode(&bytes), None);
    }

    #[test]
    fn more_tags_than_a_purge_may_have_are_refused() {
        let mut bytes = messages().pop().unwrap().encode();
        bytes.extend([0, 0, 0, 0]);
        assert_eq!(Message::decode(&bytes), None);
    }

    proptest! {
        /// No bytes cause a panic, and a message that was read is written as the same bytes.
        #[test]
        fn hostile_bytes_are_refused_or_read_as_they_are(
            which in 0usize..8, cut in 0usize..100, at in 0usize..100, byte: u8, tail: Vec<u8>,
        ) {
            let mut bytes = messages()[which].encode();
            bytes.truncate(bytes.len().saturating_sub(cut));
            if let Some(changed) = bytes.get_mut(at) {
                *changed = byte;
            }
            bytes.extend(&tail);
            if let Some(message) = Message::decode(&bytes)
                && bytes.get(2) == Some(&VERSION)
            {
                prop_assert_eq!(message.encode(), bytes);
            }
            let _ = Message::decode(&tail);
        }
    }
}
