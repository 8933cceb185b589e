//! `howdah-php`: PHP with Howdah's SAPI; one executable per PHP version.
//!
//! The supervisor starts it as the prototype of one application. The prototype loads PHP once and
//! forks workers; a worker takes requests from the memory that it shares with the router, one at
//! a time.
//!
//! The prototype:
//!
//! - [`prototype`]: loads PHP, forks and reaps workers.
//! - [`zygote`]: starts PHP once and forks the prototypes of several applications;
//!   [`loaded_files`]: the files that it was started from; [`trusted_start`]: whether they are the
//!   administrator's.
//! - [`origin`]: the process from which workers are forked: the prototype, or the template of a
//!   resident application.
//! - [`supervisor`]: the connection to the supervisor.
//! - [`loading`]: the steps of loading PHP.
//! - [`check`]: checks an application for `howdah check`.
//! - [`start_files`]: checks the files that PHP opens while it starts.
//! - [`start_variables`]: variables that the files of settings name.
//! - [`settings`]: the application's settings in the syntax of `php.ini`.
//! - [`lock_directory`]: the directory of OPcache's lock file.
//! - [`trace`]: the stack of a worker's script, read from outside.
//! - [`usage`]: memory and processor time of workers.
//!
//! The template of a resident application:
//!
//! - [`template`]: boots the worker script and forks workers.
//! - [`open_files`]: the files that it must not share with them.
//!
//! A worker:
//!
//! - [`resident`]: runs the worker script of a resident application.
//! - [`worker`]: the loop that takes requests.
//! - [`socket`]: waiting on the socket to the router.
//! - [`parameters`]: the CGI parameters in the form that C reads.
//! - [`document_root`]: document roots without symbolic links.
//! - [`script_directories`]: the directories that scripts may run from.
//! - [`script_extensions`]: the endings of the names of scripts.
//! - [`body`]: the body of a request.
//! - [`exchange`]: one request: its body and its response.
//! - [`mail`]: sends the messages of `mail()`.
//! - [`memory`]: the limit of a worker's private memory.
//! - [`uploads`]: the directories of uploaded files.
//!
//! All: [`application`], the state with which they are forked, and [`ffi`], the C side.
#![deny(unsafe_code)]

// A message that cannot be written must not end a process, whoever has filled or changed its pipe.
#[macro_use(eprintln)]
extern crate howdah_sys;

mod application;
mod body;
mod check;
mod document_root;
mod exchange;
#[allow(unsafe_code)]
mod ffi;
mod loaded_files;
mod loading;
mod lock_directory;
mod mail;
mod memory;
mod open_files;
mod origin;
mod owed_wakes;
mod parameters;
mod prototype;
mod refusal;
mod resident;
mod script_directories;
mod script_extensions;
mod settings;
mod socket;
mod start_files;
mod start_variables;
mod supervisor;
mod template;
mod trace;
mod trusted_start;
mod uploads;
mod usage;
mod web_server;
mod worker;
mod zygote;

use std::ffi::OsString;
use std::process::ExitCode;

use howdah_sys::process;

use crate::lock_directory::LockDirectory;

/// Half of the memory: no router is so large that the kernel takes it before a worker.
const OUT_OF_MEMORY_PREFERENCE: i32 = 500;

fn main() -> ExitCode {
    // A failure is ignored: the preference only chooses which process the kernel kills.
    let _ = process::prefer_when_memory_runs_out(OUT_OF_MEMORY_PREFERENCE);
    // Before anything of PHP: scripts run as the same user, and a script that could trace the
    // prototype could send reports in its name.
    if let Err(error) = process::deny_tracing() {
        eprintln!("howdah-php: cannot keep other processes from tracing it: {error}");
        return ExitCode::from(2);
    }
    // The supervisor passes arguments of spaces as room for process titles.
    let spaces = |argument: &OsString| argument.as_encoded_bytes().iter().all(|b| *b == b' ');
    let mut arguments = std::env::args_os().skip(1).filter(|argument| !spaces(argument));
    match arguments.next() {
        None => prototype::run(),
        Some(option) if option == "zygote" && arguments.next().is_none() => zygote::run(),
        Some(option) if option == "--version" && arguments.next().is_none() => version(),
        Some(option) if option == "--information" => information(arguments),
        Some(_) => {
            eprintln!("howdah-php is started by howdah; for people there is only --version");
            ExitCode::from(2)
        }
    }
}

/// Prints PHP's information or modules: `all|modules INI_FILE NAME=VALUE…`; an empty `INI_FILE` is
/// that of the system.
fn information(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let mut arguments = arguments.map(|argument| argument.to_string_lossy().into_owned());
    let is_of_modules = arguments.next().is_some_and(|kind| kind == "modules");
    let ini_file = arguments.next().filter(|file| !file.is_empty());
    let lock_directory = LockDirectory::make("");
    let mut ini = String::new();
    for (name, value) in arguments.filter_map(|setting| {
        setting.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()))
    }) {
        settings::put(&name, &value, &mut ini);
    }
    if lock_directory.is_none() {
        ini.push_str("opcache.enable=0\n");
    }
    ffi::Php::skip_preload();
    let lock_directory = lock_directory.as_ref().and_then(LockDirectory::path);
    match ffi::Php::start(&ini, ini_file.as_deref(), lock_directory, || (), || ()) {
        Ok(php) => {
            let is_printed = php.print_information(is_of_modules);
            if is_printed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("howdah-php: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints the versions of PHP, Howdah and OPcache in one line.
fn version() -> ExitCode {
    let lock_directory = LockDirectory::make("");
    // The version can be printed even where OPcache cannot start.
    let ini = if lock_directory.is_none() { "opcache.enable=0" } else { "" };
    // The script of an application is not run by the user that asks for the version.
    ffi::Php::skip_preload();
    let lock_directory = lock_directory.as_ref().and_then(LockDirectory::path);
    match ffi::Php::start(ini, None, lock_directory, || (), || ()) {
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
