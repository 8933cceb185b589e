//! Reads the memory of another process while it runs.
//!
//! The kernel permits this to a process that may debug the other one: in general to its parent with
//! the same user. The other process is neither stopped nor attached to.

use std::io;

/// A process whose memory is read.
#[derive(Debug, Clone, Copy)]
pub struct Process(
    /// Process id.
    pub u32,
);

impl Process {
    /// Reads memory at an address into a buffer. Error: a part of the range is not mapped.
    pub fn read(&self, address: u64, buffer: &mut [u8]) -> io::Result<()> {
        let pid = i32::try_from(self.0).map_err(io::Error::other)?;
        let address = usize::try_from(address).map_err(io::Error::other)?;
        let ours = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        let theirs = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: buffer.len() };
        // SAFETY: `ours` is one exclusive buffer of the given length, which may hold any bytes;
        // `theirs` is an address of the other process, which the kernel checks.
        let read = unsafe { libc::process_vm_readv(pid, &ours, 1, &theirs, 1, 0) };
        match usize::try_from(read) {
            Err(_) => Err(io::Error::last_os_error()),
            Ok(read) if read == buffer.len() => Ok(()),
            Ok(_) => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_where_there_is_some() {
        let this = Process(std::process::id());
        let (there, mut here) = (*b"12345678", [0; 8]);
        this.read(there.as_ptr() as u64, &mut here).unwrap();
        assert_eq!(here, there);
        assert!(this.read(8, &mut here).is_err());
        assert!(this.read(u64::MAX - 3, &mut here).is_err());
        assert!(Process(0).read(there.as_ptr() as u64, &mut here).is_err());
    }
}
