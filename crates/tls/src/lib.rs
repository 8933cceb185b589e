//! TLS on listeners: who the server is, who clients must be, and how they come back. And TLS with
//! other servers (`client`).
//!
//! A [`TlsListener`] is made of a listener's settings and of the texts of its certificates
//! ([`Material`]); nothing here opens a file. It holds one rustls configuration for each rule
//! about client certificates, and one for names that no rule is for, so that no session of one
//! can be taken up under another. Which one counts is decided by the name in the client's hello
//! (`handshake`); certificates can be exchanged while it runs ([`TlsListener::renew`]).
//!
//! Keys stay in this process and are never part of a message or of a `Debug` text.

#![forbid(unsafe_code)]

pub mod authorities;
mod certificates;
pub mod challenges;
mod client;
mod clients;
mod facts;
mod handshake;
mod parameters;
pub mod proof;
mod sessions;
pub mod stored;
mod stream;
mod tickets;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use howdah_config::{self as config, Certificate};
use rustls::ServerConfig;
use rustls::server::WebPkiClientVerifier;

use self::certificates::Certificates;
pub use self::certificates::InUse;
pub use self::certificates::{certified, names};
pub use self::client::{TlsClient, TlsClients, client_sources};
use self::clients::Rule;
pub use self::handshake::{Shaken, handshake};
use self::sessions::Sessions;
pub use self::stream::Secured;
use self::tickets::Tickets;

/// The texts that listeners need: certificate bundles by name, and files.
#[derive(Default)]
pub struct Material(HashMap<Source, Vec<u8>>);

/// Where a text comes from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Source {
    /// The certificate store.
    Stored(String),
    /// A file.
    File(PathBuf),
}

/// How one listener speaks TLS.
#[derive(Debug)]
pub struct TlsListener {
    settings: config::Tls,
    certificates: Arc<Certificates>,
    rules: Vec<Rule>,
    /// For names that no rule is for.
    plain: Arc<ServerConfig>,
    counters: Arc<Counters>,
}

/// What became of the connections of a listener; that goes on when its settings change.
#[derive(Debug, Default)]
pub struct Counters {
    /// Handshakes that were completed, those with a session taken up again included.
    pub handshakes: AtomicU64,
    /// Those with a session taken up again.
    pub resumed: AtomicU64,
    /// Handshakes that failed.
    pub failed: AtomicU64,
}

impl Material {
    /// Adds a text.
    pub fn add(&mut self, source: Source, text: Vec<u8>) {
        self.0.insert(source, text);
    }

    fn get(&self, source: &Source) -> Result<&[u8], String> {
        self.0.get(source).map(Vec::as_slice).ok_or_else(|| match source {
            Source::Stored(name) => {
                format!("there is no certificate \"{name}\"; PUT it to /certificates/{name} first")
            }
            Source::File(path) => format!("{} was not read", path.display()),
        })
    }

    fn find(&self, source: &Source) -> Option<&[u8]> {
        self.0.get(source).map(Vec::as_slice)
    }
}

/// All texts that a listener needs.
pub fn sources(settings: &config::Tls) -> Vec<Source> {
    let mut sources = Vec::new();
    for certificate in &settings.certificates {
        match certificate {
            Certificate::Stored(name) | Certificate::Managed(name) => {
                sources.push(Source::Stored(name.clone()));
            }
            Certificate::Files { chain, key, ocsp } => {
                sources.extend([chain, key].into_iter().chain(ocsp).cloned().map(Source::File));
            }
        }
    }
    let authorities = settings.client_certificates.iter().map(|rule| rule.authorities.clone());
    sources.extend(authorities.map(Source::File));
    sources
}

impl TlsListener {
    /// Makes all ready. `Err` says which certificate is of no use, and why.
    pub fn new(settings: &config::Tls, material: &Material) -> Result<Self, String> {
        let certificates = Arc::new(Certificates::new(settings, material)?);
        let rules = settings.client_certificates.iter().map(|rule| {
            let authorities = material.get(&Source::File(rule.authorities.clone()))?;
            Rule::new(rule, authorities, |verifier, binding| {
                server_config(settings, &certificates, Some(verifier), binding)
            })
        });
        let rules = rules.collect::<Result<Vec<_>, String>>()?;
        let plain = server_config(settings, &certificates, None, b"")?;
        let (settings, counters) = (settings.clone(), Arc::default());
        Ok(TlsListener { settings, certificates, rules, plain, counters })
    }

    /// Takes the place of another.
    pub fn in_place_of(self, other: Option<&Arc<TlsListener>>) -> Self {
        let counters = other.map(|other| Arc::clone(&other.counters));
        TlsListener { counters: counters.unwrap_or_default(), ..self }
    }

    /// Whether there is anything to show.
    fn has_certificates(&self) -> bool {
        !self.certificates.is_empty()
    }

    /// What became of its connections.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The configured certificates that are in use.
    pub fn in_use(&self) -> Vec<InUse> {
        self.certificates.in_use()
    }

    /// Whether it was made of these settings and of these authorities for clients, so that only
    /// its certificates can be others.
    pub fn is_of(&self, settings: &config::Tls, material: &Material) -> bool {
        let mut rules = settings.client_certificates.iter().zip(&self.rules);
        self.settings == *settings
            && rules.all(|(settings, rule)| {
                let authorities = material.get(&Source::File(settings.authorities.clone()));
                authorities.is_ok_and(|authorities| rule.is_of(authorities))
            })
    }

    /// Takes certificates that have changed. Returns whether any has. Sessions go on.
    pub fn renew(&self, material: &Material) -> Result<bool, String> {
        self.certificates.renew(&self.settings, material)
    }

    /// Takes a certificate that was made on demand.
    pub fn add(&self, pem: &[u8]) -> Result<(), String> {
        self.certificates.add(certified(pem)?, self.most_on_demand())
    }

    /// The settings by which a name gets a certificate on demand, if it has none yet.
    pub fn wants(&self, name: &str) -> Option<&config::Acme> {
        let mut all = self.settings.acme.iter();
        let acme = all.find(|acme| acme.on_demand.is_some())?;
        (!name.is_empty() && !self.certificates.has(name)).then_some(acme)
    }

    fn most_on_demand(&self) -> usize {
        let all = self.settings.acme.iter().filter_map(|acme| acme.on_demand.as_ref());
        all.map(|on_demand| on_demand.max as usize).sum()
    }

    /// The number of the rule for a name, in lower case; `None` if there is none.
    pub fn rule(&self, name: &str) -> Option<usize> {
        self.rules.iter().position(|rule| rule.is_for(name))
    }

    fn config(&self, rule: Option<usize>) -> &Arc<ServerConfig> {
        rule.and_then(|rule| self.rules.get(rule)).map_or(&self.plain, |rule| &rule.config)
    }
}

type Verifier = Arc<dyn rustls::server::danger::ClientCertVerifier>;

/// A configuration of its own for each kind of client. `binding` is what tickets are bound to.
fn server_config(
    settings: &config::Tls,
    certificates: &Arc<Certificates>,
    verifier: Option<Verifier>,
    binding: &[u8],
) -> Result<Arc<ServerConfig>, String> {
    let parameters = &settings.parameters;
    let versions = parameters::versions(parameters);
    let mut made = ServerConfig::builder_with_provider(parameters::provider(parameters))
        .with_protocol_versions(&versions)
        .map_err(|error| format!("the TLS library refuses the settings: {error}"))?
        .with_client_cert_verifier(verifier.unwrap_or_else(WebPkiClientVerifier::no_client_auth))
        .with_cert_resolver(Arc::clone(certificates) as _);
    made.ignore_client_order = parameters.server_preference;
    made.alpn_protocols = match settings.http2 {
        true => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        false => vec![b"http/1.1".to_vec()],
    };
    made.session_storage = Arc::new(Sessions::new(&settings.session));
    let tickets = Tickets::new(&settings.session, binding)?;
    let resumable = settings.session.cache_size > 0 || tickets.is_some();
    made.send_tls13_tickets = if resumable { parameters.ticket_count } else { 0 };
    if let Some(tickets) = tickets {
        made.ticketer = Arc::new(tickets);
    }
    Ok(Arc::new(made))
}

#[cfg(test)]
mod tests;
