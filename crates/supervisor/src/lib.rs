//! The privileged process of the server: binds sockets, and starts, reaps and restarts the other
//! processes.
//!
//! The supervisor has one thread, parses no HTTP, and trusts neither the router nor a prototype:
//! their messages are checked, and the router gets only resources that the administrator's document
//! names ([`Grants`]). It keeps every listening socket, so that no connection in a backlog is lost
//! when the router is replaced.
//!
//! - [`Options`]: the settings of the command line.
//! - `tree`: the event loop and its messages.
//! - `changes`, `grants`: the running configuration, the next one, and the resources that each
//!   names.
//! - `document_state`: whether the document that runs is the one at its source.
//! - `unprivileged`: starts the router and the control process; `router`, `control`: their first
//!   messages; `outbox`: messages that the router has not read yet; `memory`: texts as descriptors.
//! - `prototype`: applications, their prototypes and workers; `usage`: memory and processor time.
//! - `launch`: the steps from a fork to a prototype; `identity`, `rootfs`, `control_groups`: its
//!   user, its root directory and its control group.
//! - `job_launch`: the same steps for a job, a command of an application that runs beside its pages.
//! - `resources`: how the limits of all processes of an application are kept; `counting`: counts what
//!   they use where no control group does.
//! - `zygote`: a process that prototypes are forked from.
//! - `file_helpers`: processes that open and read files, which may wait for a disk; `file_helper`:
//!   one of them; `file_task`: their tasks; `application_checks`: which applications could not
//!   start, or have lost their document roots; `table_reader`: tables in files that have changed.
//! - `mail`: mail of applications, and the mail process.
//! - `running_user`: whether the user of an application that runs is as it was.
//! - `liveness`: whether a process of the server answers.
//! - `programs`: programs that change DNS records.
//! - [`check`]: checks for `howdah check`.
//! - `handover`: an upgrade: the old server, the new one, and the state that passes between them.
//! - `start_files`: files that the start of an application may wait for.
//! - [`state_format`]: the format of the directory of the stored configuration.
//! - `sockets`: listening sockets, opened or inherited (`passed_socket`); `descriptor_store`: keeps
//!   them at the service manager; `service_manager`: state of the notifications to it.
//! - `address`: addresses of sockets in documents; `ports`: the programs that listen on this
//!   machine.
//! - `store`, `last_document`, `pid_file`, `certificates`: files that outlive the process.
//! - `safe_path`: paths through directories of other users.
#![forbid(unsafe_code)]

#[macro_use(eprintln)]
extern crate howdah_sys;

mod address;
mod apart;
mod application_checks;
mod backoff;
mod cache_file;
mod certificates;
mod changes;
pub mod check;
mod control;
mod control_groups;
mod counting;
mod descriptor_store;
mod document_state;
mod file_helper;
mod file_helpers;
mod file_task;
mod grants;
mod handover;
mod http3_secret;
mod identity;
mod job_launch;
mod last_document;
mod launch;
mod liveness;
mod log_socket;
mod mail;
mod memory;
mod options;
mod outbox;
mod output;
mod passed_socket;
mod pauses_file;
mod pid_file;
mod ports;
mod programs;
mod prototype;
mod resources;
mod rootfs;
mod router;
mod router_link;
mod running_user;
mod safe_path;
mod service_manager;
mod site_counts;
mod sockets;
mod start_files;
pub mod state_format;
mod store;
mod table_reader;
mod time_zones;
mod tree;
mod unprivileged;
mod usage;
mod usage_file;
mod zygote;

pub use apart::{Apart, read_apart};
pub use file_helper::file_progress;
pub use grants::{DeriveGrants, Grants, Names, SocketAccess};
pub use handover::{Invocation, Predecessor};
pub use last_document::{LastDocument, load as load_last_document};
pub use options::{
    CompileDocument, LogTarget, Options, PhpProgram, ReloadDocument, ServerNumbers, TableFiles,
    UnusableProgram,
};
pub use passed_socket::{InheritedSocket, Owner as SocketOwner};
pub use store::{load_document, open_log, stored_document};
#[cfg(any(test, feature = "model"))]
pub use tree::model;
pub use tree::{Ending, run};
pub use unprivileged::{
    CONTROL_TITLE, DASHBOARD_TITLE, MAIL_TITLE, NAMESPACE_TITLE, ROUTER_TITLE, TELEMETRY_TITLE,
    assume_role,
};
pub use usage::busy_time;
