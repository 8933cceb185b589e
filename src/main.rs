//! The program `howdah`: runs a command, or one of the internal processes.
#![forbid(unsafe_code)]

#[macro_use(print, println, eprintln)]
extern crate howdah_sys;

mod check;
mod cli;
mod completion;
mod config_file;
mod directories;
mod environment;
mod fpm;
mod import;
mod manual;
mod php_programs;
mod request_lines;
mod serve;
mod server_user;
mod sites;
mod version;

use std::os::fd::OwnedFd;
use std::process::ExitCode;

use howdah_sys::log::{Level, Log};
use howdah_sys::plain::{Plain, without_numbers};

/// Exit status of a server that cannot start until an administrator has acted (`EX_CONFIG` of
/// sysexits.h). The units name it, so that systemd does not try again.
const PERMANENT_FAILURE: u8 = 78;

fn main() -> ExitCode {
    howdah_sys::process::read_auxiliary_vector();
    let title = std::env::args_os().next().unwrap_or_default();
    if title == howdah_supervisor::ROUTER_TITLE {
        return internal(howdah_router::process::run);
    }
    if title == howdah_supervisor::CONTROL_TITLE {
        return internal(howdah_control::process::run);
    }
    if title == howdah_supervisor::MAIL_TITLE {
        return internal(howdah_mail::run);
    }
    if title == howdah_supervisor::TELEMETRY_TITLE {
        return internal(howdah_telemetry::run);
    }
    if title == howdah_supervisor::DASHBOARD_TITLE {
        return internal(howdah_dashboard::process::run);
    }
    if title == howdah_supervisor::NAMESPACE_TITLE {
        howdah_sys::namespaces::wait_for_stdin_close();
        return ExitCode::SUCCESS;
    }
    if let Some(called) = fpm::Called::of_this_process() {
        return fpm::run(&called);
    }
    let result = match cli::parse() {
        cli::Command::Serve(arguments) => match serve::run(*arguments) {
            Ok(()) => Ok(()),
            Err(failure) => {
                report(&failure.problem);
                let status = if failure.is_permanent { PERMANENT_FAILURE } else { 1 };
                return ExitCode::from(status);
            }
        },
        cli::Command::Check(arguments) => check::run(&arguments),
        // `of_this_process` has taken it.
        cli::Command::Fpm(_) => Ok(()),
        cli::Command::Htaccess(cli::Htaccess::Explain(arguments)) => {
            howdah_review::explain(&arguments)
        }
        cli::Command::Import(command) => return import::run(&command),
        cli::Command::Completions { shell } => {
            print!("{}", completion::script(shell, cli::definitions()));
            Ok(())
        }
        cli::Command::Schema => {
            println!("{:#}", howdah_config::schema());
            Ok(())
        }
        cli::Command::Man { directory } => manual::write(&directory, cli::definitions()),
        cli::Command::Control(command) => return howdah_client::run(command, &sites::ThisMachine),
        cli::Command::Version => {
            print!("{}", version::text());
            Ok(())
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            report(&problem);
            ExitCode::FAILURE
        }
    }
}

/// Writes the reason of a failure to standard error, as a record if the log is in the journal or
/// JSON.
fn report(problem: &str) {
    let problem = &*without_numbers(problem);
    match Log::standard_error() {
        Ok(log) if log.is_structured() => log.write(Level::Alert, problem),
        _ => problem.lines().for_each(|line| eprintln!("howdah: {line}")),
    }
}

/// Runs a process of the supervisor on the socket that it has passed.
fn internal(run: impl FnOnce(OwnedFd) -> u8) -> ExitCode {
    if let Err(error) = howdah_supervisor::assume_role() {
        eprintln!(
            "howdah: cannot give up root's rights: {}; as root the server needs the \
             capabilities SETUID and SETGID, and user ids of its own; without them, start it as \
             the user that is to run the site",
            Plain(error)
        );
        return ExitCode::FAILURE;
    }
    match howdah_sys::process::take_inherited(3) {
        Some(socket) => ExitCode::from(run(socket)),
        None => {
            eprintln!("howdah: descriptor 3 is not open");
            ExitCode::FAILURE
        }
    }
}
