//! The limit of open files. Supervisor and router get the highest limit that the system allows:
//! they have a descriptor for each worker and each connection. All other processes get the original
//! limit, because some programs call `select` or close every possible descriptor.

use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The limit that this process was started with.
static ORIGINAL: OnceLock<Rlimit> = OnceLock::new();

/// Raises the limit of this process.
pub fn raise() {
    let limit = getrlimit(Resource::Nofile);
    // If this fails, some workers may have no descriptor here; they are killed through their
    // prototypes.
    if setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).is_ok() {
        let _ = ORIGINAL.set(limit);
    }
}

/// Remembers the limit of this process as the one that it was started with.
pub fn record() {
    let _ = ORIGINAL.set(getrlimit(Resource::Nofile));
}

/// Restores the limit in a process of an application, with half of the hard limit. The kernel
/// limits the descriptors of a user that are in transit through sockets to the sender's limit of
/// open files: with the same limit, scripts could keep a router of the same user from sending any.
pub fn restore_for_application() -> rustix::io::Result<()> {
    let Some(Rlimit { current, maximum }) = ORIGINAL.get() else { return Ok(()) };
    let half = maximum.map(|most| most / 2);
    let current = match half {
        Some(half) => Some(current.map_or(half, |current| current.min(half))),
        None => *current,
    };
    setrlimit(Resource::Nofile, Rlimit { current, maximum: half })
}

/// Restores the limit in a new process.
pub fn restore() -> rustix::io::Result<()> {
    ORIGINAL.get().map_or(Ok(()), |limit| setrlimit(Resource::Nofile, *limit))
}
