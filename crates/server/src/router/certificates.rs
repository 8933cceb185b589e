//! Stored certificates as the supervisor sends them: in sealed memory.

use std::io::{Error, Result};
use std::os::fd::OwnedFd;

use howdah_tls::stored::Certificates;

use crate::packets::from_memory;

/// Reads all certificates that the supervisor sends at the start.
pub fn read(memory: Option<OwnedFd>) -> Result<Certificates> {
    let bytes = from_memory(memory, u64::MAX)?;
    Certificates::parse(&bytes)
        .map_err(|_| Error::other("the supervisor sent malformed certificates"))
}

/// Takes one bundle that the supervisor sends. What cannot be read changes nothing.
pub(super) fn receive(certificates: &mut Certificates, name: String, memory: Option<OwnedFd>) {
    if let Ok(pem) = from_memory(memory, u64::MAX) {
        certificates.insert(name, pem.into());
    }
}
