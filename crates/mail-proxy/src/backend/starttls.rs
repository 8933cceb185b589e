//! The beginning of encryption with a server by a command. Nothing that the server has said before it
//! counts afterwards.

use std::io::Write;

use zeroize::Zeroizing;

use super::{Progress, line, shown, unexpected};
use crate::input::Input;
use crate::login::Protocol;

/// Asks a server to begin encryption.
pub struct StartTls {
    protocol: Protocol,
    /// Name of this server, for its `EHLO`.
    server_name: String,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Greeting,
    Helo,
    Command,
}

impl StartTls {
    /// Begins with the greeting of the server. `server_name` is that of this server.
    pub fn new(protocol: Protocol, server_name: &str) -> StartTls {
        StartTls { protocol, server_name: server_name.to_owned(), state: State::Greeting }
    }

    /// Takes bytes of the server, and writes what it is sent. Encryption begins when that is done.
    pub fn step(&mut self, input: &mut Input, out: &mut Zeroizing<Vec<u8>>) -> Progress {
        loop {
            let text = match line(input) {
                Ok(Some(text)) => text,
                Ok(None) => return Progress::Waiting,
                Err(problem) => return Progress::Failed(problem),
            };
            let is_part = match self.protocol {
                Protocol::Imap => self.state == State::Command && text.starts_with(b"* "),
                Protocol::Pop3 => false,
                Protocol::Smtp => text.get(3) == Some(&b'-'),
            };
            if is_part {
                continue;
            }
            let (expected, next): (&[u8], _) = match (self.protocol, self.state) {
                (Protocol::Imap, State::Command) => (b"howdah OK", None),
                (Protocol::Imap, _) => (b"* OK", Some((State::Command, "howdah STARTTLS"))),
                (Protocol::Pop3, State::Command) => (b"+OK", None),
                (Protocol::Pop3, _) => (b"+OK", Some((State::Command, "STLS"))),
                (Protocol::Smtp, State::Greeting) => (b"220", Some((State::Helo, "EHLO"))),
                (Protocol::Smtp, State::Helo) => (b"250", Some((State::Command, "STARTTLS"))),
                (Protocol::Smtp, State::Command) => (b"220", None),
            };
            if !text.starts_with(expected) {
                return match self.state {
                    State::Command => {
                        Progress::Failed(format!("it refuses STARTTLS: \"{}\"", shown(&text)))
                    }
                    _ => unexpected(&text),
                };
            }
            let Some((state, command)) = next else { return Progress::Done(Vec::new()) };
            self.state = state;
            // Writing to memory does not fail.
            let _ = match state {
                State::Helo => write!(out, "{command} {}\r\n", self.server_name),
                _ => write!(out, "{command}\r\n"),
            };
        }
    }
}

/// Returns the greeting that stands for the one before encryption: there is no other one.
pub fn greeting(protocol: Protocol) -> &'static [u8] {
    match protocol {
        Protocol::Imap => b"* OK encrypted\r\n",
        Protocol::Pop3 => b"+OK encrypted\r\n",
        Protocol::Smtp => b"220 encrypted\r\n",
    }
}
