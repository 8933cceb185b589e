//! The login at a server in the place of a client. It speaks the protocol of the client and is
//! untrusted as the client is.

mod imap;
mod pop3;
mod smtp;
mod starttls;

use zeroize::Zeroizing;

use crate::input::{Input, TooLong};
use crate::login::Login;

pub use self::imap::ImapLogin;
pub use self::pop3::Pop3Login;
pub use self::smtp::{SmtpLogin, SmtpOptions};
pub use self::starttls::{StartTls, greeting};

/// Progress of a login.
#[derive(Debug)]
pub enum Progress {
    /// More bytes of the server are needed.
    Waiting,
    /// The client is logged in. It gets these bytes.
    Done(Vec<u8>),
    /// The server has refused the login. The client may get these bytes.
    Refused(Vec<u8>),
    /// The server does not speak the protocol, or cannot serve.
    Failed(String),
}

/// What the login at a server needs.
#[derive(Debug, Clone)]
pub struct Account {
    /// The client's login.
    pub login: Login,
    /// Name at the server.
    pub user: Vec<u8>,
    /// Password at the server; `None` without one.
    pub password: Option<Zeroizing<Vec<u8>>>,
    /// Address and port of the client; `None` if it is not known.
    pub client: Option<std::net::SocketAddr>,
    /// Address that the client has connected to.
    pub local: Option<std::net::SocketAddr>,
}

/// The login in one of the protocols.
pub enum BackendLogin {
    /// IMAP.
    Imap(ImapLogin),
    /// POP3.
    Pop3(Pop3Login),
    /// SMTP.
    Smtp(SmtpLogin),
    /// The beginning of encryption before the login.
    StartTls(StartTls),
}

impl BackendLogin {
    /// Takes bytes of the server, and writes what it is sent.
    pub fn step(&mut self, input: &mut Input, out: &mut Zeroizing<Vec<u8>>) -> Progress {
        match self {
            BackendLogin::Imap(login) => login.step(input, out),
            BackendLogin::Pop3(login) => login.step(input, out),
            BackendLogin::Smtp(login) => login.step(input, out),
            BackendLogin::StartTls(command) => command.step(input, out),
        }
    }
}

/// Takes a line of a server; `None` if it is not complete.
fn line(input: &mut Input) -> Result<Option<Vec<u8>>, String> {
    match input.line() {
        Ok(line) => Ok(line.map(|line| line.text.to_vec())),
        Err(TooLong) => Err("it sends too long a line".to_owned()),
    }
}

/// Returns text of a server for the log.
fn shown(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(&text[..text.len().min(200)]).into_owned();
    text.chars().map(|one| if one.is_control() { '?' } else { one }).collect()
}

fn unexpected(text: &[u8]) -> Progress {
    Progress::Failed(format!("it answered \"{}\"", shown(text)))
}

#[cfg(test)]
mod tests;
