//! The login at a server of SMTP, which is told the client's address and name (Postfix's XCLIENT).

use std::io::Write;
use std::net::IpAddr;

use howdah_text::base64;
use zeroize::Zeroizing;

use super::imap::{token_method, token_response};
use super::{Account, Progress, line, unexpected};
use crate::input::Input;
use crate::login::Method;

/// What a server of SMTP is told.
#[derive(Debug, Clone)]
pub struct SmtpOptions {
    /// Name of this server, for its own `EHLO`.
    pub server_name: String,
    /// The server is told about the client by XCLIENT; `None`: if it announces that.
    pub xclient: Option<bool>,
    /// The server checks the name and the password.
    pub authenticates: bool,
    /// Name of the client, if it is known.
    pub client_name: Option<String>,
}

/// The login at a server of SMTP.
pub struct SmtpLogin {
    account: Account,
    options: SmtpOptions,
    state: State,
    /// Lines of the reply, as far as they have arrived.
    reply: Vec<u8>,
    capabilities: Vec<Vec<u8>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Greeting,
    Helo,
    Xclient,
    ClientHelo,
    Auth,
    User,
    Password,
    From,
    To,
}

impl SmtpLogin {
    /// Begins a login.
    pub fn new(account: Account, options: SmtpOptions) -> SmtpLogin {
        let (reply, capabilities) = (Vec::new(), Vec::new());
        SmtpLogin { account, options, state: State::Greeting, reply, capabilities }
    }

    /// Takes bytes of the server, and writes what it is sent.
    pub fn step(&mut self, input: &mut Input, out: &mut Zeroizing<Vec<u8>>) -> Progress {
        loop {
            let text = match line(input) {
                Ok(Some(text)) => text,
                Ok(None) => return Progress::Waiting,
                Err(problem) => return Progress::Failed(problem),
            };
            let Some(code) = text.get(..3).filter(|code| code.iter().all(u8::is_ascii_digit))
            else {
                return unexpected(&text);
            };
            let code = [code[0], code[1], code[2]];
            if matches!(self.state, State::Helo | State::ClientHelo) {
                self.capabilities.push(text.get(4..).unwrap_or_default().to_ascii_uppercase());
            }
            self.reply.extend_from_slice(&text);
            self.reply.extend_from_slice(b"\r\n");
            if text.get(3) == Some(&b'-') {
                continue;
            }
            let reply = std::mem::take(&mut self.reply);
            if let Some(progress) = self.answered(code, reply, out) {
                return progress;
            }
        }
    }

    /// Continues after a complete reply.
    fn answered(
        &mut self,
        code: [u8; 3],
        reply: Vec<u8>,
        out: &mut Zeroizing<Vec<u8>>,
    ) -> Option<Progress> {
        let smtp = &self.account.login.smtp;
        match (self.state, code[0]) {
            // The client may name other recipients.
            (State::To, _) => return Some(Progress::Done(reply)),
            (State::Auth | State::Password, b'2') => {
                return Some(Progress::Done(b"235 2.0.0 OK\r\n".to_vec()));
            }
            (State::Greeting, b'2') => {
                let is_esmtp = smtp.is_esmtp
                    || self.options.authenticates
                    || self.options.xclient != Some(false);
                let word = if is_esmtp { "EHLO" } else { "HELO" };
                // Writing to memory does not fail.
                let _ = write!(&mut **out, "{word} {}\r\n", self.options.server_name);
                self.state = State::Helo;
            }
            (State::Helo, b'2') => {
                let is_announced =
                    || self.capabilities.iter().any(|one| one.starts_with(b"XCLIENT"));
                if self.options.xclient.unwrap_or_else(is_announced) {
                    self.send_xclient(out)
                } else {
                    return self.log_in(out);
                }
            }
            (State::Xclient, b'2') if !smtp.helo.is_empty() => {
                out.extend_from_slice(if smtp.is_esmtp { b"EHLO " } else { b"HELO " });
                out.extend_from_slice(&smtp.helo);
                out.extend_from_slice(b"\r\n");
                self.capabilities.clear();
                self.state = State::ClientHelo;
            }
            (State::Xclient | State::ClientHelo, b'2') => return self.log_in(out),
            (State::User, b'3') => {
                self.send_encoded(&self.account.user.clone(), out);
                self.state = State::Password;
            }
            (State::Password, b'3') => {
                let password = self.account.password.clone().unwrap_or_default();
                self.send_encoded(&password, out);
            }
            // The reason why a token is refused; the server waits for an answer.
            (State::Auth, b'3') => out.extend_from_slice(b"\r\n"),
            (State::From, b'2') => {
                out.extend_from_slice(&smtp.to);
                out.extend_from_slice(b"\r\n");
                self.state = State::To;
            }
            (State::Auth | State::User | State::Password | State::From, _) => {
                return Some(Progress::Refused(reply));
            }
            _ if matches!(code[0], b'4' | b'5') => return Some(Progress::Refused(reply)),
            _ => return Some(unexpected(&reply)),
        }
        None
    }

    fn send_xclient(&mut self, out: &mut Zeroizing<Vec<u8>>) {
        // Writing to memory does not fail.
        let _ = match self.account.client.map(|client| client.ip().to_canonical()) {
            None => write!(&mut **out, "XCLIENT ADDR=[UNAVAILABLE]"),
            Some(IpAddr::V4(ip)) => write!(&mut **out, "XCLIENT ADDR={ip}"),
            Some(IpAddr::V6(ip)) => write!(&mut **out, "XCLIENT ADDR=IPV6:{ip}"),
        };
        if !self.account.user.is_empty() && !self.options.authenticates {
            out.extend_from_slice(b" LOGIN=");
            xtext(&self.account.user, out);
        }
        out.extend_from_slice(b" NAME=");
        let name = self.options.client_name.as_deref();
        out.extend_from_slice(name.unwrap_or("[UNAVAILABLE]").as_bytes());
        out.extend_from_slice(b"\r\n");
        self.state = State::Xclient;
    }

    /// Logs in, or begins a message without a login.
    fn log_in(&mut self, out: &mut Zeroizing<Vec<u8>>) -> Option<Progress> {
        if self.account.login.credentials.method == Method::None {
            out.extend_from_slice(&self.account.login.smtp.from);
            out.extend_from_slice(b"\r\n");
            self.state = State::From;
            return None;
        }
        if !self.options.authenticates {
            return Some(Progress::Done(b"235 2.0.0 OK\r\n".to_vec()));
        }
        if let Some(name) = token_method(&self.account) {
            let response = token_response(&self.account);
            let _ = write!(&mut **out, "AUTH {name} {}\r\n", *response);
            self.state = State::Auth;
            return None;
        }
        let offers = |name: &[u8]| {
            let auth = self.capabilities.iter().find_map(|one| one.strip_prefix(b"AUTH "));
            auth.is_some_and(|auth| auth.split(|byte| *byte == b' ').any(|one| one == name))
        };
        if offers(b"LOGIN") && !offers(b"PLAIN") {
            out.extend_from_slice(b"AUTH LOGIN\r\n");
            self.state = State::User;
            return None;
        }
        let password = self.account.password.as_ref().map_or(&b""[..], |password| password);
        let message = Zeroizing::new([&b"\0"[..], &self.account.user, b"\0", password].concat());
        out.extend_from_slice(b"AUTH PLAIN ");
        self.send_encoded(&message, out);
        self.state = State::Auth;
        None
    }

    fn send_encoded(&self, bytes: &[u8], out: &mut Zeroizing<Vec<u8>>) {
        out.extend_from_slice(Zeroizing::new(base64::encode(bytes)).as_bytes());
        out.extend_from_slice(b"\r\n");
    }
}

/// Appends text as `xtext` (RFC 3461, 4).
fn xtext(text: &[u8], out: &mut Vec<u8>) {
    for byte in text {
        match byte {
            b'+' | b'=' => {}
            b'!'..=b'~' => {
                out.push(*byte);
                continue;
            }
            _ => {}
        }
        let _ = write!(out, "+{byte:02X}");
    }
}
