//! Files that the supervisor reads, as the router's user may not: certificates, keys, and the
//! document that the server was started with.

use std::fs::File;
use std::io::{Read, Seek};

use howdah_wire::messages::{FromSupervisor, ToSupervisor};

use super::apply::Parts;
use crate::tls::authorities;

impl Parts<'_> {
    /// Reads a file with a certificate or a key. `Err` names it.
    pub(super) async fn read_file(&mut self, path: &str) -> Result<Vec<u8>, String> {
        let read = self.read(&ToSupervisor::ReadFile { path: path.to_owned() }).await;
        read.map_err(|error| authorities::unreadable(path, &error))
    }

    /// Reads the document again from where it came. `Err` names that.
    pub(super) async fn read_document(&mut self) -> Result<Vec<u8>, String> {
        self.read(&ToSupervisor::ReadDocument {}).await
    }

    async fn read(&mut self, request: &ToSupervisor) -> Result<Vec<u8>, String> {
        let text = |error: std::io::Error| error.to_string();
        self.link.send(request).map_err(text)?;
        loop {
            match self.receive().await? {
                (FromSupervisor::FileRead { error }, descriptors) => {
                    let mut file = File::from(descriptors.into_iter().next().ok_or(error)?);
                    let mut bytes = Vec::new();
                    file.rewind().map_err(text)?;
                    file.read_to_end(&mut bytes).map_err(text)?;
                    return Ok(bytes);
                }
                (other, descriptors) => self.meanwhile(other, descriptors)?,
            }
        }
    }
}
