//! Collecting the body of a request: in memory, then in an unlinked file.

use std::fs::File;
use std::io;
use std::path::Path;

use bytes::Bytes;

use crate::exchange::{BodyError, Exchange};
use crate::memory::{Charge, Owner, REQUESTS};
use crate::spool::{create_temporary_file, write_temporary};

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

/// Collects the body of a request of `owner`: up to `memory` bytes in memory, a longer one in a file in
/// `directory`, and so one for which the owner has no memory left.
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
    let mut file: Option<(File, u64)> = None;
    if exchange.body_len().is_some_and(|len| len > memory) {
        file = Some((create_temporary_file(directory).map_err(CollectError::Disk)?, 0));
    }
    while let Some(bytes) = exchange.read_body().await.map_err(CollectError::Client)? {
        let len = first.len() + bytes.len();
        if file.is_none() && (len as u64 > memory || !charge.hold(len)) {
            let spilled = create_temporary_file(directory).map_err(CollectError::Disk)?;
            write_temporary(&spilled, directory, &first, 0).map_err(CollectError::Disk)?;
            file = Some((spilled, first.len() as u64));
            first = Vec::new();
            charge.release();
        }
        match &mut file {
            None => first.extend_from_slice(&bytes),
            Some((file, len)) => {
                write_temporary(file, directory, &bytes, *len).map_err(CollectError::Disk)?;
                *len += bytes.len() as u64;
            }
        }
    }
    Ok(match file {
        Some((file, len)) => RequestBody::File(file, len),
        None => RequestBody::Memory(charge.own(first)),
    })
}
