//! The privileged process tree: binds sockets, starts, reaps and respawns.
//!
//! The supervisor has one thread, parses neither HTTP nor JSON, and trusts nobody: what the
//! router and the prototypes send is decoded, checked, and never used as an index or a path that
//! they could not have used themselves. It keeps every listening socket, so that no connection
//! in a backlog is lost when the router is replaced.
//!
//! - [`Options`]: what it is started with.
//! - `tree`: the event loop, and what each message does.
//! - `router`, `prototype`: starting these processes.
//! - `sockets`: listening sockets.
//! - `store`: files that survive: configuration, PID file, log.
#![forbid(unsafe_code)]

mod backoff;
mod options;
mod output;
mod prototype;
mod router;
mod sockets;
mod store;
mod tree;

pub use options::{Options, PhpProgram};
pub use router::TITLE as ROUTER_TITLE;
pub use store::{load_document, open_log};
pub use tree::{Ending, run};
