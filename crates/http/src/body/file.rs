//! Reading files without blocking the event loop: from the page cache at once (`RWF_NOWAIT`), from
//! the disk in a thread of the blocking pool.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use tokio::task::spawn_blocking;

use super::SendError;

/// Bytes per read.
pub const READ_SIZE: usize = 64 * 1024;

/// Loads a range of a file into the page cache, unless its last byte is there already. The bytes
/// before it are then cached too, or the kernel's read-ahead loads them.
pub async fn preload(file: &Arc<File>, offset: u64, len: u64) -> Result<(), SendError> {
    let mut byte = [0];
    let last = offset + len.saturating_sub(1);
    match preadv2(&**file, &mut [IoSliceMut::new(&mut byte)], last, ReadWriteFlags::NOWAIT) {
        Ok(0) => return Err(SendError::BodyFailed),
        Ok(_) => return Ok(()),
        // Not cached, or a file system that cannot tell.
        Err(Errno::AGAIN | Errno::OPNOTSUPP | Errno::INTR | Errno::NOSYS) => {}
        Err(_) => return Err(SendError::BodyFailed),
    }
    let file = Arc::clone(file);
    let read = spawn_blocking(move || {
        let mut buffer = vec![0; READ_SIZE];
        let mut at = offset;
        while at < offset + len {
            let count = (offset + len - at).min(READ_SIZE as u64) as usize;
            match file.read_at(buffer.get_mut(..count).unwrap_or_default(), at)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => at += n as u64,
            }
        }
        io::Result::Ok(())
    });
    read.await.map_err(|_| SendError::BodyFailed)?.map_err(|_| SendError::BodyFailed)
}

/// Reads 1 to `len` bytes. Fails at the end of the file.
pub async fn read(file: &Arc<File>, offset: u64, len: usize) -> Result<Bytes, SendError> {
    let mut buffer = vec![0; len];
    let cached =
        preadv2(&**file, &mut [IoSliceMut::new(&mut buffer)], offset, ReadWriteFlags::NOWAIT);
    let count = match cached {
        Ok(count) => count,
        Err(Errno::AGAIN | Errno::OPNOTSUPP | Errno::INTR | Errno::NOSYS) => {
            let file = Arc::clone(file);
            let read = spawn_blocking(move || {
                let count = file.read_at(&mut buffer, offset)?;
                io::Result::Ok((buffer, count))
            });
            let (read, count) = read
                .await
                .map_err(|_| SendError::BodyFailed)?
                .map_err(|_| SendError::BodyFailed)?;
            buffer = read;
            count
        }
        Err(_) => return Err(SendError::BodyFailed),
    };
    if count == 0 {
        return Err(SendError::BodyFailed);
    }
    buffer.truncate(count);
    Ok(buffer.into())
}
