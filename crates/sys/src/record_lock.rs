//! Record locks (`fcntl(2)`), which belong to a process and end with it.

use std::io;

/// Takes a shared lock on one byte of an open file; does not wait for it.
pub fn share(fd: i32, byte: u64) -> io::Result<()> {
    let start = i64::try_from(byte).map_err(io::Error::other)?;
    let lock = libc::flock {
        l_type: libc::F_RDLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: start,
        l_len: 1,
        l_pid: 0,
    };
    // SAFETY: the call reads the structure, and fails if the number is not a descriptor.
    match unsafe { libc::fcntl(fd, libc::F_SETLK, &raw const lock) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn a_lock_can_be_shared_and_needs_a_file() {
        let file = tempfile::tempfile().unwrap();
        share(file.as_raw_fd(), 1).unwrap();
        share(file.as_raw_fd(), 1).unwrap();
        assert!(share(-1, 1).is_err());
    }
}
