//! Stored certificate bundles that the configuration uses, with their private keys. The supervisor
//! stores them on the disk.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use howdah_wire::bytes::Malformed;
use howdah_wire::messages::take_bundles;

/// Prefix of the names that the accounts of certificate authorities are stored under.
pub const ACCOUNT_PREFIX: &str = "acme-account:";

/// Certificate bundles (PEM) by name.
#[derive(Clone, Default)]
pub struct Certificates(BTreeMap<String, Arc<[u8]>>);

/// Returns true for stored names that the server itself manages: users cannot change them.
pub fn is_reserved(name: &str) -> bool {
    name.starts_with(howdah_config::Acme::PREFIX) || name.starts_with(ACCOUNT_PREFIX)
}

impl Certificates {
    /// Decodes the bundles of a supervisor's message.
    pub fn parse(bytes: &[u8]) -> Result<Certificates, Malformed> {
        let own = |(name, pem): &(&str, &[u8])| ((*name).into(), (*pem).into());
        Ok(Certificates(take_bundles(bytes)?.iter().map(own).collect()))
    }

    /// Returns the bundle of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<[u8]>> {
        self.0.get(name)
    }

    /// Returns all bundles: names and texts.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0.iter().map(|(name, pem)| (name.as_str(), &**pem))
    }

    /// Adds a bundle, or replaces the bundle of this name.
    pub fn insert(&mut self, name: String, pem: Arc<[u8]>) {
        self.0.insert(name, pem);
    }

    /// Removes the bundle of this name.
    pub fn remove(&mut self, name: &str) {
        self.0.remove(name);
    }
}

/// Shows names only, so that no log contains a key.
impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_not_shown_by_mistake() {
        let mut certificates = Certificates::default();
        certificates.insert("blog".to_owned(), b"secret".to_vec().into());
        assert_eq!(format!("{certificates:?}"), "{\"blog\"}");
    }
}
