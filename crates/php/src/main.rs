//! `howdah-php`: PHP behind a SAPI of our own; one executable per PHP version.
//!
//! The supervisor starts it as the prototype of one application. The prototype loads PHP once and
//! forks workers; a worker takes requests from the memory that it shares with the router, one at
//! a time.
//!
//! - [`prototype`]: loads PHP, forks and reaps workers.
//! - [`check`]: whether an application could run.
//! - [`settings`]: the application's settings in the form that PHP reads.
//! - [`lock_directory`]: where OPcache keeps its lock file.
//! - [`mail`]: whether `mail()` can work.
//! - [`worker`]: the loop of a worker.
//! - [`trace`]: where the script of a worker is, read from outside.
//! - [`parameters`]: a request in the form that C reads.
//! - [`document_root`]: where it leads while a request runs.
//! - [`script_directories`]: which scripts may run at all.
//! - [`body`]: where the request's body comes from.
//! - [`memory`]: how much a worker has for itself, and when that is too much.
//! - [`uploads`]: where uploaded files lie, and who removes them.
//! - [`usage`]: what workers cost.
//! - [`exchange`]: one request in hand: what PHP reads and writes.
//! - [`ffi`]: the C side.
#![deny(unsafe_code)]

mod body;
mod check;
mod document_root;
mod exchange;
#[allow(unsafe_code)]
mod ffi;
mod lock_directory;
mod mail;
mod memory;
mod parameters;
mod prototype;
mod script_directories;
mod settings;
mod trace;
mod uploads;
mod usage;
mod worker;

use std::ffi::OsString;
use std::process::ExitCode;

use howdah_sys::process;

use crate::lock_directory::LockDirectory;

fn main() -> ExitCode {
    // Before anything is read. Scripts run as the same user: one that could trace their prototype
    // could speak to the supervisor in its name.
    if let Err(error) = process::deny_tracing() {
        eprintln!("howdah-php cannot keep others from tracing it: {error}");
        return ExitCode::from(2);
    }
    // The supervisor passes spaces, which make room for the titles that workers show.
    let spaces = |argument: &OsString| argument.as_encoded_bytes().iter().all(|b| *b == b' ');
    let mut arguments = std::env::args_os().skip(1).filter(|argument| !spaces(argument));
    match arguments.next() {
        None => prototype::run(),
        Some(option) if option == "--version" && arguments.next().is_none() => version(),
        Some(_) => {
            eprintln!("howdah-php is started by howdah; for people there is only --version");
            ExitCode::from(2)
        }
    }
}

/// One line that says which PHP this is and whether OPcache runs.
fn version() -> ExitCode {
    let lock_directory = LockDirectory::make("");
    // Where OPcache cannot be started, this is still that version of PHP.
    let ini = if lock_directory.is_none() { "opcache.enable=0" } else { "" };
    match ffi::Php::start(ini, None, lock_directory.as_ref().and_then(LockDirectory::path), || ()) {
        Ok(php) => {
            let opcache = php.opcache().map_or("no OPcache".into(), |v| format!("OPcache {v}"));
            println!("PHP {} (Howdah {}; {opcache})", php.version(), env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("howdah-php: {error}");
            ExitCode::FAILURE
        }
    }
}
