//! The privileged process tree: binds sockets, starts, reaps and respawns.
//!
//! The supervisor has one thread, parses no HTTP, and trusts neither the router nor a prototype: what
//! they send is decoded and checked, and what the router asks for must be named by a document that
//! the administrator gave ([`Grants`]). It keeps every listening socket, so that no connection in a
//! backlog is lost when the router is replaced.
//!
//! - [`Options`]: what it is started with.
//! - `tree`: the event loop, and what each message does.
//! - `changes`, `grants`: the configuration that runs, the next one, and what each names.
//! - `unprivileged`: how the router and the control process are started; `router`, `control`,
//!   `prototype`: these processes, and what is known of them; `outbox`: what the router has not read
//!   yet; `usage`: what workers cost.
//! - `launch`: what a prototype gives up before it runs; `identity`, `rootfs`, `control_groups`,
//!   `sandbox`: who it is, what it sees, and what it may use.
//! - [`check`]: whether all that could be done.
//! - `sockets`: listening sockets.
//! - `store`: files that survive: configuration, PID file, log.
//! - `certificates`: certificate bundles.
//! - `place`: paths that lead through directories of others.
#![forbid(unsafe_code)]

mod backoff;
mod certificates;
mod changes;
pub mod check;
mod control;
mod control_groups;
#[cfg(any(test, feature = "model"))]
mod fixture;
mod grants;
mod identity;
mod launch;
mod memory;
mod open_files;
mod options;
mod outbox;
mod output;
mod pid_file;
mod place;
mod programs;
mod prototype;
mod rootfs;
mod router;
mod sandbox;
mod sockets;
mod store;
mod tree;
mod unprivileged;
mod usage;

pub use grants::{Derive, Grants, Names};
pub use options::{Options, PhpProgram, ReadAgain};
pub use store::{load_document, open_log};
#[cfg(any(test, feature = "model"))]
pub use tree::model;
pub use tree::{Ending, run};
pub use unprivileged::{CONTROL_TITLE, NAMESPACE_TITLE, ROUTER_TITLE, give_up_rights};
