//! The program: reads a message from standard input.

use std::io::{self, BufRead, Read, Write};
use std::os::fd::{AsFd, OwnedFd};

use howdah_sys::process;

use crate::arguments::Arguments;
use crate::conversation::{Conversation, GREETING, Step};
use crate::message::Message;
use crate::submit::{DESCRIPTOR, Envelope, deliver, submit};
use crate::{Failure, MAX_MESSAGE_BYTES, status};

/// Runs the program. Returns the exit status; the reason of a failure is on standard error.
pub fn run() -> u8 {
    let arguments: Vec<_> =
        std::env::args_os().skip(1).map(|text| text.to_string_lossy().into_owned()).collect();
    let result = Arguments::parse(&arguments)
        .map_err(|problem| Failure::new(status::USAGE, problem))
        .and_then(|arguments| {
            let socket = process::take_inherited(DESCRIPTOR).ok_or_else(|| {
                let reason = "only scripts of an application that Howdah runs can send mail with \
                              this program";
                Failure::new(status::UNAVAILABLE, reason)
            })?;
            if arguments.is_smtp {
                converse(&socket, &mut io::stdin().lock(), &mut io::stdout().lock())
            } else {
                let input = read(io::stdin().lock(), MAX_MESSAGE_BYTES)?;
                deliver(&socket, &arguments, &input)
            }
        });
    match result {
        Ok(()) => 0,
        Err(Failure { status, reason }) => {
            eprintln!("howdah-sendmail: {reason}");
            status
        }
    }
}

/// Reads a whole message.
pub fn read(input: impl Read, limit: usize) -> Result<Vec<u8>, Failure> {
    let mut message = Vec::new();
    let read = input.take(limit as u64 + 1).read_to_end(&mut message);
    read.map_err(|error| Failure::new(status::IO, format!("the message cannot be read: {error}")))?;
    if message.len() > limit {
        let reason = format!("the message is longer than {} MB", limit >> 20);
        Err(Failure::new(status::DATA, reason))
    } else {
        Ok(message)
    }
}

/// Speaks SMTP until the client ends. Bytes are read one buffer at a time; a line that never ends
/// is cut off.
fn converse(
    socket: &OwnedFd,
    input: &mut impl BufRead,
    output: &mut impl Write,
) -> Result<(), Failure> {
    let io_failure =
        |error: io::Error| Failure::new(status::IO, format!("the client is gone: {error}"));
    let mut say = |text: &str| -> Result<(), Failure> {
        write!(output, "{text}\r\n").and_then(|()| output.flush()).map_err(io_failure)
    };
    say(GREETING)?;
    let mut conversation = Conversation::default();
    while let Some(line) = next_line(input).map_err(io_failure)? {
        match conversation.line(&line) {
            Step::Continue => {}
            Step::Answer(text) => say(&text)?,
            Step::End(text) => return say(&text),
            Step::Submit { sender, recipients, text } => {
                let envelope = Envelope { sender: Some(sender), recipients, full_name: None };
                let sent = Message::parse(&text, false)
                    .and_then(|message| submit(socket.as_fd(), &envelope, &message));
                match sent {
                    Ok(()) => say("250 sent")?,
                    Err(Failure { reason, .. }) => {
                        eprintln!("howdah-sendmail: {reason}");
                        say(&format!("554 {}", reason.replace(['\r', '\n'], " ")))?;
                    }
                }
            }
        }
    }
    Ok(())
}

/// Reads a line up to a carriage return and a line feed. Returns `None` at the end.
fn next_line(input: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    loop {
        let read = input.take(MAX_MESSAGE_BYTES as u64).read_until(b'\n', &mut line)?;
        if line.ends_with(b"\r\n") {
            line.truncate(line.len() - 2);
            return Ok(Some(line));
        }
        if read == 0 {
            return Ok(None);
        }
        if line.len() > MAX_MESSAGE_BYTES {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_both_characters_end_a_line() {
        let mut input = io::Cursor::new(b"MAIL\r\na\n.\nb\rc\r\nrest".to_vec());
        let mut lines = Vec::new();
        while let Some(line) = next_line(&mut input).unwrap() {
            lines.push(String::from_utf8(line).unwrap());
        }
        assert_eq!(lines, ["MAIL", "a\n.\nb\rc"]);
    }

    #[test]
    fn a_message_that_is_too_long_is_not_kept() {
        assert_eq!(read(&b"abc"[..], 3).unwrap(), b"abc");
        assert_eq!(read(&b"abcd"[..], 3).unwrap_err().status, status::DATA);
    }
}
