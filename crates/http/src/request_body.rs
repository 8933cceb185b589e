//! A request's body, complete before a worker sees it: memory, then an unlinked file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use bytes::Bytes;

use super::spool::{temporary, trouble};
use crate::exchange::{BodyError, Exchange};

/// A complete body.
#[derive(Debug)]
pub enum RequestBody {
    /// In memory.
    Memory(Bytes),
    /// In a file, from its start.
    File(File, u64),
}

/// Why there is no body.
#[derive(Debug)]
pub enum CollectError {
    /// The client's doing.
    Client(BodyError),
    /// It could not be kept.
    Disk(io::Error),
}

impl RequestBody {
    /// Number of bytes.
    pub fn len(&self) -> u64 {
        match self {
            RequestBody::Memory(bytes) => bytes.len() as u64,
            RequestBody::File(_, len) => *len,
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Takes the body of a request: up to `memory` bytes in memory, more in a file in `directory`.
pub async fn collect(
    exchange: &mut Exchange<'_>,
    memory: u64,
    directory: &Path,
) -> Result<RequestBody, CollectError> {
    if exchange.body_len() == Some(0) {
        return Ok(RequestBody::Memory(Bytes::new()));
    }
    let disk = |error| CollectError::Disk(trouble(directory, &error));
    let mut first = Vec::new();
    let mut file: Option<(File, u64)> = None;
    if exchange.body_len().is_some_and(|len| len > memory) {
        file = Some((temporary(directory).map_err(CollectError::Disk)?, 0));
    }
    while let Some(bytes) = exchange.read_body().await.map_err(CollectError::Client)? {
        if file.is_none() && first.len() as u64 + bytes.len() as u64 > memory {
            let spilled = temporary(directory).map_err(CollectError::Disk)?;
            spilled.write_all_at(&first, 0).map_err(disk)?;
            file = Some((spilled, first.len() as u64));
        }
        match &mut file {
            None => first.extend_from_slice(&bytes),
            Some((file, len)) => {
                file.write_all_at(&bytes, *len).map_err(disk)?;
                *len += bytes.len() as u64;
            }
        }
    }
    Ok(match file {
        Some((file, len)) => RequestBody::File(file, len),
        None => RequestBody::Memory(first.into()),
    })
}
