//! The `howdah` command: flags, wiring, exit codes.
#![forbid(unsafe_code)]

mod check;
mod cli;
mod control;
mod control_api;
mod daemon;
mod https;
mod local_tls;
mod php_programs;
mod places;
mod serve;
mod server_status;
mod site_access;
mod tuning;
mod version;

use std::process::ExitCode;

fn main() -> ExitCode {
    if std::env::args_os().next().is_some_and(|name| name == howdah_supervisor::ROUTER_TITLE) {
        return router();
    }
    let result = match cli::parse() {
        cli::Command::Serve(arguments) => serve::run(*arguments),
        cli::Command::Check(arguments) => check::run(&arguments),
        cli::Command::Completions(shell) => {
            print!("{}", cli::completions(shell));
            Ok(())
        }
        cli::Command::Schema => {
            println!("{:#}", howdah_config::schema());
            Ok(())
        }
        cli::Command::Control(command) => return control::run(command),
        cli::Command::Version => {
            print!("{}", version::text());
            Ok(())
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("howdah: {problem}");
            ExitCode::FAILURE
        }
    }
}

/// This process was started by the supervisor to be the router.
fn router() -> ExitCode {
    match howdah_sys::process::take_inherited(3) {
        Some(socket) => ExitCode::from(howdah_server::router::run(socket, control_api::start)),
        None => {
            eprintln!("howdah: the router is started by the server itself");
            ExitCode::FAILURE
        }
    }
}
