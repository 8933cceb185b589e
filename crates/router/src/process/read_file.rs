//! Reads certificates and keys through the supervisor, as the router's user may not.

use howdah_sys::packets::from_memory;
use howdah_tls::authorities;
use howdah_wire::messages::{FromSupervisor, ToSupervisor};

use super::control_thread::{ControlThread, text};

impl ControlThread {
    /// Reads a file with a certificate or a key. The error names the file.
    pub(super) async fn read_file(&mut self, path: &str) -> Result<Vec<u8>, String> {
        let read = self.read_by_supervisor(path).await;
        read.map_err(|error| authorities::unreadable(path, &error))
    }

    async fn read_by_supervisor(&mut self, path: &str) -> Result<Vec<u8>, String> {
        self.link.send(&ToSupervisor::ReadFile { path: path.to_owned() }).map_err(text)?;
        let answer = self.receive_answer(|message| match message {
            (FromSupervisor::FileRead { error }, descriptors) => {
                Ok(descriptors.into_iter().next().ok_or(error))
            }
            other => Err(Box::new(other)),
        });
        let memory = answer.await??;
        from_memory(Some(memory), u64::MAX).map_err(text)
    }
}
