//! `acme` of a listener's `tls`: certificates that the server obtains and renews itself (RFC 8555).

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use howdah_text::base64;

use super::host_name::read_name;
use crate::error::Error;
use crate::key::{Key, Kind, Shape};
use crate::node::{Node, Object, Shown};

/// Authorities in order of preference.
pub(crate) const ACME_SERVERS: Kind =
    Kind::OneOrMany(&Kind::Either(&[Kind::Text, Kind::Object(&ACME_SERVER)]));

/// Types of challenges in order of preference.
pub(crate) const CHALLENGES: Kind = Kind::OneOrMany(&Kind::Word(&["http", "tls-alpn", "dns"]));

/// `acme` of `tls`.
pub(crate) static ACME: Shape = Shape {
    name: "acme",
    parts: &[&[
        Key::new("domains", Kind::Texts, "The names of the certificate")
            .default("required without `on_demand`")
            .details("`*.example.org` needs `dns`"),
        Key::new("email", Kind::Text, "Contact address for the authority").default("none"),
        Key::new("servers", ACME_SERVERS, "URLs of the authorities' directories, tried in order")
            .default("Let's Encrypt")
            .details("If one fails, the next is tried"),
        Key::new("challenges", CHALLENGES, "Types of challenges in order of preference")
            .default("`[\"tls-alpn\", \"http\"]`; with `dns`: `\"dns\"`")
            .details(
                "`http` (port 80), `tls-alpn` (port 443), `dns` (a DNS record). If one fails, the \
             next is tried",
            ),
        Key::new("dns", Kind::Object(&DNS), "The program that changes DNS records")
            .default("none")
            .details("See [DNS challenges](#dns-challenges)"),
        Key::new(
            "key",
            Kind::Word(&["ecdsa", "rsa"]),
            "The type of key: ECDSA (P-256) or RSA (2048 bits)",
        )
        .default("\"ecdsa\"")
        .details("Takes effect at the next renewal"),
        Key::new("profile", Kind::Text, "One of the authority's certificate profiles")
            .default("none")
            .details("For example Let's Encrypt's `shortlived`"),
        Key::new(
            "on_demand",
            Kind::Object(&ON_DEMAND),
            "Certificates for names that clients request",
        )
        .default("none")
        .details("See [On-demand certificates](#on-demand-certificates)"),
    ]],
};

/// An object in `servers`.
static ACME_SERVER: Shape = Shape {
    name: "acme_server",
    parts: &[&[
        Key::new("directory", Kind::Text, "The URL of the directory").required(),
        Key::new(
            "ca",
            Kind::Text,
            "File with the authorities of the server's own TLS certificate (PEM)",
        )
        .default("the system's")
        .details("If it is a private server"),
        Key::new(
            "external_account",
            Kind::Object(&EXTERNAL_ACCOUNT),
            "Key of an existing account (external account binding)",
        )
        .default("none")
        .details("As issued by ZeroSSL and others"),
    ]],
};

/// `external_account` of a server.
static EXTERNAL_ACCOUNT: Shape = Shape {
    name: "acme_external_account",
    parts: &[&[
        Key::new("id", Kind::Text, "The key's identifier").required(),
        Key::new("key", Kind::Text, "The key (HMAC), in base64").required(),
    ]],
};

/// `dns` of `acme`.
pub(crate) static DNS: Shape = Shape {
    name: "acme_dns",
    parts: &[&[
        Key::new(
            "program",
            Kind::Text,
            "Absolute path of the program, which gets `present` or `cleanup`, record and value",
        )
        .details(
            "The program and its parent directories must belong to root or to the user who \
             started the server, and must not be writable by other users",
        )
        .required(),
        Key::new("wait", Kind::Seconds(0), "Seconds until all DNS servers have a new record")
            .default("30")
            .details("Between the end of the program and the challenge"),
        Key::new("timeout", Kind::Seconds(1), "Maximum run time of the program in seconds")
            .default("120"),
    ]],
};

/// `on_demand` of `acme`.
static ON_DEMAND: Shape = Shape {
    name: "acme_on_demand",
    parts: &[&[
        Key::new(
            "ask",
            Kind::Text,
            "URL that responds with a status from 200 to 299 for names that may have a certificate",
        )
        .details(
            "Requested with `?domain=NAME` (or `&domain=NAME`) before the first certificate and \
             before each renewal",
        )
        .required(),
        Key::new("max", Kind::Integer(1, 100_000), "Maximum number of names").default("1000"),
    ]],
};

/// A certificate that the server obtains and renews, or certificates on demand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acme {
    /// The names of the certificate, in lower case and document order; none if certificates are
    /// only obtained on demand.
    pub domains: Vec<String>,
    /// The contact address for the authority.
    pub email: Option<String>,
    /// The authorities, in the order in which they are tried.
    pub servers: Vec<AcmeServer>,
    /// Challenges that prove control of names, in order of preference.
    pub challenges: Vec<AcmeChallenge>,
    /// The program that changes DNS records.
    pub dns: Option<DnsHook>,
    /// The kind of key.
    pub key: AcmeKey,
    /// The authority's certificate profile.
    pub profile: Option<String>,
    /// Certificates for names that clients request.
    pub on_demand: Option<OnDemand>,
}

/// A certificate authority.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcmeServer {
    /// The URL of its directory.
    pub directory: String,
    /// A file with the authorities for the HTTPS of its directory; `None` for the system's.
    pub ca: Option<PathBuf>,
    /// An existing account of the authority.
    pub external_account: Option<ExternalAccount>,
}

/// External account binding (RFC 8555, 7.3.4).
#[derive(Clone, PartialEq, Eq)]
pub struct ExternalAccount {
    /// The key identifier.
    pub id: String,
    /// The key.
    pub key: Vec<u8>,
}

/// Omits the key, as the text may get into a log.
impl fmt::Debug for ExternalAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExternalAccount").field("id", &self.id).finish_non_exhaustive()
    }
}

/// A challenge that proves control of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcmeChallenge {
    /// A response on port 80 (RFC 8555, 8.3).
    Http,
    /// A handshake on port 443 (RFC 8737).
    TlsAlpn,
    /// A DNS record (RFC 8555, 8.4).
    Dns,
}

/// The program that creates and removes DNS records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DnsHook {
    /// The program.
    pub program: PathBuf,
    /// Time until new records are visible on all name servers.
    pub wait: Duration,
    /// Maximum run time of the program.
    pub timeout: Duration,
}

/// A kind of key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcmeKey {
    /// ECDSA with P-256.
    Ecdsa,
    /// RSA with 2048 bits.
    Rsa,
}

/// Certificates for names that are not configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnDemand {
    /// The URL that is asked whether a name may have a certificate; `?domain=NAME` is appended.
    pub ask: String,
    /// Maximum number of names.
    pub max: u32,
}

/// Members about the authorities and how they are convinced. A site has them, too.
pub(crate) struct Authority {
    email: Option<String>,
    servers: Option<Vec<AcmeServer>>,
    challenges: Option<Vec<AcmeChallenge>>,
    dns: Option<DnsHook>,
}

impl Authority {
    /// Reads the members of an object. Mistakes are kept.
    pub(crate) fn read(object: &Object<'_>) -> Result<Authority, Error> {
        let email = object.read("email", read_email)?;
        let servers = object.read("servers", |node| {
            node.one_or_many().map(|one| AcmeServer::read(&one)).collect::<Result<Vec<_>, _>>()
        })?;
        let dns = object.read("dns", DnsHook::read)?;
        let challenges = object.read("challenges", |node| {
            let all = node.strings()?.map(|one| AcmeChallenge::read(&one));
            let all: Vec<_> = all.collect::<Result<_, _>>()?;
            if all.is_empty() { Err(node.invalid("must have at least one way")) } else { Ok(all) }
        })?;
        Ok(Authority { email, servers, challenges, dns })
    }
}

impl Acme {
    /// Let's Encrypt.
    pub const DEFAULT_SERVER: &str = "https://acme-v02.api.letsencrypt.org/directory";

    /// The prefix of the names of stored certificates.
    pub const PREFIX: &str = "acme:";

    /// Returns the name under which the certificate is stored; `None` if all are obtained on
    /// demand.
    pub fn certificate(&self) -> Option<String> {
        self.domains.first().map(|domain| Acme::certificate_for(domain))
    }

    /// Returns the name under which a certificate with this first domain is stored.
    pub fn certificate_for(domain: &str) -> String {
        format!("{}{domain}", Acme::PREFIX)
    }

    pub(super) fn read(node: &Node<'_>) -> Result<Acme, Error> {
        let object = node.object(&ACME)?;
        let domains = object.read("domains", |node| {
            node.strings()?.map(|name| read_domain(&name)).collect::<Result<Vec<_>, _>>()
        })?;
        let on_demand = object.read("on_demand", OnDemand::read)?;
        let Authority { email, servers, challenges, dns } = Authority::read(&object)?;
        let key = object.read("key", AcmeKey::read)?.unwrap_or(AcmeKey::Ecdsa);
        let profile = object.text("profile")?;
        let domains = domains.unwrap_or_default();
        if domains.is_empty() && on_demand.is_none() {
            return Err(object.missing(&["domains", "on_demand"]));
        }
        let challenges = match (challenges, &dns) {
            (Some(given), None) if given.contains(&AcmeChallenge::Dns) && !object.has("dns") => {
                let error = node.invalid("proves names by DNS, but has no \"dns\"");
                return Err(error.with_hint("name the program that changes the records in \"dns\""));
            }
            (Some(given), _) => given,
            (None, Some(_)) => vec![AcmeChallenge::Dns],
            (None, None) => vec![AcmeChallenge::TlsAlpn, AcmeChallenge::Http],
        };
        let wildcard = domains.iter().find(|name| name.starts_with('*'));
        if let (Some(name), false) = (wildcard, challenges.contains(&AcmeChallenge::Dns)) {
            let message = format!("has \"{name}\", which authorities give only if DNS proves it");
            let error = node.invalid(message);
            return Err(error.with_hint("name the program that changes DNS records in \"dns\""));
        }
        object.end()?;
        let default = || AcmeServer {
            directory: Acme::DEFAULT_SERVER.to_owned(),
            ca: None,
            external_account: None,
        };
        let servers = servers.filter(|servers| !servers.is_empty());
        let servers = servers.unwrap_or_else(|| vec![default()]);
        Ok(Acme { domains, email, servers, challenges, dns, key, profile, on_demand })
    }
}

impl AcmeServer {
    fn read(node: &Node<'_>) -> Result<AcmeServer, Error> {
        if node.value.is_string() {
            let directory = read_url(node, &["https://"])?;
            return Ok(AcmeServer { directory, ca: None, external_account: None });
        }
        if !node.value.is_object() {
            return Err(node.wrong_type("the URL of a directory or an object with it"));
        }
        let object = node.object(&ACME_SERVER)?;
        let directory = read_url(&object.required("directory")?, &["https://"])?;
        let ca = object.file("ca")?;
        let external_account = object.read("external_account", ExternalAccount::read)?;
        object.end()?;
        Ok(AcmeServer { directory, ca, external_account })
    }
}

impl ExternalAccount {
    fn read(node: &Node<'_>) -> Result<ExternalAccount, Error> {
        let object = node.object(&EXTERNAL_ACCOUNT)?;
        let id = object.required("id")?.text()?.to_owned();
        let key = object.required("key")?;
        // The message does not contain the key, as it is logged.
        let digits = key.value.as_str().map(|text| text.replace('-', "+").replace('_', "/"));
        let decoded = digits.and_then(|text| base64::decode(text.as_bytes()));
        let decoded = decoded.filter(|key| !key.is_empty());
        let decoded = decoded.ok_or_else(|| key.invalid("must be a key in base64"))?;
        object.end()?;
        Ok(ExternalAccount { id, key: decoded })
    }
}

impl AcmeChallenge {
    fn read(node: &Node<'_>) -> Result<AcmeChallenge, Error> {
        match node.string()? {
            "http" => Ok(AcmeChallenge::Http),
            "tls-alpn" => Ok(AcmeChallenge::TlsAlpn),
            "dns" => Ok(AcmeChallenge::Dns),
            _ => {
                let error = node.invalid("is no way to prove a name");
                Err(error.with_hint("write \"http\", \"tls-alpn\" or \"dns\""))
            }
        }
    }
}

impl AcmeKey {
    fn read(node: &Node<'_>) -> Result<AcmeKey, Error> {
        match node.string()? {
            "ecdsa" => Ok(AcmeKey::Ecdsa),
            "rsa" => Ok(AcmeKey::Rsa),
            _ => {
                let error = node.invalid("is no kind of key");
                Err(error.with_hint("write \"ecdsa\" or \"rsa\""))
            }
        }
    }
}

impl DnsHook {
    fn read(node: &Node<'_>) -> Result<DnsHook, Error> {
        let object = node.object(&DNS)?;
        let program = object.required("program")?;
        let path = program.file()?;
        if !path.is_absolute() {
            return Err(program.invalid("must begin with a slash"));
        }
        let wait = object.seconds("wait")?.unwrap_or(Duration::from_secs(30));
        let timeout = object.seconds("timeout")?;
        object.end()?;
        let timeout = timeout.unwrap_or(Duration::from_secs(120));
        Ok(DnsHook { program: path, wait, timeout })
    }
}

impl OnDemand {
    fn read(node: &Node<'_>) -> Result<OnDemand, Error> {
        let object = node.object(&ON_DEMAND)?;
        let ask = read_url(&object.required("ask")?, &["http://", "https://"])?;
        let max = object.integer_or_default("max")?;
        object.end()?;
        Ok(OnDemand { ask, max })
    }
}

fn read_domain(node: &Node<'_>) -> Result<String, Error> {
    let name = read_name(node)?;
    let host = name.strip_prefix("*.").unwrap_or(&name);
    // The name becomes a file name; in DNS it has at most 253 characters.
    let fits = |label: &str| {
        (1..=63).contains(&label.len()) && !label.starts_with('-') && !label.ends_with('-')
    };
    if name.len() <= 240 && host.split('.').all(fits) && !is_address(host) {
        return Ok(name);
    }
    let message = format!("must be a name in DNS, but is \"{}\"", Shown(&name));
    Err(node.invalid(message))
}

fn is_address(host: &str) -> bool {
    host.parse::<std::net::Ipv4Addr>().is_ok()
}

fn read_email(node: &Node<'_>) -> Result<String, Error> {
    let email = node.text()?;
    let parts = email.split_once('@');
    let is_plain = email.bytes().all(|byte| byte.is_ascii_graphic());
    match parts {
        Some((user, host)) if is_plain && !user.is_empty() && host.contains('.') => {
            Ok(email.to_owned())
        }
        _ => Err(node.invalid("must be an address such as \"somebody@example.org\"")),
    }
}

fn read_url(node: &Node<'_>, schemes: &[&str]) -> Result<String, Error> {
    let url = node.text()?;
    let rest = schemes.iter().find_map(|scheme| url.strip_prefix(scheme));
    let is_plain = url.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
    match rest {
        Some(rest) if is_plain && !rest.is_empty() && !rest.starts_with('/') => Ok(url.to_owned()),
        _ => {
            let message = format!("must be a URL, but is \"{}\"", Shown(url));
            Err(node.invalid(message).with_hint(format!("it begins with {}", schemes.join(" or "))))
        }
    }
}
