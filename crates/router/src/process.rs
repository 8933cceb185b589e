//! The router process: router threads that serve, and this control thread that applies
//! configurations and manages applications for them.
//!
//! 1. `start`: the supervisor sends log, document and directories (`hello`); the process enters its
//!    sandbox and starts its threads (`threads`, `thread_loop`).
//! 2. `apply`: sockets and applications are prepared (`prepare`), then one swap makes the document
//!    the current configuration (`commit`).
//! 3. `event_loop`: from then on the control thread (`control_thread`) keeps each application at
//!    the number of workers that it needs (`pools`), applies new configurations, renews
//!    certificates (`certificate_reload`), retries the parts that are out (`out`, `listeners`),
//!    answers the supervisor's pings (`ping`), passes on what sites have used (`usage`), and
//!    carries out commands of certificate renewal (`command`) until it stops (`shutdown`). Beside it,
//!    questions of the control API are answered (`answers`), and metrics are written (`metrics`)
//!    and sent (`metrics_export`).

mod answers;
mod appeared;
mod apply;
mod cache_files;
mod caches;
mod certificate_reload;
pub mod certificates;
mod closed_listeners;
mod command;
mod commit;
mod control_thread;
mod disk;
mod event_loop;
mod hello;
mod http3;
mod jobs;
mod last_minute;
mod last_requests;
mod link;
mod listeners;
mod logs;
mod machine;
mod metrics;
mod metrics_export;
mod out;
mod out_parts;
mod ping;
mod pools;
mod prepare;
mod process_lists;
mod profile;
mod programs;
mod question;
mod read_file;
mod restart;
mod sandbox;
mod server_status;
mod shutdown;
mod site_logs;
mod slow_scripts;
mod spec;
mod start;
mod thread_loop;
mod threads;
mod timer_runs;
mod tls;
mod traces;
mod trigger;
mod usage;

use std::os::fd::OwnedFd;

pub use self::out::{Extent, OutPart, PartKind};
pub use self::sandbox::{ProcessProtection, Protection};
pub use self::spec::{spec, tls_sources};

/// Runs the router on the supervisor's socket. Returns the exit status.
pub fn run(socket: OwnedFd) -> u8 {
    howdah_sys::event_loop::run("router", start::serve(socket))
}
