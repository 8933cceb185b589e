//! Connection ids: they name the process and the thread that have the connection, and show this to
//! nobody else (RFC 9000, 5.1).
//!
//! An id is one block of AES: the number of the process, that of the thread, zeros by which an id is
//! recognised as one of this server, and a random number.

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::cipher::{
    AES_128, AES_128_KEY_LEN, DecryptingKey, DecryptionContext, EncryptingKey, UnboundCipherKey,
};
use aws_lc_rs::error::Unspecified;
use quinn_proto::{ConnectionId, ConnectionIdGenerator, InvalidCid};

/// Length of an id in bytes: constant, since packets with a short header do not tell it.
pub(crate) const ID_LENGTH: usize = 16;

/// Length of a header up to the length of the destination id: flags and version (RFC 8999, 5.1).
const LONG_HEADER_START: usize = 5;

const VERSION_1: [u8; 4] = [0, 0, 0, 1];

/// The process and the thread that have a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// Number of the process, which differs from those of all others that run with the same keys.
    pub process: u32,
    /// Number of the thread.
    pub thread: u8,
}

/// What the destination of a datagram depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// The connection of these.
    Owner(Owner),
    /// A new client, whose datagrams all have this number.
    New(u64),
}

/// The key of the ids.
pub(crate) struct IdKey {
    seal: EncryptingKey,
    open: DecryptingKey,
}

impl IdKey {
    /// Creates a key from at least 16 bytes.
    pub(crate) fn new(key: &[u8; 32]) -> IdKey {
        let unbound = || UnboundCipherKey::new(&AES_128, &key[..AES_128_KEY_LEN]);
        let made = || {
            let (seal, open) = (EncryptingKey::ecb(unbound()?)?, DecryptingKey::ecb(unbound()?)?);
            Ok::<_, Unspecified>(IdKey { seal, open })
        };
        // Fails only for keys of another length.
        made().unwrap_or_else(|_| unreachable!("the key has the length of the cipher"))
    }

    /// Returns a new id.
    fn seal(&self, owner: Owner) -> [u8; ID_LENGTH] {
        let mut block = [0; ID_LENGTH];
        block[..4].copy_from_slice(&owner.process.to_be_bytes());
        block[4] = owner.thread;
        let random = aws_lc_rs::rand::fill(&mut block[9..]);
        assert!(random.is_ok(), "the system has random numbers");
        let sealed = self.seal.less_safe_encrypt(&mut block, no_context());
        assert!(sealed.is_ok(), "a whole block can be encrypted");
        block
    }

    /// Returns the owner that an id names; `None` if it is no id of this server.
    fn open(&self, id: &[u8]) -> Option<Owner> {
        let mut block: [u8; ID_LENGTH] = id.try_into().ok()?;
        let block = self.open.decrypt(&mut block, DecryptionContext::None).ok()?;
        let [a, b, c, d, thread, 0, 0, 0, 0, ..] = *block else { return None };
        Some(Owner { process: u32::from_be_bytes([a, b, c, d]), thread })
    }

    /// Returns the target of a datagram; `None` if it belongs to no connection that this server has
    /// ever had, and does not begin one.
    pub(crate) fn target(&self, datagram: &[u8]) -> Option<Target> {
        let is_long = datagram.first()? & 0x80 != 0;
        if !is_long {
            return self.open(datagram.get(1..1 + ID_LENGTH)?).map(Target::Owner);
        }
        let (start, rest) = datagram.split_at_checked(LONG_HEADER_START)?;
        let (length, rest) = rest.split_first()?;
        let id = rest.get(..usize::from(*length)).filter(|_| start[1..] == VERSION_1)?;
        Some(self.open(id).map_or_else(|| Target::New(self.number(id)), Target::Owner))
    }

    /// Returns a number for an id that a client has chosen, which it cannot predict.
    fn number(&self, id: &[u8]) -> u64 {
        let mut block = [0; ID_LENGTH];
        block.iter_mut().zip(id).for_each(|(byte, of_id)| *byte = *of_id);
        let _ = self.seal.less_safe_encrypt(&mut block, no_context());
        u64::from_be_bytes(*block.first_chunk().unwrap_or(&[0; 8]))
    }
}

fn no_context() -> aws_lc_rs::cipher::EncryptionContext {
    aws_lc_rs::cipher::EncryptionContext::None
}

/// Makes the ids of one thread for the library.
pub(crate) struct Ids {
    pub(crate) key: Arc<IdKey>,
    pub(crate) owner: Owner,
}

impl ConnectionIdGenerator for Ids {
    fn generate_cid(&mut self) -> ConnectionId {
        ConnectionId::new(&self.key.seal(self.owner))
    }

    fn validate(&self, id: &ConnectionId) -> Result<(), InvalidCid> {
        self.key.open(id).map(|_| ()).ok_or(InvalidCid)
    }

    fn cid_len(&self) -> usize {
        ID_LENGTH
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: Owner = Owner { process: 0x1234_5678, thread: 7 };

    fn short(id: &[u8]) -> Vec<u8> {
        [&[0x40], id, &[0; 20]].concat()
    }

    fn long(version: u8, id: &[u8]) -> Vec<u8> {
        [&[0xc0, 0, 0, 0, version, id.len() as u8][..], id, &[0; 20]].concat()
    }

    #[test]
    fn an_id_names_its_owner_and_no_two_are_alike() {
        let key = IdKey::new(&[1; 32]);
        let (one, other) = (key.seal(OWNER), key.seal(OWNER));
        assert_ne!(one, other);
        assert_eq!(key.target(&short(&one)), Some(Target::Owner(OWNER)));
        assert_eq!(key.target(&long(1, &other)), Some(Target::Owner(OWNER)));
    }

    #[test]
    fn an_id_of_another_key_names_nobody() {
        let (key, other) = (IdKey::new(&[1; 32]), IdKey::new(&[2; 32]));
        let id = key.seal(OWNER);
        assert_eq!(other.target(&short(&id)), None);
        assert_eq!(key.target(&short(&[7; 16])), None);
    }

    #[test]
    fn the_datagrams_of_a_new_client_have_one_number() {
        let key = IdKey::new(&[1; 32]);
        let target = key.target(&long(1, &[5; 8]));
        assert!(matches!(target, Some(Target::New(_))));
        assert_eq!(target, key.target(&long(1, &[5; 8])));
        assert_ne!(target, key.target(&long(1, &[6; 8])));
        assert!(matches!(key.target(&long(1, &[6; 255])), Some(Target::New(_))));
    }

    #[test]
    fn a_datagram_that_is_cut_off_or_of_another_version_has_no_target() {
        let key = IdKey::new(&[1; 32]);
        let id = key.seal(OWNER);
        for length in 0..6 + 16 {
            assert_eq!(key.target(&long(1, &id)[..length]), None);
        }
        for length in 0..17 {
            assert_eq!(key.target(&short(&id)[..length]), None);
        }
        assert_eq!(key.target(&long(2, &id)), None);
    }
}
