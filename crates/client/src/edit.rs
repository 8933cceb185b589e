//! `howdah config edit`: the configuration in an editor.
//!
//! 1. The part to edit is written to a file that only its owner can read.
//! 2. The editor changes it.
//! 3. The new value is checked with the rest of the configuration, and sent if it is valid and this
//!    part has not been changed meanwhile. The file is kept if the value cannot be sent.

use std::fs::{self, File};
use std::io::{self, BufRead, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path as FilePath, PathBuf};
use std::process::Command;

use howdah_config::json;
use howdah_control::{Change, Path, Refusal, Reply, Store};
use serde_json::Value;

use crate::client::Client;
use crate::failure::Failure;
use crate::output::{json_text, print_outcome, write_out};

/// Returns the user's editor: a command line, to which the file name is added.
pub(super) fn editor() -> String {
    let wanted = |name| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
    wanted("VISUAL").or_else(|| wanted("EDITOR")).unwrap_or_else(|| "vi".to_owned())
}

/// Edits the value at `target` in a file in `directory`.
pub(super) fn edit(
    client: &Client,
    target: &str,
    editor: &str,
    directory: &FilePath,
) -> Result<(), Failure> {
    let before = client.request("GET", target, b"")?;
    let unchanged = json_text(&before);
    let file = write(directory, &unchanged)
        .map_err(|error| failed(format!("{}: {error}", directory.display())))?;
    let result = edit_file(client, target, editor, &before, &file);
    let nothing_written = fs::read(&file).is_ok_and(|text| text == unchanged.as_bytes());
    if result.is_ok() || nothing_written {
        let _ = fs::remove_file(&file);
    } else {
        let part = target.strip_prefix("/config/").unwrap_or("/");
        let file = file.display();
        eprintln!("howdah: your text is kept; howdah config set '{part}' @{file} sends it");
    }
    result
}

fn edit_file(
    client: &Client,
    target: &str,
    editor: &str,
    before: &Value,
    file: &FilePath,
) -> Result<(), Failure> {
    loop {
        open(editor, file)?;
        let read = fs::read(file);
        let edited = read.map_err(|error| failed(format!("{}: {error}", file.display())))?;
        let problem = match json::parse(&edited) {
            Ok(value) if value == *before => return write_out("Nothing was changed.\n"),
            Ok(value) => match send(client, target, before, value) {
                Ok(answer) => return print_outcome(&answer),
                Err(Failure::Failed(problem)) => problem,
                Err(other) => return Err(other),
            },
            Err(error) => error.to_string(),
        };
        if !ask_again(&problem) {
            return Err(failed(problem));
        }
    }
}

/// Checks and sends a new value.
fn send(client: &Client, target: &str, before: &Value, value: Value) -> Result<Value, Failure> {
    let current = client.request("GET", "/config", b"")?;
    let path = Path::read(target.as_bytes()).map_err(|refusal| failed(text_of(refusal)))?;
    let path = Path::from(path.steps().get(1..).unwrap_or_default());
    if path.find(&current) != Some(before) {
        let problem = "another client has changed this part of the configuration meanwhile";
        return Err(failed(problem.to_owned()));
    }
    let body = value.to_string();
    Store::new(current)
        .prepare(Change::Put { path, value })
        .map_err(|refusal| failed(text_of(refusal)))?;
    client.request("PUT", target, body.as_bytes())
}

/// Returns the text that the server would respond with.
fn text_of(refusal: Refusal) -> String {
    let reply = Reply::from(refusal);
    let text = |name: &str| reply.body().get(name).and_then(Value::as_str);
    text("detail").or_else(|| text("error")).unwrap_or_default().to_owned()
}

/// Writes a new file that only this user can read, as a configuration may have passwords.
fn write(directory: &FilePath, text: &str) -> io::Result<PathBuf> {
    let mut attempt = 0;
    loop {
        let path = directory.join(format!("howdah-{}-{attempt}.json", std::process::id()));
        // An existing file or link is not opened.
        match File::options().write(true).create_new(true).mode(0o600).open(&path) {
            Ok(mut file) => return file.write_all(text.as_bytes()).map(|()| path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempt < 100 => {
                attempt += 1;
            }
            Err(error) => return Err(error),
        }
    }
}

pub(super) fn open(editor: &str, file: &FilePath) -> Result<(), Failure> {
    let status = Command::new("sh")
        .arg("-c")
        .arg(format!("{editor} \"$1\""))
        .arg("sh")
        .arg(file)
        .status()
        .map_err(|error| failed(format!("cannot start the editor {editor}: {error}")))?;
    if status.success() {
        Ok(())
    } else {
        Err(failed(format!(
            "the editor {editor} failed \
        ({status}); nothing was changed"
        )))
    }
}

/// Asks whether to return to the editor, if there is a terminal.
pub(super) fn ask_again(problem: &str) -> bool {
    if !io::stdin().is_terminal() {
        return false;
    }
    eprint!("{problem}\nEdit again? [Y/n] ");
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    matches!(read, Ok(length) if length > 0) && !answer.trim_start().starts_with(['n', 'N'])
}

fn failed(problem: String) -> Failure {
    Failure::Failed(problem)
}
