//! The steps in which a new process of an application gives up its rights, before any code of the
//! application runs in it.
//!
//! The process is a fork of the supervisor that will execute `howdah-php`, or a fork of a zygote
//! that has loaded PHP already. Both take the same steps, in this order, as each step needs rights
//! that a later one gives up:
//!
//! 1. [`begin_session`]: signals, standard streams, a session of its own.
//! 2. [`set_limits`]: resource limits.
//! 3. [`assume_user`]: the application's user, no capabilities, no new privileges.
//! 4. [`enter`]: output files, working directory, sandbox.
//!
//! - `role`: these steps.
//! - `sandbox`: the Landlock domain and the system call filter of an application.
//! - [`known_start`]: checks of an application that starts PHP as another one does.
//! - [`open_files`]: the limit of open files.
//! - [`output_file`]: a file for the output of an application.
//! - `environment`: the environment variables of an application. Those in files are read before the
//!   second step.
#![forbid(unsafe_code)]

#[macro_use(eprintln)]
extern crate howdah_sys;

mod environment;
pub mod known_start;
pub mod open_files;
pub mod output_file;
mod role;
mod sandbox;

pub use environment::{environment, read_environment_files};
pub use role::{User, assume_user, begin_session, enter, set_limits};
