//! Passwords of a site whose stored forms are in files that its directives name.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::htpasswd::Hash;
use super::turns::Permits;
use super::{MAX_PASSWORD_BYTES, compare};

/// Maximum number of passwords that are remembered.
const MAX_KNOWN: usize = 4096;

/// Permits for checks, and keyed hashes of passwords that were right. A stored form is a part of
/// the hash: after a change of the file, it is another one.
#[derive(Debug, Default)]
pub struct Passwords {
    permits: Permits,
    keys: [RandomState; 2],
    known: Mutex<HashSet<[u64; 2]>>,
}

impl Passwords {
    fn known(&self) -> MutexGuard<'_, HashSet<[u64; 2]>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers that a password was right. If there are too many, all others are forgotten.
    fn remember(&self, key: [u64; 2]) {
        let mut known = self.known();
        if known.len() >= MAX_KNOWN {
            known.clear();
        }
        known.insert(key);
    }
}

/// Returns true if a stored hash accepts the password of a client. False as well if its kind is
/// unknown, or if it would take too long; `None` if too many checks wait.
pub async fn verify(
    passwords: &Passwords,
    client: Option<IpAddr>,
    password: &[u8],
    stored: &[u8],
) -> Option<bool> {
    let Some(hash) = Hash::usable(stored) else { return Some(false) };
    if password.len() > MAX_PASSWORD_BYTES {
        return Some(false);
    }
    if !hash.is_slow() {
        return compare(hash, password.to_vec(), None).await.ok();
    }
    let key = passwords.keys.each_ref().map(|key| key.hash_one((password, stored)));
    if passwords.known().contains(&key) {
        return Some(true);
    }
    let turn = passwords.permits.next(client).await?;
    // Another request may have verified the same password while this one waited.
    if passwords.known().contains(&key) {
        return Some(true);
    }
    let accepts = compare(hash, password.to_vec(), Some(turn)).await.ok()?;
    if accepts {
        passwords.remember(key);
    }
    Some(accepts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_passwords_that_were_right_is_limited() {
        let passwords = Passwords::default();
        for number in 0..3 * MAX_KNOWN as u64 {
            passwords.remember([number, 0]);
            assert!(
                passwords.known().contains(&[number, 0]) && passwords.known().len() <= MAX_KNOWN
            );
        }
    }
}
