//! Session tickets (`session.tickets`): encrypted sessions that clients store.
//!
//! A ticket is the name of its key, a salt, and the session with its creation time, encrypted with
//! AES-256-GCM under a key that is derived from the ticket key and the salt. A ticket key that
//! several servers share for years thus never repeats a nonce. The derivation includes the client
//! certificate rule of the session: under another rule the ticket is invalid.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::{hkdf, rand};
use howdah_config::{TicketKey, Tickets as TicketSetting, TlsSession};
use rustls::server::ProducesTickets;

const NAME_BYTES: usize = TicketKey::NAME;
const SALT_BYTES: usize = 32;
const TIME_BYTES: usize = 8;

/// Minimum age at which a generated key is replaced; a longer session timeout takes precedence.
const ROTATION_INTERVAL: Duration = Duration::from_secs(3600);

/// Encrypts and decrypts tickets.
pub(super) struct Tickets {
    keys: Keys,
    timeout: Duration,
    binding: Vec<u8>,
}

enum Keys {
    /// Configured keys; the last one encrypts.
    Configured(Vec<Key>),
    /// Keys that the server generates.
    Generated(Mutex<GeneratedKeys>),
}

struct GeneratedKeys {
    current: Key,
    since: Instant,
    previous: Option<Key>,
}

#[derive(Clone)]
struct Key {
    name: [u8; NAME_BYTES],
    secret: Vec<u8>,
}

impl Tickets {
    /// Creates the tickets; `None` if they are off.
    pub fn new(settings: &TlsSession, binding: &[u8]) -> Result<Option<Self>, String> {
        let keys = match &settings.tickets {
            TicketSetting::Off => return Ok(None),
            TicketSetting::Keys(keys) => {
                let key = |key: &TicketKey| {
                    let (name, secret) = key.as_bytes().split_first_chunk()?;
                    Some(Key { name: *name, secret: secret.to_vec() })
                };
                Keys::Configured(keys.iter().filter_map(key).collect())
            }
            TicketSetting::OwnKeys => {
                let current =
                    Key::random().ok_or("the system provides no random numbers for ticket keys")?;
                Keys::Generated(Mutex::new(GeneratedKeys {
                    current,
                    since: Instant::now(),
                    previous: None,
                }))
            }
        };
        Ok(Some(Tickets { keys, timeout: settings.timeout, binding: binding.to_vec() }))
    }

    /// Returns the key that encrypts.
    fn current(&self) -> Option<Key> {
        match &self.keys {
            Keys::Configured(keys) => keys.last().cloned(),
            Keys::Generated(own) => {
                let mut own = own.lock().unwrap_or_else(PoisonError::into_inner);
                if own.since.elapsed() > self.timeout.max(ROTATION_INTERVAL) {
                    let old = std::mem::replace(&mut own.current, Key::random()?);
                    own.previous = Some(old);
                    own.since = Instant::now();
                }
                Some(own.current.clone())
            }
        }
    }

    /// Returns the key of this name.
    fn named(&self, name: &[u8; NAME_BYTES]) -> Option<Key> {
        match &self.keys {
            Keys::Configured(keys) => keys.iter().rev().find(|key| key.name == *name).cloned(),
            Keys::Generated(own) => {
                let own = own.lock().unwrap_or_else(PoisonError::into_inner);
                let mut keys = std::iter::once(&own.current).chain(&own.previous);
                keys.find(|key| key.name == *name).cloned()
            }
        }
    }

    fn seal(&self, plain: &[u8], now: u64) -> Option<Vec<u8>> {
        let key = self.current()?;
        let mut salt = [0; SALT_BYTES];
        rand::fill(&mut salt).ok()?;
        let mut text = [&now.to_be_bytes(), plain].concat();
        let nonce = Nonce::assume_unique_for_key([0; NONCE_LEN]);
        let sealing = key.derive(&salt, &self.binding)?;
        sealing.seal_in_place_append_tag(nonce, Aad::empty(), &mut text).ok()?;
        Some([&key.name[..], &salt, &text].concat())
    }

    fn open(&self, ticket: &[u8], now: u64) -> Option<Vec<u8>> {
        let (name, rest) = ticket.split_first_chunk::<NAME_BYTES>()?;
        let (salt, sealed) = rest.split_first_chunk::<SALT_BYTES>()?;
        let key = self.named(name)?;
        let mut text = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key([0; NONCE_LEN]);
        let opening = key.derive(salt, &self.binding)?;
        let text = opening.open_in_place(nonce, Aad::empty(), &mut text).ok()?;
        let (made, plain) = text.split_first_chunk::<TIME_BYTES>()?;
        let age = now.saturating_sub(u64::from_be_bytes(*made));
        (age < self.timeout.as_secs()).then(|| plain.to_vec())
    }
}

impl Key {
    fn random() -> Option<Key> {
        let (mut name, mut secret) = ([0; NAME_BYTES], vec![0; 64]);
        rand::fill(&mut name).ok()?;
        rand::fill(&mut secret).ok()?;
        Some(Key { name, secret })
    }

    /// Derives the key of one ticket.
    fn derive(&self, salt: &[u8; SALT_BYTES], binding: &[u8]) -> Option<LessSafeKey> {
        let prk = hkdf::Salt::new(hkdf::HKDF_SHA256, salt).extract(&self.secret);
        let info = [&b"howdah session ticket"[..], binding];
        let key = prk.expand(&info, &AES_256_GCM).ok()?;
        Some(LessSafeKey::new(UnboundKey::from(key)))
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |now| now.as_secs())
}

impl std::fmt::Debug for Tickets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tickets").finish_non_exhaustive()
    }
}

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        // RFC 8446, 4.6.1: at most seven days.
        u32::try_from(self.timeout.as_secs()).unwrap_or(u32::MAX).min(604_800)
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.seal(plain, now())
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        self.open(ticket, now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tickets(tickets: TicketSetting, binding: &[u8]) -> Tickets {
        let settings = TlsSession { tickets, ..TlsSession::default() };
        Tickets::new(&settings, binding).unwrap().unwrap()
    }

    #[test]
    fn a_ticket_is_opened_only_with_its_key_in_its_time() {
        let own = tickets(TicketSetting::OwnKeys, b"");
        let ticket = own.seal(b"session", 1000).unwrap();
        assert_eq!(own.open(&ticket, 1299).as_deref(), Some(&b"session"[..]));
        assert_eq!(own.open(&ticket, 1300), None);
        for at in 0..ticket.len() {
            let mut changed = ticket.clone();
            changed[at] ^= 1;
            assert_eq!(own.open(&changed, 1000), None, "byte {at}");
            assert_eq!(own.open(&ticket[..at], 1000), None, "cut at {at}");
        }
        assert_eq!(tickets(TicketSetting::OwnKeys, b"").open(&ticket, 1000), None);
    }

    #[test]
    fn keys_of_our_own_are_changed_and_old_ones_open_what_they_sealed() {
        let own = tickets(TicketSetting::OwnKeys, b"");
        let age = |own: &Tickets| {
            let Keys::Generated(keys) = &own.keys else { unreachable!() };
            let mut keys = keys.lock().unwrap();
            keys.since = Instant::now().checked_sub(2 * ROTATION_INTERVAL).unwrap();
        };
        let first = own.seal(b"1", 0).unwrap();
        age(&own);
        let second = own.seal(b"2", 0).unwrap();
        assert_ne!(first[..NAME_BYTES], second[..NAME_BYTES]);
        assert!(own.open(&first, 0).is_some() && own.open(&second, 0).is_some());
        age(&own);
        own.seal(b"3", 0).unwrap();
        assert!(own.open(&first, 0).is_none() && own.open(&second, 0).is_some());
    }

    #[test]
    fn a_ticket_is_worthless_under_another_rule_about_clients() {
        let settings = howdah_config::parse(
            br#"{"listeners": {"*:1": {"pass": "routes", "tls": {"certificate": "a", "session": {
                "tickets": "U1oDTh11mMxODuw12gS0EXX1E/PkZG13cJNQ6m5+6BGlfPTjNlIEw7PSVU3X1gTE"
            }}}}, "routes": []}"#,
        );
        let mut settings = settings.unwrap();
        let session = settings.listeners.remove(0).tls.unwrap().session;
        let make = |binding: &[u8]| Tickets::new(&session, binding).unwrap().unwrap();
        let ticket = make(b"").seal(b"session", 0).unwrap();
        assert_eq!(make(b"clients of A").open(&ticket, 0), None);
        // Another server with the same key accepts it.
        assert_eq!(make(b"").open(&ticket, 0).as_deref(), Some(&b"session"[..]));
    }
}
