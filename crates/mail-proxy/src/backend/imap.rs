//! The login at a server of IMAP.

use std::io::Write;

use howdah_text::base64;
use zeroize::Zeroizing;

use super::{Account, Progress, line, shown, unexpected};
use crate::input::Input;
use crate::login::Method;

/// Tag of commands of this server itself.
const OWN_TAG: &[u8] = b"howdah";

/// The login at a server of IMAP.
pub struct ImapLogin {
    account: Account,
    state: State,
    /// The server is told the client's address.
    sends_id: bool,
    /// Untagged capabilities before the answer, which the client gets.
    capabilities: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Greeting,
    Id,
    User,
    Password,
    Token,
    End,
}

impl ImapLogin {
    /// Begins a login. With `sends_id`, the server is told the client's address before.
    pub fn new(account: Account, sends_id: bool) -> ImapLogin {
        ImapLogin { account, state: State::Greeting, sends_id, capabilities: Vec::new() }
    }

    /// Takes bytes of the server, and writes what it is sent.
    pub fn step(&mut self, input: &mut Input, out: &mut Zeroizing<Vec<u8>>) -> Progress {
        loop {
            let text = match line(input) {
                Ok(Some(text)) => text,
                Ok(None) => return Progress::Waiting,
                Err(problem) => return Progress::Failed(problem),
            };
            let is_untagged = text.starts_with(b"* ");
            let progress = match self.state {
                State::Greeting if text.starts_with(b"* OK") => {
                    if self.sends_id {
                        self.send_id(out)
                    } else {
                        self.send_login(out)
                    }
                    None
                }
                State::Greeting => Some(unexpected(&text)),
                State::Id if is_untagged => None,
                // A server that knows no `ID` has refused the command.
                State::Id if text.starts_with(OWN_TAG) => {
                    self.send_login(out);
                    None
                }
                State::User if text.starts_with(b"+") => {
                    self.send_user(out);
                    None
                }
                State::Password if text.starts_with(b"+") => {
                    out.extend_from_slice(self.password());
                    out.extend_from_slice(b"\r\n");
                    self.state = State::End;
                    None
                }
                State::Token if text.starts_with(b"+") => {
                    self.send_token(out);
                    None
                }
                // The reason why a token is refused; the server waits for an answer.
                State::End if text.starts_with(b"+") => {
                    out.extend_from_slice(b"\r\n");
                    None
                }
                _ if is_untagged => {
                    if text.get(2..12).is_some_and(|name| name.eq_ignore_ascii_case(b"CAPABILITY"))
                    {
                        self.capabilities.extend_from_slice(&text);
                        self.capabilities.extend_from_slice(b"\r\n");
                    }
                    None
                }
                _ => Some(self.end(&text)),
            };
            if let Some(progress) = progress {
                return progress;
            }
        }
    }

    fn password(&self) -> &[u8] {
        self.account.password.as_ref().map_or(b"", |password| password)
    }

    fn send_id(&mut self, out: &mut Zeroizing<Vec<u8>>) {
        out.extend_from_slice(OWN_TAG);
        out.extend_from_slice(b" ID (");
        let mut separator = "";
        for (address, ip, port) in [
            (self.account.client, "x-originating-ip", "x-originating-port"),
            (self.account.local, "x-connected-ip", "x-connected-port"),
        ] {
            let Some(address) = address else { continue };
            // Writing to memory does not fail.
            let _ = write!(
                &mut **out,
                "{separator}\"{ip}\" \"{}\" \"{port}\" \"{}\"",
                address.ip(),
                address.port()
            );
            separator = " ";
        }
        out.extend_from_slice(b")\r\n");
        self.state = State::Id;
    }

    fn send_login(&mut self, out: &mut Zeroizing<Vec<u8>>) {
        out.extend_from_slice(&self.account.login.tag);
        match self.token_method() {
            Some(name) => {
                let _ = write!(&mut **out, " AUTHENTICATE {name}\r\n");
                self.state = State::Token;
            }
            None => {
                let _ = write!(&mut **out, " LOGIN {{{}}}\r\n", self.account.user.len());
                self.state = State::User;
            }
        }
    }

    fn send_user(&mut self, out: &mut Zeroizing<Vec<u8>>) {
        out.extend_from_slice(&self.account.user);
        let _ = write!(&mut **out, " {{{}}}\r\n", self.password().len());
        self.state = State::Password;
    }

    fn send_token(&mut self, out: &mut Zeroizing<Vec<u8>>) {
        out.extend_from_slice(token_response(&self.account).as_bytes());
        out.extend_from_slice(b"\r\n");
        self.state = State::End;
    }

    /// Returns the mechanism by which a token is passed on.
    fn token_method(&self) -> Option<&'static str> {
        token_method(&self.account)
    }

    /// Reads the answer to the login.
    fn end(&mut self, text: &[u8]) -> Progress {
        let tag = &self.account.login.tag;
        let rest = text.strip_prefix(tag.as_slice()).and_then(|rest| rest.strip_prefix(b" "));
        let Some(rest) = rest else { return unexpected(text) };
        let mut whole = std::mem::take(&mut self.capabilities);
        whole.extend_from_slice(text);
        whole.extend_from_slice(b"\r\n");
        match rest.get(..2).map(<[u8]>::to_ascii_uppercase).as_deref() {
            Some(b"OK") if self.state == State::End => Progress::Done(whole),
            Some(b"NO" | b"BA") => Progress::Refused(whole),
            _ => Progress::Failed(format!("it answered \"{}\"", shown(rest))),
        }
    }
}

/// Returns the mechanism of a token that is passed on as it came.
pub(super) fn token_method(account: &Account) -> Option<&'static str> {
    match account.login.credentials.method {
        method @ (Method::Xoauth2 | Method::OauthBearer) => method.sasl_name(),
        _ => None,
    }
}

/// Returns the response with a token.
pub(super) fn token_response(account: &Account) -> Zeroizing<String> {
    let user = String::from_utf8_lossy(&account.user);
    let token = account
        .password
        .as_ref()
        .map(|token| Zeroizing::new(String::from_utf8_lossy(token).into_owned()));
    let token = token.unwrap_or_default();
    let plain = Zeroizing::new(match account.login.credentials.method {
        Method::Xoauth2 => format!("user={user}\x01auth=Bearer {}\x01\x01", *token),
        _ => {
            let user = user.replace('=', "=3D").replace(',', "=2C");
            format!("n,a={user},\x01auth=Bearer {}\x01\x01", *token)
        }
    });
    Zeroizing::new(base64::encode(plain.as_bytes()))
}
