//! `tls` of a listener: certificates, sessions, client certificates, and OpenSSL's configuration
//! commands.

mod acme;
mod cipher;
mod commands;
mod host_name;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use howdah_text::base64;

pub use acme::{Acme, AcmeChallenge, AcmeKey, AcmeServer, DnsHook, ExternalAccount, OnDemand};
pub use cipher::{CipherSuite, KeyExchange};
pub use commands::TlsParameters;
pub(crate) use host_name::read_host;
use host_name::read_name;

use self::acme::ACME;
pub(crate) use self::acme::{ACME_SERVERS, Authority, CHALLENGES, DNS};
use crate::error::Error;
use crate::key::{Key, Kind, Shape};
use crate::node::{Node, Shown, default_of_reader};

/// `tls` of a listener.
pub(crate) static TLS: Shape = Shape {
    name: "tls",
    parts: &[&[
        Key::new(
            "certificate",
            Kind::OneOrMany(&Kind::Either(&[Kind::Text, Kind::Object(&CERTIFICATE)])),
            "Names of stored certificates, or their files; the first is the default",
        )
        .default("required without `acme`")
        .details(
            "See [Stored certificates](../control-api.md#certificates). An object with files is \
             **Howdah's**",
        )
        .unit(),
        Key::new(
            "acme",
            Kind::OneOrMany(&Kind::Object(&ACME)),
            "Certificates that the server obtains and renews by itself (ACME)",
        )
        .default("none")
        .details(
            "See [Automatic certificates](../tls.md#certificates-by-themselves). nginx's \
             counterpart is `acme_issuer` of its ACME module",
        ),
        Key::new(
            "conf_commands",
            Kind::Named(&Kind::Text),
            "Versions and ciphers, as OpenSSL's configuration commands",
        )
        .default("none")
        .unit(),
        Key::new("session", Kind::Object(&SESSION), "Session resumption").default("none").unit(),
        Key::new(
            "client_certificates",
            Kind::OneOrMany(&Kind::Object(&CLIENT_CERTIFICATES)),
            "Certificates that clients must present",
        )
        .default("none"),
        Key::switch(
            "refuse_unknown_names",
            false,
            "Refuses the handshake of clients that request no name of a certificate",
        )
        .details("As nginx's `ssl_reject_handshake` in the default server"),
        Key::new(
            "starttls",
            Kind::Word(&["optional", "required"]),
            "With `mail/NAME`: encryption begins with the command `STARTTLS` or `STLS`, which \
             clients may or must send before they log in",
        )
        .default("encryption from the first byte"),
    ]],
};

/// A certificate with its files.
pub(crate) static CERTIFICATE: Shape = Shape {
    name: "certificate",
    parts: &[&[
        Key::new("chain", Kind::Text, "File with the certificate and those of its issuers (PEM)")
            .required(),
        Key::new("key", Kind::Text, "File with the private key (PEM)").required(),
        Key::new("ocsp", Kind::Text, "File with an OCSP response (DER)").default("none"),
    ]],
};

/// `session` of `tls`.
static SESSION: Shape = Shape {
    name: "session",
    parts: &[&[
        Key::new(
            "cache_size",
            Kind::Integer(0, MAX_CACHED_SESSIONS),
            "Maximum number of sessions in the server's cache; the oldest are removed first",
        )
        .default("0")
        .unit(),
        Key::new("timeout", Kind::Seconds(1), "Lifetime of a session in seconds")
            .default("300")
            .unit(),
        Key::new(
            "tickets",
            Kind::Either(&[Kind::Switch, Kind::Texts]),
            "Session tickets: `true` or `false`, or keys of 48 or 80 bytes in base64",
        )
        .default("false")
        .details(
            "`true`: encrypted with keys that the server generates and replaces every hour. A \
             key, or an array of keys: the last one encrypts, all decrypt. A key is 48 or 80 \
             bytes in base64, as from `openssl rand -base64 80` without line ends; servers with \
             the same keys resume each other's sessions",
        )
        .unit(),
    ]],
};

/// Maximum of `cache_size`. A session takes some hundred bytes of memory.
const MAX_CACHED_SESSIONS: i64 = 1_000_000;

/// `client_certificates` of `tls`.
static CLIENT_CERTIFICATES: Shape = Shape {
    name: "client_certificates",
    parts: &[&[
        Key::new(
            "authorities",
            Kind::Text,
            "File with the certificates of the accepted authorities (PEM)",
        )
        .details("If it cannot be read, the configuration is refused")
        .required(),
        Key::new(
            "revoked",
            Kind::Text,
            "File with the authorities' lists of revoked certificates (PEM)",
        )
        .default("none")
        .details(
            "nginx's `ssl_crl`. Each certificate of a client's chain needs a list of its issuer \
             that has not expired, so a list that nobody renews locks all clients out. At most 1 \
             MiB, checked every five seconds",
        ),
        Key::switch("optional", false, "Accepts clients without a certificate")
            .details("A client with an invalid certificate never is"),
        Key::new("names", Kind::Texts, "Requested server names that the rule is for")
            .default("all")
            .details("`*.example.org` for all below"),
    ]],
};

/// TLS settings of a listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// The certificates. The first one is for clients that request none of the other names. At
    /// least one, unless certificates are obtained on demand.
    pub certificates: Vec<Certificate>,
    /// Certificates that the server obtains itself. Those for configured names are also at the end
    /// of `certificates`.
    pub acme: Vec<Acme>,
    /// Versions, cipher suites and related settings.
    pub parameters: TlsParameters,
    /// Session resumption.
    pub session: TlsSession,
    /// Protocols that clients may agree on in the handshake.
    pub alpn: Alpn,
    /// Rules about client certificates. The first rule for the requested name applies.
    pub client_certificates: Vec<ClientCertificates>,
    /// Refuses clients that request no name of a certificate, as nginx's `ssl_reject_handshake` in
    /// the default server; otherwise they get the first certificate.
    pub refuse_unknown_names: bool,
    /// Encryption begins with a command; `None`: with the first byte.
    pub starttls: Option<StartTls>,
}

/// Encryption that begins with a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartTls {
    /// Clients may begin it.
    Optional,
    /// Nothing else than its beginning is possible before.
    Required,
}

/// Protocols that clients may agree on in the handshake (ALPN). A client that offers only others is
/// refused, so that a page cannot make a browser speak to a server of another protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alpn {
    /// HTTP/1.1, and HTTP/2 if it is offered.
    Http {
        /// True if HTTP/2 is offered.
        http2: bool,
    },
    /// None is agreed on: clients may offer any.
    Any,
    /// IMAP.
    Imap,
    /// POP3.
    Pop3,
    /// SMTP, by either of the names in use.
    Smtp,
}

/// The source of a certificate.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Certificate {
    /// A name in the store of the control API (`/certificates`).
    Stored(String),
    /// A name in the store whose certificate the server obtains itself, so it may not exist yet.
    Managed(String),
    /// Files, read again when they change.
    Files {
        /// The chain, the server's own certificate first.
        chain: PathBuf,
        /// The private key.
        key: PathBuf,
        /// An OCSP response of the issuer, in DER.
        ocsp: Option<PathBuf>,
    },
}

/// `session`: session resumption.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsSession {
    /// Number of sessions in the server's cache.
    pub cache_size: usize,
    /// Time for which a session can be resumed.
    pub timeout: Duration,
    /// Session tickets, which clients store.
    pub tickets: Tickets,
}

/// Session tickets and their keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tickets {
    /// No tickets.
    Off,
    /// Tickets with keys that the server makes and rotates.
    OwnKeys,
    /// Tickets with these keys, which servers can share. The last key encrypts new tickets.
    Keys(Vec<TicketKey>),
}

/// A key for tickets: 48 or 80 bytes, of which the first 16 are its name.
#[derive(Clone, PartialEq, Eq)]
pub struct TicketKey(Vec<u8>);

impl TicketKey {
    /// Length of a key's name in bytes.
    pub const NAME: usize = 16;

    /// Returns all bytes, the name included.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Omits the key, as the text may get into a log.
impl fmt::Debug for TicketKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TicketKey").finish_non_exhaustive()
    }
}

/// A rule about the certificates of clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificates {
    /// The file with the authorities' certificates.
    pub authorities: PathBuf,
    /// The file with the authorities' lists of revoked certificates.
    pub revoked: Option<PathBuf>,
    /// True if clients without a certificate are accepted.
    pub optional: bool,
    /// Requested server names that the rule applies to, in lower case; all if empty. A leading `*`
    /// stands for one label.
    pub names: Vec<String>,
}

impl Tls {
    pub(crate) fn read(node: &Node<'_>) -> Result<Tls, Error> {
        let object = node.object(&TLS)?;
        let acme = object.read("acme", |node| {
            node.one_or_many().map(|one| Acme::read(&one)).collect::<Result<Vec<_>, _>>()
        })?;
        let acme = acme.unwrap_or_default();
        let certificates = object.read("certificate", |node| {
            let mut certificates = Vec::new();
            for one in node.one_or_many() {
                certificates.push(node.part(Certificate::read(&one))?);
            }
            if certificates.is_empty() {
                Err(node.invalid("must name at least one certificate"))
            } else {
                Ok(certificates.into_iter().flatten().collect::<Vec<_>>())
            }
        })?;
        if certificates.is_none() && acme.is_empty() {
            let error = object.missing(&["certificate"]);
            // Without `acme`, because that has a mistake, which is kept.
            return Err(if object.has("acme") { error.follow_on() } else { error });
        }
        let mut certificates = certificates.unwrap_or_default();
        certificates.extend(acme.iter().filter_map(Acme::certificate).map(Certificate::Managed));
        let session = object.read("session", TlsSession::read)?;
        let parameters = object.read("conf_commands", TlsParameters::read)?;
        let clients = object.read("client_certificates", |node| {
            node.one_or_many().map(|rule| ClientCertificates::read(&rule)).collect()
        })?;
        let refuse_unknown_names = object.switch("refuse_unknown_names")?;
        let starttls = object.read("starttls", StartTls::read)?;
        object.end()?;
        let (parameters, mut session) =
            (parameters.unwrap_or_default(), session.unwrap_or_default());
        if !parameters.tickets {
            session.tickets = Tickets::Off;
        }
        let client_certificates = clients.unwrap_or_default();
        Ok(Tls {
            certificates,
            acme,
            parameters,
            session,
            alpn: Alpn::Http { http2: true },
            client_certificates,
            refuse_unknown_names,
            starttls,
        })
    }
}

impl StartTls {
    fn read(node: &Node<'_>) -> Result<StartTls, Error> {
        match node.string()? {
            "optional" => Ok(StartTls::Optional),
            "required" => Ok(StartTls::Required),
            _ => Err(node.invalid("must be \"optional\" or \"required\"")),
        }
    }
}

impl Certificate {
    pub(crate) fn read(node: &Node<'_>) -> Result<Certificate, Error> {
        if node.value.is_string() {
            let name = node.text()?;
            if name.contains('/') {
                let problem =
                    "must be a name in the store of certificates, or an object with files";
                let files =
                    format!("write {{\"chain\": \"{}\", \"key\": \"/key.pem\"}}", Shown(name));
                return Err(node.invalid(problem).with_hint(files));
            }
            return Ok(Certificate::Stored(name.to_owned()));
        }
        if !node.value.is_object() {
            return Err(node.wrong_type("the name of a certificate or an object with its files"));
        }
        let object = node.object(&CERTIFICATE)?;
        let chain = object.required("chain")?.file()?;
        let key = object.required("key")?.file()?;
        let ocsp = object.file("ocsp")?;
        object.end()?;
        Ok(Certificate::Files { chain, key, ocsp })
    }
}

default_of_reader!(TlsSession, TlsSession::read);

impl TlsSession {
    fn read(node: &Node<'_>) -> Result<TlsSession, Error> {
        let object = node.object(&SESSION)?;
        let session = TlsSession {
            cache_size: object.integer_or_default("cache_size")?,
            timeout: object.seconds_or_default("timeout")?,
            tickets: object.read_or_default("tickets", Tickets::read)?,
        };
        object.end()?;
        Ok(session)
    }
}

impl Tickets {
    fn read(node: &Node<'_>) -> Result<Tickets, Error> {
        if let Some(on) = node.value.as_bool() {
            return Ok(if on { Tickets::OwnKeys } else { Tickets::Off });
        }
        if !node.value.is_string() && !node.value.is_array() {
            return Err(node.wrong_type("true, false, a key or an array of keys"));
        }
        let keys = node.one_or_many().map(|key| TicketKey::read(&key));
        let keys = keys.collect::<Result<Vec<_>, _>>()?;
        Ok(if keys.is_empty() { Tickets::Off } else { Tickets::Keys(keys) })
    }
}

impl TicketKey {
    fn read(node: &Node<'_>) -> Result<TicketKey, Error> {
        // The messages do not contain the key, as they are logged.
        let Some(text) = node.value.as_str() else {
            return Err(node.invalid("must be a key in base64"));
        };
        match base64::decode(text.as_bytes()) {
            Some(key) if matches!(key.len(), 48 | 80) => Ok(TicketKey(key)),
            Some(key) => Err(node.invalid(format_args!(
                "must be a key of 48 or 80 bytes, but has {}; \"openssl rand -base64 80\" makes \
                 one",
                key.len()
            ))),
            None => Err(node.invalid("must be a key in base64")),
        }
    }
}

impl ClientCertificates {
    fn read(node: &Node<'_>) -> Result<ClientCertificates, Error> {
        let object = node.object(&CLIENT_CERTIFICATES)?;
        let authorities = object.required("authorities")?.file()?;
        let revoked = object.file("revoked")?;
        let optional = object.switch("optional")?;
        let names = object.read("names", |node| {
            node.strings()?.map(|name| read_name(&name)).collect::<Result<Vec<_>, _>>()
        })?;
        object.end()?;
        let names = names.unwrap_or_default();
        Ok(ClientCertificates { authorities, revoked, optional, names })
    }
}
