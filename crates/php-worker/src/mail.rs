//! Sends the messages of `mail()` as `howdah-sendmail` does, in the process that has the message.
//!
//! An application has a socket for its mail, see [`submit`]. Its number is fixed, so programs that
//! scripts start find it, too.

use std::fs::File;
use std::io::Seek;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

use howdah_sendmail::arguments::Arguments;
use howdah_sendmail::program::read;
use howdah_sendmail::submit::{self, DESCRIPTOR};
use howdah_sendmail::{Failure, MAX_MESSAGE_BYTES, status, words};
use howdah_sys::process;
use howdah_wire::messages::Problem;

/// The socket, in all processes of the application.
static SOCKET: OnceLock<OwnedFd> = OnceLock::new();

/// The script that sends a message.
#[derive(Debug)]
pub struct Caller<'a> {
    /// Path of the script.
    pub script: &'a [u8],
    /// Line of the call.
    pub line: u32,
}

/// Keeps the socket of the application's mail, open for programs that scripts start.
pub fn keep(socket: OwnedFd) -> Result<(), Problem> {
    // Where the limit of open files forbids the number, only `mail()` works.
    let socket = match process::duplicate_to(&socket, DESCRIPTOR) {
        Ok(()) => process::take_inherited(DESCRIPTOR).unwrap_or(socket),
        Err(_) => socket,
    };
    if socket.as_raw_fd() == DESCRIPTOR {
        // Taking it has made it close on exec.
        let _ = process::duplicate_to(&socket, DESCRIPTOR);
    }
    SOCKET.set(socket).map_err(|_| Problem::of("there are two sockets for mail"))
}

/// Returns true if [`send`] can replace a command with these arguments.
pub fn takes(arguments: &[u8]) -> bool {
    SOCKET.get().is_some() && parse(arguments).is_some_and(|arguments| !arguments.is_smtp)
}

/// Sends a message. Error: the exit status of `sendmail`, and the line for the log.
pub fn send(
    arguments: &[u8],
    message: BorrowedFd<'_>,
    caller: &Caller<'_>,
) -> Result<(), (u8, String)> {
    deliver(arguments, message).map_err(|Failure { status, reason }| {
        let script = String::from_utf8_lossy(caller.script);
        let place = match caller.line {
            0 => String::new(),
            line => format!(" in {script} on line {line}"),
        };
        (status, format!("mail(){place} has sent nothing: {reason}"))
    })
}

fn deliver(arguments: &[u8], message: BorrowedFd<'_>) -> Result<(), Failure> {
    let unusable = || Failure::new(status::SOFTWARE, "this process has no connection for mail");
    let (Some(arguments), Some(socket)) = (parse(arguments), SOCKET.get()) else {
        return Err(unusable());
    };
    let unreadable =
        |error| Failure::new(status::IO, format!("the message cannot be read: {error}"));
    let mut file = File::from(message.try_clone_to_owned().map_err(unreadable)?);
    file.rewind().map_err(unreadable)?;
    let message = read(file, MAX_MESSAGE_BYTES)?;
    submit::deliver(socket, &arguments, &message)
}

fn parse(arguments: &[u8]) -> Option<Arguments> {
    let words = words::split(arguments)?;
    let words = words.into_iter().map(String::from_utf8).collect::<Result<Vec<_>, _>>().ok()?;
    Arguments::parse(&words).ok()
}
