//! The privileged process tree: binds sockets, starts, reaps and respawns.
//!
//! The supervisor has one thread, parses neither HTTP nor JSON, and trusts nobody: what the
//! router and the prototypes send is decoded, checked, and never used as an index or a path that
//! they could not have used themselves. It keeps every listening socket, so that no connection
//! in a backlog is lost when the router is replaced.
//!
//! - [`Options`]: what it is started with.
//! - `tree`: the event loop, and what each message does.
//! - `router`, `prototype`: these processes, and what is known of them.
//! - `launch`: what a prototype gives up before it runs; `identity`, `rootfs`, `control_groups`:
//!   who it is, what it sees, and what it may use.
//! - [`check`]: whether all that could be done.
//! - `sockets`: listening sockets.
//! - `store`: files that survive: configuration, PID file, log.
//! - `certificates`: certificate bundles.
//! - `place`: paths that lead through directories of others.
#![forbid(unsafe_code)]

mod backoff;
mod certificates;
pub mod check;
mod control_groups;
#[cfg(test)]
mod fixture;
mod identity;
mod launch;
mod options;
mod output;
mod place;
mod programs;
mod prototype;
mod rootfs;
mod router;
mod sockets;
mod store;
mod tree;

pub use options::{Options, PhpProgram, ReadAgain};
pub use router::TITLE as ROUTER_TITLE;
pub use store::{load_document, open_log};
pub use tree::{Ending, run};
