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

#[cfg(test)]
mod tests {
    use howdah_config::MailMethod;
    use proptest::prelude::*;

    use super::*;

    /// Pieces of commands, and what could break their readers.
    fn pieces() -> impl Strategy<Value = Vec<u8>> {
        let words = prop::sample::select(vec![
            "a ",
            "LOGIN ",
            "AUTHENTICATE ",
            "AUTH ",
            "PLAIN",
            " AG1lAHNlY3JldA==",
            "=",
            "*",
            "me",
            "\"m",
            "\"",
            "\\",
            "{3}",
            "{3+}",
            "{99999999999}",
            "{-1}",
            "\r\n",
            "\n",
            "\r",
            "\0",
            "USER ",
            "PASS ",
            "APOP me 0123456789abcdef0123456789abcdef",
            "EHLO ",
            "MAIL FROM:<a>",
            "RCPT TO:<b>",
            "STARTTLS",
            "STLS",
            "CRAM-MD5",
            " (",
            ")",
            "ID ",
            "QUIT",
            "NOOP",
            "XOAUTH2 ",
            "\u{e4}",
        ]);
        prop::collection::vec(words, 0..40).prop_map(|words| words.concat().into_bytes())
    }

    proptest! {
        #[test]
        fn no_client_breaks_the_rules_of_the_replies(bytes in pieces(), cut in 1usize..20, kind in 0..9) {
            let protocol = [Protocol::Imap, Protocol::Pop3, Protocol::Smtp][kind as usize % 3];
            let encryption = [Encryption::None, Encryption::Optional, Encryption::Required][kind as usize / 3];
            let methods = vec![MailMethod::Plain, MailMethod::CramMd5, MailMethod::Xoauth2, MailMethod::Apop];
            let offer = Offer { methods, max_errors: 20, ..Offer::default() };
            let mut front = Front::new(protocol, offer, encryption, b"<1@a>".to_vec());
            let (mut input, mut out) = (Input::default(), Vec::new());
            front.greet(&mut out);
            for piece in bytes.chunks(cut) {
                input.push(piece);
                while let Some(event) = front.step(&mut input, &mut out) {
                    match event {
                        Event::Close => break,
                        Event::StartTls => {
                            prop_assert_ne!(encryption, Encryption::None);
                            front.secured(Vec::new());
                        }
                        Event::Login(login) => {
                            let has_end = |text: &[u8]| text.iter().any(|byte| matches!(byte, 0 | b'\r' | b'\n'));
                            prop_assert!(!has_end(&login.credentials.user));
                            prop_assert!(!has_end(&login.credentials.password));
                        }
                        Event::Refused(_) => {}
                    }
                }
            }
            prop_assert!(out.ends_with(b"\r\n"));
            prop_assert!(!String::from_utf8_lossy(&out).contains("AG1lAHNlY3JldA"));
        }
    }
}
