//! Packet sockets to other processes of the server, and messages in memory for long ones.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, memfd_create};
use tokio::io::unix::AsyncFd;

use crate::packet::{self, MAX_PACKET, Received};
use crate::reactor;

/// An end of a packet socket, registered with the thread's runtime.
#[derive(Debug)]
pub struct Packets(AsyncFd<OwnedFd>);

impl Packets {
    /// Takes over the socket and makes it non-blocking.
    pub fn new(socket: OwnedFd) -> io::Result<Self> {
        let flags = rustix::fs::fcntl_getfl(&socket)?;
        rustix::fs::fcntl_setfl(&socket, flags | rustix::fs::OFlags::NONBLOCK)?;
        Ok(Packets(reactor::readable(socket)?))
    }

    /// Sends a packet. Blocks the thread while the socket is full.
    pub fn send(&self, packet: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        loop {
            match packet::send(self.0.get_ref(), packet, descriptors) {
                Err(rustix::io::Errno::AGAIN) => {
                    let mut wait = [rustix::event::PollFd::from_borrowed_fd(
                        self.0.get_ref().as_fd(),
                        rustix::event::PollFlags::OUT,
                    )];
                    let _ = rustix::event::poll(&mut wait, None);
                }
                result => return Ok(result?),
            }
        }
    }

    /// Sends a packet; an error of kind `WouldBlock` if the socket is full.
    pub fn try_send(&self, packet: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        Ok(packet::send(self.0.get_ref(), packet, descriptors)?)
    }

    /// Waits for a packet and its descriptors; returns `None` when the other end is closed. Safe to
    /// cancel.
    pub async fn receive(&self) -> io::Result<Option<(Vec<u8>, Vec<OwnedFd>)>> {
        let mut buffer = vec![0; MAX_PACKET];
        loop {
            let mut ready = self.0.readable().await?;
            match packet::receive(self.0.get_ref(), &mut buffer)? {
                Received::Empty => ready.clear_ready(),
                Received::Closed => return Ok(None),
                Received::Packet(length, descriptors) => {
                    buffer.truncate(length);
                    return Ok(Some((buffer, descriptors)));
                }
            }
        }
    }
}

/// Copies bytes to a memfd, for messages that are too long for a packet.
pub fn to_memory(bytes: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(memfd_create("message", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    Ok(file.into())
}

/// As [`to_memory`], and nobody can change the bytes any more.
pub fn to_sealed_memory(bytes: &[u8]) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let mut file = File::from(memfd_create("message", flags)?);
    file.write_all(bytes)?;
    fcntl_add_seals(&file, CONSTANT | SealFlags::SEAL)?;
    Ok(file.into())
}

/// Reads the bytes of a descriptor that [`to_sealed_memory`] has made. As [`from_memory`], and other
/// files are errors, too, as to read them could take long.
pub fn from_sealed_memory(memory: Option<OwnedFd>, max: u64) -> io::Result<Vec<u8>> {
    let memory = memory.ok_or_else(|| io::Error::other("a descriptor is missing"))?;
    // An error for all but memfd and files of tmpfs.
    let seals = fcntl_get_seals(&memory)?;
    if seals.contains(CONSTANT) {
        from_memory(Some(memory), max)
    } else {
        Err(io::Error::other("the memory is not sealed"))
    }
}

/// The bytes do not change.
const CONSTANT: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::WRITE);

/// Reads the bytes of a descriptor that [`to_memory`] has made. A missing descriptor, one that is
/// not a file, and more than `max` bytes are errors.
pub fn from_memory(memory: Option<OwnedFd>, max: u64) -> io::Result<Vec<u8>> {
    let memory = memory.ok_or_else(|| io::Error::other("a descriptor is missing"))?;
    let mut file = File::from(memory);
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("the descriptor is not a file"));
    }
    file.rewind()?;
    let mut bytes = Vec::new();
    file.take(max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max {
        Err(io::Error::other(format!("there are more than {max} bytes")))
    } else {
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_can_change_is_not_read_as_sealed() {
        let sealed = to_sealed_memory(b"hello").unwrap();
        assert!(File::from(sealed.try_clone().unwrap()).write_all(b"x").is_err());
        assert!(File::from(sealed.try_clone().unwrap()).set_len(1).is_err());
        assert_eq!(from_sealed_memory(sealed.try_clone().ok(), 5).unwrap(), b"hello");
        assert!(from_sealed_memory(sealed.try_clone().ok(), 4).is_err());
        for other in [to_memory(b"hello").unwrap(), File::open("/etc/passwd").unwrap().into()] {
            assert!(from_sealed_memory(Some(other), 100).is_err());
        }
        let (end, _) = packet::pair().unwrap();
        assert!(from_sealed_memory(Some(end), 100).is_err());
        assert!(from_sealed_memory(None, 100).is_err());
        assert_eq!(from_memory(Some(sealed), 5).unwrap(), b"hello");
    }
}
