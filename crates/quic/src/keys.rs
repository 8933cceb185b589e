//! Keys of a server, derived from one secret: two processes with the same secret read each other's
//! connection ids and tokens, and reset each other's connections.

use std::sync::Arc;

use aws_lc_rs::hkdf::{HKDF_SHA256, Prk, Salt};
use aws_lc_rs::hmac;
use quinn_proto::crypto::{HandshakeTokenKey, HmacKey};

use crate::ids::{IdKey, Target};

/// Keys of a server.
#[derive(Clone)]
pub struct Keys {
    /// Of stateless resets (RFC 9000, 10.3).
    pub(crate) reset: Arc<dyn HmacKey>,
    /// Of tokens in Retry packets (RFC 9000, 8.1.2).
    pub(crate) token: Arc<dyn HandshakeTokenKey>,
    /// Of connection ids.
    pub(crate) ids: Arc<IdKey>,
}

impl Keys {
    /// Length of the secret in bytes.
    pub const SECRET_LENGTH: usize = 32;

    /// Derives the keys from a secret.
    pub fn new(secret: &[u8; Keys::SECRET_LENGTH]) -> Keys {
        let root = Salt::new(HKDF_SHA256, b"howdah quic").extract(secret);
        let id_key = derive(&root, b"connection ids");
        Keys {
            reset: Arc::new(hmac::Key::new(hmac::HMAC_SHA256, &derive(&root, b"stateless resets"))),
            token: Arc::new(Salt::new(HKDF_SHA256, b"tokens").extract(&derive(&root, b"tokens"))),
            ids: Arc::new(IdKey::new(&id_key)),
        }
    }

    /// Returns the target of a datagram; `None` if it belongs to no connection that a server with these
    /// keys has ever had, and does not begin one.
    pub fn target(&self, datagram: &[u8]) -> Option<Target> {
        self.ids.target(datagram)
    }
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keys")
    }
}

fn derive(root: &Prk, purpose: &[u8]) -> [u8; 32] {
    let mut key = [0; 32];
    let purpose = [purpose];
    // Fails only for keys of more than 255 hashes (RFC 5869, 2.3).
    let derived = root.expand(&purpose, HKDF_SHA256).and_then(|okm| okm.fill(&mut key));
    assert!(derived.is_ok(), "a key of one hash can be derived");
    key
}
