//! A session with a client before its login, in one of the protocols.

use std::io::Write;

use crate::imap::Imap;
use crate::input::Input;
use crate::login::{Encryption, Event, Login, Offer, Protocol};
use crate::pop3::Pop3;
use crate::smtp::Smtp;

/// A session before the login.
#[derive(Debug)]
pub enum Front {
    /// IMAP.
    Imap(Imap),
    /// POP3.
    Pop3(Pop3),
    /// SMTP.
    Smtp(Smtp),
}

impl Front {
    /// Begins a session with a challenge.
    pub fn new(protocol: Protocol, offer: Offer, encryption: Encryption, salt: Vec<u8>) -> Front {
        match protocol {
            Protocol::Imap => Front::Imap(Imap::new(offer, encryption, salt)),
            Protocol::Pop3 => Front::Pop3(Pop3::new(offer, encryption, salt)),
            Protocol::Smtp => Front::Smtp(Smtp::new(offer, encryption, salt)),
        }
    }

    /// Writes the greeting.
    pub fn greet(&self, out: &mut Vec<u8>) {
        match self {
            Front::Imap(session) => session.greet(out),
            Front::Pop3(session) => session.greet(out),
            Front::Smtp(session) => session.greet(out),
        }
    }

    /// Begins anew with encryption.
    pub fn secured(&mut self, salt: Vec<u8>) {
        match self {
            Front::Imap(session) => session.secured(salt),
            Front::Pop3(session) => session.secured(),
            Front::Smtp(session) => session.secured(salt),
        }
    }

    /// Takes bytes of the client and writes replies, up to an event; `None` if more bytes are
    /// needed.
    pub fn step(&mut self, input: &mut Input, out: &mut Vec<u8>) -> Option<Event> {
        match self {
            Front::Imap(session) => session.step(input, out),
            Front::Pop3(session) => session.step(input, out),
            Front::Smtp(session) => session.step(input, out),
        }
    }

    /// Writes that a login is refused. `code` is that of SMTP.
    pub fn refuse(&self, login: &Login, text: &str, code: Option<&str>, out: &mut Vec<u8>) {
        // Writing to memory does not fail.
        let _ = match self {
            Front::Imap(_) => {
                out.extend_from_slice(&login.tag);
                write!(out, " NO {text}\r\n")
            }
            Front::Pop3(_) => write!(out, "-ERR {text}\r\n"),
            Front::Smtp(_) => write!(out, "{} {text}\r\n", code.unwrap_or("535 5.7.0")),
        };
    }

    /// Writes that this server cannot serve.
    pub fn fail(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(match self {
            Front::Imap(_) => b"* BAD internal server error\r\n",
            Front::Pop3(_) => b"-ERR internal server error\r\n",
            Front::Smtp(_) => b"451 4.3.2 Internal server error\r\n",
        });
    }

    /// Writes that the session ends for a reason of this server.
    pub fn bye(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(match self {
            Front::Imap(_) => b"* BYE server is going down\r\n",
            Front::Pop3(_) => b"-ERR [SYS/TEMP] server is going down\r\n",
            Front::Smtp(_) => b"421 4.3.2 Server is going down\r\n",
        });
    }
}
