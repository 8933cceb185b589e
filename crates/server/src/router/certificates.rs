//! The stored certificate bundles that the configuration uses: the text of each, keys included. The
//! supervisor keeps them on the disk.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{Error, Result};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use howdah_wire::messages::take_bundles;

use crate::packets::from_memory;

/// Certificate bundles (PEM) by name.
#[derive(Clone, Default)]
pub struct Certificates(BTreeMap<String, Arc<[u8]>>);

impl Certificates {
    /// Reads what the supervisor sends at the start.
    pub fn read(memory: Option<OwnedFd>) -> Result<Certificates> {
        let bytes = from_memory(memory, u64::MAX)?;
        let bundles = take_bundles(&bytes)
            .map_err(|_| Error::other("the supervisor sent malformed certificates"))?;
        Ok(Certificates(
            bundles.iter().map(|(name, pem)| ((*name).into(), (*pem).into())).collect(),
        ))
    }

    /// The bundle of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<[u8]>> {
        self.0.get(name)
    }

    /// All of them: names and texts.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0.iter().map(|(name, pem)| (name.as_str(), &**pem))
    }

    /// Takes a bundle that the supervisor sends.
    pub(super) fn receive(&mut self, name: String, memory: Option<OwnedFd>) {
        if let Ok(pem) = from_memory(memory, u64::MAX) {
            self.insert(name, pem.into());
        }
    }

    pub(crate) fn insert(&mut self, name: String, pem: Arc<[u8]>) {
        self.0.insert(name, pem);
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.0.remove(name);
    }
}

/// Whoever writes this to a log does not write the keys.
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
