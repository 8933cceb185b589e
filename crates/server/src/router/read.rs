//! Files that the supervisor reads, as the router's user may not: certificates and keys.

use howdah_tls::authorities;
use howdah_wire::messages::{FromSupervisor, ToSupervisor};

use super::apply::Parts;
use crate::packets::from_memory;

impl Parts<'_> {
    /// Reads a file with a certificate or a key. `Err` names it.
    pub(super) async fn read_file(&mut self, path: &str) -> Result<Vec<u8>, String> {
        let read = self.read(&ToSupervisor::ReadFile { path: path.to_owned() }).await;
        read.map_err(|error| authorities::unreadable(path, &error))
    }

    async fn read(&mut self, request: &ToSupervisor) -> Result<Vec<u8>, String> {
        let text = |error: std::io::Error| error.to_string();
        self.link.send(request).map_err(text)?;
        loop {
            match self.receive().await? {
                (FromSupervisor::FileRead { error }, descriptors) => {
                    let memory = descriptors.into_iter().next().ok_or(error)?;
                    return from_memory(Some(memory), u64::MAX).map_err(text);
                }
                (other, descriptors) => self.meanwhile(other, descriptors)?,
            }
        }
    }
}
