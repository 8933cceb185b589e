//! Collecting the body of a request: in memory, then in an unlinked file.

use std::fs::File;
use std::io;
use std::path::Path;

use bytes::Bytes;

use crate::exchange::{BodyError, Exchange};
use crate::memory::{Charge, Owner, REQUESTS};
use crate::spool::{create_temporary_file, write_temporary};
use crate::turn::TURN_BYTES;

/// A complete body.
#[derive(Debug)]
pub enum RequestBody {
    /// Bytes in memory.
    Memory(Bytes),
    /// Unlinked file, and the length of the body in bytes.
    File(File, u64),
}

/// Reason for which a body could not be collected.
#[derive(Debug)]
pub enum CollectError {
    /// The client did not send it.
    Client(BodyError),
    /// The body could not be stored.
    Disk(io::Error),
}

impl RequestBody {
    /// Returns the number of bytes.
    pub fn len(&self) -> u64 {
        match self {
            RequestBody::Memory(bytes) => bytes.len() as u64,
            RequestBody::File(_, len) => *len,
        }
    }

    /// Returns true if the body is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Collects the body of a request of `owner`: up to `memory` bytes in memory, a longer one in a
/// file in `directory`, and so one for which the owner has no memory left.
pub async fn collect(
    exchange: &mut Exchange<'_>,
    memory: u64,
    directory: &Path,
    owner: Owner,
) -> Result<RequestBody, CollectError> {
    if exchange.body_len() == Some(0) {
        return Ok(RequestBody::Memory(Bytes::new()));
    }
    let mut charge = Charge::new(&REQUESTS, owner);
    let mut first = Vec::new();
    let mut file: Option<StoredBody> = None;
    if exchange.body_len().is_some_and(|len| len > memory) {
        file = Some(StoredBody::new(directory)?);
    }
    while let Some(bytes) = exchange.read_body().await.map_err(CollectError::Client)? {
        let len = first.len() + bytes.len();
        if file.is_none() && (len as u64 > memory || !charge.hold(len)) {
            let mut spilled = StoredBody::new(directory)?;
            spilled.write(&first).await?;
            file = Some(spilled);
            first = Vec::new();
            charge.release();
        }
        match &mut file {
            None => first.extend_from_slice(&bytes),
            Some(file) => file.add(&bytes).await?,
        }
    }
    Ok(match file {
        Some(mut stored) => {
            stored.flush().await?;
            RequestBody::File(stored.file, stored.len)
        }
        None => RequestBody::Memory(charge.own(first)),
    })
}

/// A body in a file.
struct StoredBody<'d> {
    directory: &'d Path,
    file: File,
    /// Number of bytes in the file.
    len: u64,
    /// Small pieces, which are written together.
    small: Vec<u8>,
    /// Number of bytes that were written since other requests have had their turn.
    written: usize,
}

/// Number of bytes of small pieces that are written together.
const SMALL_PIECES: usize = 4096;

impl StoredBody<'_> {
    fn new(directory: &Path) -> Result<StoredBody<'_>, CollectError> {
        let file = create_temporary_file(directory).map_err(CollectError::Disk)?;
        Ok(StoredBody { directory, file, len: 0, small: Vec::new(), written: 0 })
    }

    /// Adds a piece.
    async fn add(&mut self, bytes: &[u8]) -> Result<(), CollectError> {
        if self.small.len() + bytes.len() <= SMALL_PIECES {
            self.small.extend_from_slice(bytes);
            return Ok(());
        }
        self.flush().await?;
        self.write(bytes).await
    }

    /// Writes the small pieces.
    async fn flush(&mut self) -> Result<(), CollectError> {
        let small = std::mem::take(&mut self.small);
        self.write(&small).await
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), CollectError> {
        write_temporary(&self.file, self.directory, bytes, self.len).map_err(CollectError::Disk)?;
        self.len += bytes.len() as u64;
        self.written += bytes.len();
        if self.written >= TURN_BYTES {
            self.written = 0;
            tokio::task::yield_now().await;
        }
        Ok(())
    }
}
