//! Descriptors in tokio's reactor.

use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Registers a non-blocking descriptor with the current runtime, to wait until it is readable.
pub fn readable(fd: OwnedFd) -> std::io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is open for as long as it lives, refers to one file description, and
    // always returns the same number; the result owns it until it is deregistered.
    let watched = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) };
    Ok(watched?)
}
