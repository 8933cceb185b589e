//! Random secrets.

use std::fmt;

use aws_lc_rs::{constant_time, hmac, rand};
use howdah_text::hex;

/// Number of random bytes.
const BYTES: usize = 32;

/// A random secret. `Debug` does not show it.
#[derive(Clone)]
pub(crate) struct Secret([u8; BYTES]);

impl Secret {
    /// Returns a new secret.
    ///
    /// # Errors
    /// The kernel has no random bytes.
    pub(crate) fn new() -> Result<Secret, String> {
        let mut bytes = [0; BYTES];
        rand::fill(&mut bytes).map_err(|_| "the kernel gives no random bytes".to_owned())?;
        Ok(Secret(bytes))
    }

    /// Returns the secret as text.
    pub(crate) fn expose(&self) -> String {
        hex::lower(&self.0)
    }

    /// Returns true if this is the text of the secret. Takes the same time for all texts of its
    /// length.
    pub(crate) fn is(&self, given: &[u8]) -> bool {
        are_equal(self.expose().as_bytes(), given)
    }

    /// Returns a text that only the owner of the secret can make of this subject.
    pub(crate) fn sign(&self, subject: &str) -> String {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.0);
        hex::lower(hmac::sign(&key, subject.as_bytes()).as_ref())
    }
}

/// Compares secrets in a time that depends on their lengths only.
pub(crate) fn are_equal(secret: &[u8], given: &[u8]) -> bool {
    constant_time::verify_slices_are_equal(secret, given).is_ok()
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}
