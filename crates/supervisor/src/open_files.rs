//! How many files supervisor and router may have open: one has a descriptor for each worker, the other
//! for each connection, so as many as the system allows. Everything else gets the usual limit, for the
//! sake of programs that call `select` or that close each descriptor there could be.

use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The limit that this process was started with.
static USUAL: OnceLock<Rlimit> = OnceLock::new();

/// Raises the limit of this process.
pub(crate) fn raise() {
    let limit = getrlimit(Resource::Nofile);
    // Without, some workers are killed through their prototypes.
    if setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).is_ok() {
        let _ = USUAL.set(limit);
    }
}

/// Sets the limit of this process, one of an application, to what it would have been, and its hard limit
/// to less than the router has: as many descriptors of one user may be on their way through sockets
/// as who sends the next one may have open, so that scripts could keep a router of the same user
/// from sending any.
pub(crate) fn restore_for_application() -> rustix::io::Result<()> {
    let Some(Rlimit { current, maximum }) = USUAL.get() else { return Ok(()) };
    let half = maximum.map(|most| most / 2);
    let current = match half {
        Some(half) => Some(current.map_or(half, |current| current.min(half))),
        None => *current,
    };
    setrlimit(Resource::Nofile, Rlimit { current, maximum: half })
}

/// Sets the limit of this process, a new one, to what it would have been.
pub(crate) fn restore() -> rustix::io::Result<()> {
    USUAL.get().map_or(Ok(()), |limit| setrlimit(Resource::Nofile, *limit))
}
