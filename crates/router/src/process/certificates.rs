//! The certificate store in the router: the supervisor sends certificates in sealed memory and
//! stores those that the router obtains.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use howdah_sys::packets::{from_memory, to_memory};
use howdah_tls::stored::Certificates;
use howdah_wire::messages::{FromSupervisor, ToSupervisor};

use super::control_thread::{ControlThread, text};

/// Reads all stored certificates, as the supervisor sends them at the start.
pub fn read(memory: Option<OwnedFd>) -> io::Result<Certificates> {
    let bytes = from_memory(memory, u64::MAX)?;
    Certificates::parse(&bytes)
        .map_err(|_| io::Error::other("the supervisor sent malformed certificates"))
}

impl ControlThread {
    /// Takes a bundle that the supervisor sends. A bundle that cannot be read has no effect.
    pub(super) fn on_certificate(&mut self, name: String, memory: Option<OwnedFd>) {
        if let Ok(pem) = from_memory(memory, u64::MAX) {
            self.certificates.insert(name, pem.into());
        }
    }

    /// Uses a certificate that the server has obtained itself, and stores it. Error: the reason why
    /// it is not stored; it is in use all the same.
    pub(super) async fn keep_certificate(
        &mut self,
        name: String,
        pem: Vec<u8>,
    ) -> Result<(), String> {
        let stored = self.store_certificate(&name, &pem).await;
        self.certificates.insert(name.clone(), pem.into());
        self.renew_stored(&name).await;
        stored
    }

    async fn store_certificate(&mut self, name: &str, pem: &[u8]) -> Result<(), String> {
        let memory = to_memory(pem).map_err(text)?;
        let store = ToSupervisor::StoreCertificate { name: name.to_owned() };
        self.link.send_with(&store, &[memory.as_fd()]).map_err(text)?;
        let error = self.receive_answer(|message| match message {
            (FromSupervisor::Stored { error }, _) => Ok(error),
            other => Err(Box::new(other)),
        });
        match error.await? {
            error if error.is_empty() => Ok(()),
            error => Err(error),
        }
    }
}
