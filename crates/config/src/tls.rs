//! `tls` of a listener: certificates, sessions, client certificates, and what OpenSSL's
//! `SSL_CONF_cmd` would be told.

mod acme;
mod cipher;
mod commands;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

pub use acme::{Acme, AcmeChallenge, AcmeKey, AcmeServer, DnsHook, ExternalAccount, OnDemand};
pub use cipher::{CipherSuite, KeyExchange};
pub use commands::TlsParameters;

use crate::base64;
use crate::error::Error;
use crate::node::{Node, Shown};

/// How a listener speaks TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// The certificates; the first is for clients that name none of the others. At least one,
    /// unless some are made on demand.
    pub certificates: Vec<Certificate>,
    /// Certificates that the server gets by itself. Those for configured names stand among
    /// `certificates` too, behind the others.
    pub acme: Vec<Acme>,
    /// Versions, cipher suites and the like.
    pub parameters: TlsParameters,
    /// How clients come back without a full handshake.
    pub session: TlsSession,
    /// Whether HTTP/2 is spoken with clients that know it.
    pub http2: bool,
    /// What clients must prove; the first rule that is for the name asked for counts.
    pub client_certificates: Vec<ClientCertificates>,
}

/// Where a certificate comes from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Certificate {
    /// The store behind `/certificates`.
    Stored(String),
    /// The same, where it need not be yet: the server gets it by itself.
    Managed(String),
    /// Files, read again when they change.
    Files {
        /// The chain, the server's own certificate first.
        chain: PathBuf,
        /// The private key.
        key: PathBuf,
        /// What the certificate's issuer says of it (OCSP), in DER.
        ocsp: Option<PathBuf>,
    },
}

/// `session`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsSession {
    /// Sessions that are remembered.
    pub cache_size: usize,
    /// How long a session can be taken up again.
    pub timeout: Duration,
    /// Sessions that clients remember.
    pub tickets: Tickets,
}

/// Whether clients get tickets, and what these are sealed with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tickets {
    /// There are none.
    Off,
    /// With keys that this server makes and changes.
    OwnKeys,
    /// With these keys, which other servers may share; the last one seals new tickets.
    Keys(Vec<TicketKey>),
}

/// A key for tickets: 48 or 80 bytes, of which the first 16 are its name.
#[derive(Clone, PartialEq, Eq)]
pub struct TicketKey(Vec<u8>);

impl TicketKey {
    /// Length of a key's name.
    pub const NAME: usize = 16;

    /// All bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Whoever writes this to a log does not write the key.
impl fmt::Debug for TicketKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TicketKey").finish_non_exhaustive()
    }
}

/// A rule about the certificates of clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificates {
    /// The file with the certificates of those who may issue them.
    pub authorities: PathBuf,
    /// Whether a client without one is served.
    pub optional: bool,
    /// The names that the rule is for, in lower case; for all if empty. A leading `*` stands for
    /// one label.
    pub names: Vec<String>,
}

impl Tls {
    pub(crate) fn read(node: &Node<'_>) -> Result<Tls, Error> {
        let object = node.object()?;
        let acme = object.read("acme", |node| {
            node.one_or_many().map(|one| Acme::read(&one)).collect::<Result<Vec<_>, _>>()
        })?;
        let acme = acme.unwrap_or_default();
        let certificates = object.read("certificate", |node| {
            let certificates = node.one_or_many().map(|one| Certificate::read(&one));
            let certificates = certificates.collect::<Result<Vec<_>, _>>()?;
            match certificates.is_empty() {
                true => Err(node.invalid("must name at least one certificate")),
                false => Ok(certificates),
            }
        })?;
        if certificates.is_none() && acme.is_empty() {
            return Err(object.missing(&["certificate"]));
        }
        let mut certificates = certificates.unwrap_or_default();
        certificates.extend(acme.iter().filter_map(Acme::certificate).map(Certificate::Managed));
        let session = object.read("session", TlsSession::read)?;
        let parameters = object.read("conf_commands", TlsParameters::read)?;
        let clients = object.read("client_certificates", |node| {
            node.one_or_many().map(|rule| ClientCertificates::read(&rule)).collect()
        })?;
        object.end()?;
        let (parameters, mut session) =
            (parameters.unwrap_or_default(), session.unwrap_or_default());
        if !parameters.tickets {
            session.tickets = Tickets::Off;
        }
        let client_certificates = clients.unwrap_or_default();
        Ok(Tls { certificates, acme, parameters, session, http2: true, client_certificates })
    }
}

impl Certificate {
    pub(crate) fn read(node: &Node<'_>) -> Result<Certificate, Error> {
        if node.value.is_string() {
            return Ok(Certificate::Stored(node.text()?.to_owned()));
        }
        if !node.value.is_object() {
            return Err(node.wrong_type("the name of a certificate or an object with its files"));
        }
        let object = node.object()?;
        let chain = object.required("chain")?.file()?;
        let key = object.required("key")?.file()?;
        let ocsp = object.file("ocsp")?;
        object.end()?;
        Ok(Certificate::Files { chain, key, ocsp })
    }
}

impl Default for TlsSession {
    fn default() -> Self {
        TlsSession { cache_size: 0, timeout: Duration::from_secs(300), tickets: Tickets::Off }
    }
}

impl TlsSession {
    fn read(node: &Node<'_>) -> Result<TlsSession, Error> {
        /// A session takes some hundred bytes.
        const MOST: i64 = 1_000_000;
        let object = node.object()?;
        let mut session = TlsSession::default();
        if let Some(size) = object.read("cache_size", |node| node.integer(0..=MOST))? {
            session.cache_size = usize::try_from(size).unwrap_or(0);
        }
        if let Some(timeout) = object.read("timeout", |node| node.seconds(1))? {
            session.timeout = timeout;
        }
        if let Some(tickets) = object.read("tickets", Tickets::read)? {
            session.tickets = tickets;
        }
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
        // The messages do not repeat the key: they go to logs.
        let Some(text) = node.value.as_str() else {
            return Err(node.invalid("must be a key in base64"));
        };
        match base64::decode(text.as_bytes()) {
            Some(key) if matches!(key.len(), 48 | 80) => Ok(TicketKey(key)),
            Some(key) => Err(node.invalid(format_args!(
                "must be a key of 48 or 80 bytes, but has {}; \"openssl rand -base64 80\" makes one",
                key.len()
            ))),
            None => Err(node.invalid("must be a key in base64")),
        }
    }
}

impl ClientCertificates {
    fn read(node: &Node<'_>) -> Result<ClientCertificates, Error> {
        let object = node.object()?;
        let authorities = object.required("authorities")?.file()?;
        let optional = object.boolean("optional")?.unwrap_or(false);
        let names = object.read("names", |node| {
            node.strings()?.map(|name| read_name(&name)).collect::<Result<Vec<_>, _>>()
        })?;
        object.end()?;
        Ok(ClientCertificates { authorities, optional, names: names.unwrap_or_default() })
    }
}

/// A host name, or `*.` and one.
fn read_name(node: &Node<'_>) -> Result<String, Error> {
    let name = node.text()?;
    read_host(node, name.strip_prefix("*.").unwrap_or(name))?;
    Ok(name.to_ascii_lowercase())
}

/// Checks that the node, or the part of it that is not a wildcard, is a host name.
pub(crate) fn read_host(node: &Node<'_>, host: &str) -> Result<(), Error> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if host.bytes().all(fits) && !host.starts_with('.') && !host.ends_with('.') && !host.is_empty()
    {
        return Ok(());
    }
    let message =
        format!("must be a host name such as \"example.org\", but is \"{}\"", Shown(node.text()?));
    Err(node.invalid(message))
}
