//! Bytes that are sent as a descriptor of memory (memfd).

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use rustix::fs::{MemfdFlags, fcntl_get_seals, memfd_create};

/// Copies bytes into a new memory file. `name` is shown in /proc.
pub(crate) fn memory_file(name: &str, bytes: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(memfd_create(name, MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    Ok(file.into())
}

/// Reads the first of some descriptors, at most `limit` bytes. Fails if it is not a memory file:
/// reading a file of a file system that its sender provides could block this process.
pub(crate) fn read_memory_file(descriptors: Vec<OwnedFd>, limit: u64) -> io::Result<Vec<u8>> {
    let file = descriptors.into_iter().next().map(File::from);
    let file = file.ok_or_else(|| io::Error::other("no descriptor was sent"))?;
    fcntl_get_seals(&file).map_err(|_| io::Error::other("the descriptor is not a memory file"))?;
    let metadata = file.metadata()?;
    if metadata.len() > limit {
        return Err(io::Error::other(format!("it has more than {limit} bytes")));
    }
    let mut bytes = vec![0; metadata.len() as usize];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}
