//! The commands that talk to a running server through its control API.
//!
//! `args` is what was typed, `client` carries a request to the server and its answer back, and each
//! command is a function here or a module of its own. Nothing here changes a configuration by itself:
//! the server does, or says why not.

mod args;
mod client;
mod edit;
mod find;
mod input;
mod pools;
mod status;
mod top;
mod tune;

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use howdah_control::print;
use serde_json::Value;

use args::ConfigCommand;
pub use args::{
    ConfigArgs, DEFAULT_CONTROL, ReloadArgs, RestartArgs, StatusArgs, TopArgs, TuneArgs,
};
use client::{Client, encode};

/// A command with its arguments.
pub enum Command {
    /// `howdah config`.
    Config(ConfigArgs),
    /// `howdah reload`.
    Reload(ReloadArgs),
    /// `howdah restart`.
    Restart(RestartArgs),
    /// `howdah status`.
    Status(StatusArgs),
    /// `howdah top`.
    Top(TopArgs),
    /// `howdah tune`.
    Tune(TuneArgs),
}

/// Why a command was not carried out.
#[derive(Debug, PartialEq, Eq)]
enum Failure {
    /// Something here went wrong, or the server refused.
    Failed(String),
    /// No server answers.
    Unreachable(String),
}

/// Carries a command out; says on standard error what went wrong. The status is 0 if all was done,
/// 1 if not, and 3 if no server answers (2 is for mistakes in the command line).
pub fn run(command: Command) -> ExitCode {
    match carry_out(command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Failed(problem)) => {
            eprintln!("howdah: {problem}");
            ExitCode::FAILURE
        }
        Err(Failure::Unreachable(problem)) => {
            eprintln!("howdah: {problem}");
            ExitCode::from(3)
        }
    }
}

fn carry_out(command: Command) -> Result<(), Failure> {
    match command {
        Command::Config(args) => config(args),
        Command::Reload(args) => {
            let client = Client::new(&args.server)?;
            done(&client.request("POST", "/control/reload", b"")?)
        }
        Command::Restart(args) => restart(&args),
        Command::Status(args) => {
            let client = Client::new(&args.server)?;
            let (target, table): (_, fn(&Value) -> String) = match &args.application {
                Some(name) => (format!("/pools/{}", encode(name, |_| false)), pools::describe),
                None => ("/status".to_owned(), status::table),
            };
            let status = client.request("GET", &target, b"")?;
            if args.json { show(&text(&status)) } else { show(&table(&status)) }
        }
        Command::Top(args) => {
            let client = Client::new(&args.server)?;
            top::run(&client, Duration::from_secs_f64(args.interval))
        }
        Command::Tune(args) => {
            let name = encode(&args.application, |_| false);
            let target = format!("/control/applications/{name}/tune");
            let tuning = Client::new(&args.server)?.request("GET", &target, b"")?;
            if args.json { show(&text(&tuning)) } else { show(&tune::explain(&tuning)) }
        }
    }
}

fn config(args: ConfigArgs) -> Result<(), Failure> {
    let client = Client::new(&args.server)?;
    match args.command {
        ConfigCommand::Get { path } => {
            show(&text(&client.request("GET", &config_target(path.as_deref()), b"")?))
        }
        ConfigCommand::Set { path, value } => {
            let body = input::json(value.as_deref())?;
            done(&client.request("PUT", &config_target(Some(&path)), &body)?)
        }
        ConfigCommand::Append { path, value } => {
            let body = input::json(value.as_deref())?;
            done(&client.request("POST", &config_target(Some(&path)), &body)?)
        }
        ConfigCommand::Delete { path } => {
            done(&client.request("DELETE", &config_target(Some(&path)), b"")?)
        }
        ConfigCommand::Edit { path } => {
            let target = config_target(path.as_deref());
            edit::edit(&client, &target, &edit::editor(), &std::env::temp_dir())
        }
    }
}

fn restart(args: &RestartArgs) -> Result<(), Failure> {
    let client = Client::new(&args.server)?;
    for name in &args.applications {
        let target = format!("/control/applications/{}/restart", encode(name, |_| false));
        client.request("POST", &target, b"")?;
        show(&format!("{name}: restarted\n"))?;
    }
    Ok(())
}

/// The path of the API for what was typed: `routes/0`, `/routes/0` and `/config/routes/0` are the
/// same.
fn config_target(path: Option<&str>) -> String {
    let path = path.unwrap_or_default().trim_matches('/');
    let path = match path.strip_prefix("config") {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => rest.trim_start_matches('/'),
        _ => path,
    };
    // What was typed is a path of the API already: what separates and encodes steps stays.
    let path = encode(path, |byte| matches!(byte, b'/' | b'%' | b':' | b'*' | b'[' | b']' | b'@'));
    format!("/config/{path}").trim_end_matches('/').to_owned()
}

/// Prints what the server says about what it has done, and on standard error what to know about it.
fn done(answer: &Value) -> Result<(), Failure> {
    if let Some(note) = answer.get("note").and_then(Value::as_str) {
        eprintln!("howdah: {note}");
    }
    match answer.get("success").and_then(Value::as_str) {
        Some(text) => show(&format!("{text}\n")),
        None => show(&text(answer)),
    }
}

/// JSON as the API prints it, with the line ends of text files.
fn text(value: &Value) -> String {
    print(value).replace("\r\n", "\n")
}

/// Prints; whoever does not read to the end (`| head`) has seen enough.
fn show(text: &str) -> Result<(), Failure> {
    let mut output = std::io::stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::Failed(format!("standard output: {error}")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
