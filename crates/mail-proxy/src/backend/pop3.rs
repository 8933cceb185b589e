//! The login at a server of POP3.

use std::io::Write;

use zeroize::Zeroizing;

use super::imap::{token_method, token_response};
use super::{Account, Progress, line, unexpected};
use crate::input::Input;

/// The login at a server of POP3.
pub struct Pop3Login {
    account: Account,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Greeting,
    User,
    Token,
    End,
}

impl Pop3Login {
    /// Begins a login.
    pub fn new(account: Account) -> Pop3Login {
        Pop3Login { account, state: State::Greeting }
    }

    /// Takes bytes of the server, and writes what it is sent.
    pub fn step(&mut self, input: &mut Input, out: &mut Zeroizing<Vec<u8>>) -> Progress {
        loop {
            let text = match line(input) {
                Ok(Some(text)) => text,
                Ok(None) => return Progress::Waiting,
                Err(problem) => return Progress::Failed(problem),
            };
            let is_ok = text.starts_with(b"+OK");
            match self.state {
                State::Greeting if is_ok => match token_method(&self.account) {
                    Some(name) => {
                        // Writing to memory does not fail.
                        let _ = write!(&mut **out, "AUTH {name}\r\n");
                        self.state = State::Token;
                    }
                    None => {
                        out.extend_from_slice(b"USER ");
                        out.extend_from_slice(&self.account.user);
                        out.extend_from_slice(b"\r\n");
                        self.state = State::User;
                    }
                },
                State::User if is_ok => {
                    out.extend_from_slice(b"PASS ");
                    let password = self.account.password.as_ref();
                    out.extend_from_slice(password.map_or(b"", |password| password));
                    out.extend_from_slice(b"\r\n");
                    self.state = State::End;
                }
                State::Token if text.starts_with(b"+ ") || text == b"+" => {
                    out.extend_from_slice(token_response(&self.account).as_bytes());
                    out.extend_from_slice(b"\r\n");
                    self.state = State::End;
                }
                // The reason why a token is refused; the server waits for an answer.
                State::End if text.starts_with(b"+ ") => out.extend_from_slice(b"\r\n"),
                State::End if is_ok => return Progress::Done([&text[..], b"\r\n"].concat()),
                State::Greeting => return unexpected(&text),
                _ if text.starts_with(b"-ERR") => {
                    return Progress::Refused([&text[..], b"\r\n"].concat());
                }
                _ => return unexpected(&text),
            }
        }
    }
}
