//! What a client wants to log in with, and what it is offered.

use std::fmt;

use zeroize::Zeroizing;

pub use howdah_config::{MailMethod as Method, MailProtocol as Protocol};

/// A name and the proof of it.
#[derive(Clone)]
pub struct Credentials {
    /// The method by which the client has given them.
    pub method: Method,
    /// The name, without control characters.
    pub user: Vec<u8>,
    /// The password, or the client's digest or token.
    pub password: Zeroizing<Vec<u8>>,
}

/// Omits the password, as the text may get into a log.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = String::from_utf8_lossy(&self.user);
        f.debug_struct("Credentials")
            .field("method", &self.method)
            .field("user", &user)
            .finish_non_exhaustive()
    }
}

/// A login that the client asks for.
#[derive(Debug, Clone)]
pub struct Login {
    /// The name and the proof of it; empty with the method `none`.
    pub credentials: Credentials,
    /// The challenge of APOP and CRAM-MD5; empty otherwise.
    pub salt: Vec<u8>,
    /// IMAP: the tag of the command.
    pub tag: Vec<u8>,
    /// SMTP: what the client has said before.
    pub smtp: SmtpFacts,
}

/// What a client of SMTP has said before its login.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SmtpFacts {
    /// The argument of `HELO` or `EHLO`.
    pub helo: Vec<u8>,
    /// It was `EHLO`.
    pub is_esmtp: bool,
    /// With the method `none`: the whole command `MAIL`.
    pub from: Vec<u8>,
    /// With the method `none`: the whole command `RCPT`.
    pub to: Vec<u8>,
}

/// What clients of a listener are offered.
#[derive(Debug, Clone, Default)]
pub struct Offer {
    /// Methods.
    pub methods: Vec<Method>,
    /// Capabilities, without those about the login and TLS.
    pub capabilities: Vec<String>,
    /// Name of this server.
    pub server_name: String,
    /// Number of mistakes after which the session ends.
    pub max_errors: u32,
}

/// Encryption of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encryption {
    /// None, and none is offered.
    None,
    /// None yet; the client may begin it.
    Optional,
    /// None yet; nothing else than its beginning is possible.
    Required,
    /// The session is encrypted.
    On,
}

impl Encryption {
    /// Returns true if the client may begin it.
    pub fn is_offered(self) -> bool {
        matches!(self, Encryption::Optional | Encryption::Required)
    }
}

/// An event of a session before the login. The reply to the client has been written.
#[derive(Debug)]
pub enum Event {
    /// The handshake of TLS follows. Bytes that have arrived before it end the session.
    StartTls,
    /// The client wants to log in.
    Login(Box<Login>),
    /// The client has tried to log in in a way that is refused without asking, with this name.
    Refused(Vec<u8>),
    /// The session ends.
    Close,
}

impl Offer {
    /// Returns the method with a name of SASL, if it is offered. As in nginx, who takes passwords by
    /// `PLAIN` takes them by `LOGIN` too.
    pub fn mechanism(&self, name: &[u8]) -> Option<Method> {
        let is_meant = |method: &Method| {
            method.sasl_name().is_some_and(|own| own.as_bytes().eq_ignore_ascii_case(name))
        };
        if is_meant(&Method::Login) && self.methods.contains(&Method::Plain) {
            return Some(Method::Login);
        }
        self.methods.iter().copied().find(is_meant)
    }

    /// Returns the names of SASL of the methods that are offered.
    pub fn mechanisms(&self) -> impl Iterator<Item = &'static str> {
        self.methods.iter().filter_map(|method| method.sasl_name())
    }
}
