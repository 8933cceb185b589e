//! The commands that use the control API of a running server.
//!
//! `args` has the arguments, `find` chooses the server, `client` sends requests, and each command
//! is a function here or a module. The server makes all changes and checks them.

#![forbid(unsafe_code)]

#[macro_use(eprintln)]
extern crate howdah_sys;

mod args;
mod cache;
mod client;
mod copies;
mod dashboard;
mod deploy;
mod edit;
mod failure;
mod find;
mod input;
mod jobs;
mod limits;
mod output;
mod ping;
mod pools;
mod profile;
mod requests;
mod sites;
mod status;
mod top;
mod tune;
mod usage;
mod visitor;
mod worker_check;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use howdah_questions::Status;
use howdah_sys::plain::without_numbers;
use howdah_text::percent;
use serde::Deserialize;
use serde_json::Value;

pub use args::{Command, DEFAULT_CONTROL};
use args::{ConfigArgs, ConfigCommand, LimitsCommand, RestartArgs};
use client::{Client, encode};
use failure::Failure;
use find::{connect, connect_as_site_user};
use output::{json_text, print_outcome, write_out};
pub use sites::{Machine, Problem, Severity};

/// Runs a command and prints errors on standard error. The exit status is 0 for success, 1 for
/// failure, 3 if no server responds, and 4 after a reload or an upgrade with parts that are out (2
/// is for mistakes in the command line). `machine` is what commands about sites need.
pub fn run(command: Command, machine: &dyn Machine) -> ExitCode {
    match execute(command, machine) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Failed(problem)) => {
            eprintln!("howdah: {}", without_controls(&problem));
            ExitCode::FAILURE
        }
        Err(Failure::PartsOut(status)) => ExitCode::from(status),
        Err(Failure::Unreachable(problem)) => {
            eprintln!("howdah: {}", without_controls(&problem));
            ExitCode::from(3)
        }
    }
}

/// Replaces control characters other than the ends of lines: the message may be that of an
/// application, which must not command the terminal.
fn without_controls(text: &str) -> String {
    let lines: Vec<_> = without_numbers(text).lines().map(output::printable).collect();
    lines.join("\n")
}

/// Maximum time for an answer about the state, which waits only for the router.
const STATUS_TIMEOUT: Duration = Duration::from_secs(5);

fn execute(command: Command, machine: &dyn Machine) -> Result<(), Failure> {
    match command {
        Command::Cache(args) => cache::run(&connect(&args.server)?, args),
        Command::Config(args) => config(args),
        Command::Dashboard(args) => dashboard::run(args),
        Command::Jobs(args) => jobs::run(&args),
        Command::Deploy(args) => deploy::run(&args, machine),
        Command::Limits(args) => {
            let LimitsCommand::Top { json } = args.command;
            let client = connect(&args.server)?.with_timeout(STATUS_TIMEOUT);
            let status = client.request("GET", "/status", b"")?;
            if json {
                write_out(&json_text(status.get("limits").unwrap_or(&Value::Null)))
            } else {
                write_out(&limits::table(&client.read::<Status>(status)?.limits))
            }
        }
        Command::Ping(args) => ping::run(connect(&args.server)?, &args),
        Command::Profile(args) => profile::run(connect_as_site_user(&args.server)?, &args),
        Command::Reload(args) => {
            let client = connect(&args.server)?;
            let body: &[u8] = if args.restart { br#"{"restart": true}"# } else { b"" };
            let answer = client.request("POST", "/control/reload", body)?;
            print_outcome(&answer)?;
            tell_parts_out(&client.read::<Status>(answer)?, args.tolerant)
        }
        Command::Requests(args) => requests::run(&args),
        Command::Restart(args) => restart(&args),
        Command::Site(args) => sites::run(args, machine),
        Command::Php(args) => sites::php(&args, machine),
        Command::Status(args) => {
            let client = connect(&args.server)?.with_timeout(STATUS_TIMEOUT);
            let target = match &args.application {
                Some(name) => format!("/pools/{}", encode(name)),
                None => "/status".to_owned(),
            };
            let answer = client.request("GET", &target, b"")?;
            if args.problems {
                problems(&client.read(answer)?, args.json)
            } else if args.json {
                write_out(&json_text(&answer))
            } else if args.application.is_some() {
                write_out(&pools::describe(&client.read(answer)?))
            } else {
                write_out(&status::table(&client.read(answer)?))
            }
        }
        Command::Top(args) => {
            let client = connect_as_site_user(&args.server)?.with_timeout(STATUS_TIMEOUT);
            top::run(&client, &args)
        }
        Command::Upgrade(args) => {
            let client = connect(&args.server)?;
            let done = client.request("POST", "/control/upgrade", b"")?;
            let Upgraded { version, pid } = client.read(done)?;
            write_out(&format!("Upgrade done: howdah {version}, process {pid}, serves.\n"))?;
            let status = client.with_timeout(STATUS_TIMEOUT).get("/status")?;
            tell_parts_out(&status, args.tolerant)
        }
        Command::WorkerCheck(args) => worker_check::run(&connect(&args.server)?, &args),
        Command::Tune(args) => {
            let name = encode(&args.application);
            let target = format!("/control/applications/{name}/tune");
            let client = connect(&args.server)?.with_timeout(STATUS_TIMEOUT);
            let tuning = client.request("GET", &target, b"")?;
            if args.json {
                write_out(&json_text(&tuning))
            } else {
                write_out(&tune::explain(&client.read(tuning)?))
            }
        }
    }
}

/// The answer to an upgrade.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Upgraded {
    version: String,
    pid: u32,
}

/// Prints the parts of the configuration of the server at this address that are out, if it answers.
pub fn print_parts_out(address: &str, token_file: Option<&Path>) {
    let client = Client::new(address, token_file);
    let status = client.and_then(|client| client.with_timeout(STATUS_TIMEOUT).get("/status"));
    if let Ok(status) = status {
        let _ = tell_parts_out(&status, true);
    }
}

/// Returns the number of the instance of an application in worker mode, of the server with this
/// process id. `addresses` are those that its control API may have.
pub fn worker_instance(addresses: &[String], server: u32, application: &str) -> Option<u32> {
    let clients = addresses.iter().filter_map(|address| Client::new(address, None).ok());
    let mut own = clients.filter(|client| client.probe().ok().flatten() == Some(server));
    let client = own.next()?.with_timeout(STATUS_TIMEOUT).without_progress();
    let status: Status = client.get("/status").ok()?;
    Some(status.php.get(application)?.worker.as_ref()?.generation)
}

/// Prints the parts of the configuration that are out. Fails if there are any, unless that is
/// `tolerated`.
fn tell_parts_out(status: &Status, tolerated: bool) -> Result<(), Failure> {
    let out = status::problems::out(status);
    out.iter().for_each(|line| eprintln!("howdah: {line}"));
    if out.is_empty() || tolerated { Ok(()) } else { Err(Failure::PartsOut(4)) }
}

/// Prints the problems that need attention. Fails if there are any.
fn problems(status: &Status, json: bool) -> Result<(), Failure> {
    let lines = status::problems::lines(status);
    match (json, lines.is_empty()) {
        (true, _) => write_out(&json_text(&status::problems::value(status)))?,
        (false, false) => write_out(&lines)?,
        (false, true) => write_out("No problems.\n")?,
    }
    if lines.is_empty() { Ok(()) } else { Err(Failure::PartsOut(1)) }
}

fn config(args: ConfigArgs) -> Result<(), Failure> {
    let client = connect(&args.server)?;
    match args.command {
        ConfigCommand::Get { path } => {
            write_out(&json_text(&client.request("GET", &config_target(path.as_deref()), b"")?))
        }
        ConfigCommand::Set { path, value } => {
            let body = input::json(value.as_deref())?;
            print_outcome(&client.request("PUT", &config_target(Some(&path)), &body)?)
        }
        ConfigCommand::Append { path, value } => {
            let body = input::json(value.as_deref())?;
            print_outcome(&client.request("POST", &config_target(Some(&path)), &body)?)
        }
        ConfigCommand::Delete { path } => {
            print_outcome(&client.request("DELETE", &config_target(Some(&path)), b"")?)
        }
        ConfigCommand::Edit { path } => {
            let target = config_target(path.as_deref());
            edit::edit(&client, &target, &edit::editor(), &std::env::temp_dir())
        }
    }
}

fn restart(args: &RestartArgs) -> Result<(), Failure> {
    let client = connect(&args.server)?;
    let mut names = args.applications.clone();
    if args.all {
        let config = client.compiled()?;
        let all = config.get("applications").and_then(Value::as_object);
        names.extend(all.into_iter().flatten().map(|(name, _)| name.clone()));
    }
    // A failed restart does not stop the restarts of other applications.
    let mut failures = Vec::new();
    for name in &names {
        let target = format!("/control/applications/{}/restart", encode(name));
        match client.request("POST", &target, b"") {
            Ok(_) => write_out(&format!("{name}: restarted\n"))?,
            Err(Failure::Failed(problem)) => failures.push(problem),
            Err(failure) => return Err(failure),
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(Failure::Failed(failures.join("\n"))) }
}

/// Returns the API's path of a typed path. `routes/0`, `/routes/0` and `/config/routes/0` are the
/// same.
fn config_target(path: Option<&str>) -> String {
    let path = path.unwrap_or_default().trim_matches('/');
    let path = match path.strip_prefix("config") {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => rest.trim_start_matches('/'),
        _ => path,
    };
    // A typed path is encoded already: separators and percent signs stay.
    let is_kept = |byte| percent::is_unreserved(byte) || b"/%:*[]@".contains(&byte);
    let mut encoded = String::with_capacity(path.len());
    percent::encode_text(path.as_bytes(), is_kept, &mut encoded);
    let path = encoded;
    format!("/config/{path}").trim_end_matches('/').to_owned()
}

#[cfg(test)]
mod tests;
