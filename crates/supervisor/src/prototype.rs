//! Applications: a prototype each, which has loaded PHP and forks the workers.
//!
//! A prototype runs as the user of its scripts. They cannot trace it, but a script may stop it, or
//! take control of it through PHP. So it is not trusted: the supervisor creates the sockets and
//! kills the workers, the kernel reports their deaths, and a prototype that does not answer in time
//! is killed with all processes below it.
//!
//! - `application`: the state of an application, and the start of its prototype.
//! - `commands`: requests to the prototype, and signals to workers; `pending`: requests that wait
//!   for an answer; `reports`: the answers; `unrequested`: the rate of unrequested reports.
//! - `workers`: the workers, and their processes as the kernel knows them; `worker_end`: the end of
//!   one.
//! - `counted`: ends processes of an application that uses more than its limits.
//! - `lifecycle`: watching and ending a prototype.
//! - `requirements`: the program and the user of an application; `own_start`: applications that a
//!   zygote cannot fork; `start_variables`: variables of the server for `php.ini`.

mod application;
mod commands;
mod counted;
mod lifecycle;
mod own_start;
mod pending;
mod reports;
mod requirements;
mod start_variables;
mod unrequested;
mod worker_end;
mod workers;

#[cfg(test)]
mod tests;

pub(crate) use self::application::{Application, NotForked};
pub(crate) use self::lifecycle::{DISMISSAL_TIMEOUT, STOPPED};
pub(crate) use self::own_start::{own_start, shared_ini_file};
pub(crate) use self::reports::{Report, Violation};
pub(crate) use self::requirements::{
    Requirements, check_roots, missing_php, preflight, requirements,
};
pub(crate) use self::start_variables::start_variables;
