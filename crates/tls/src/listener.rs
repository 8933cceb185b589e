//! TLS state of a listener.
//!
//! There is one rustls configuration for each client certificate rule, and one for names without a
//! rule, so that a session of one cannot be resumed under another.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use howdah_config::{self as config, Alpn, Certificate};
use rustls::ServerConfig;
use rustls::server::WebPkiClientVerifier;

use super::certificates::{CertificateInUse, Certificates, UnusableCertificate, certified};
use super::clients::{Rule, RuleFiles, Verifier};
use super::http3;
use super::material::{CertificateFiles, Source};
use super::parameters;
use super::sessions::Sessions;
use super::tickets::Tickets;

/// TLS state of one listener.
#[derive(Debug)]
pub struct TlsListener {
    settings: config::Tls,
    certificates: Arc<Certificates>,
    rules: Vec<Rule>,
    /// For names without a rule.
    without_rule: Arc<ServerConfig>,
    /// The same for HTTP/3: for names without a rule, then for each rule.
    pub(super) http3: Vec<Arc<ServerConfig>>,
    counters: Arc<Counters>,
    /// Reason why no client can use it.
    closed: Option<String>,
}

/// Counters of a listener's handshakes; they continue when its settings change.
#[derive(Debug, Default)]
pub struct Counters {
    /// Completed handshakes, resumed sessions included.
    pub handshakes: AtomicU64,
    /// Completed handshakes with a resumed session.
    pub resumed: AtomicU64,
    /// Failed handshakes.
    pub failed: AtomicU64,
    /// Completed handshakes with TLS 1.2; the others have TLS 1.3.
    pub tls12: AtomicU64,
}

/// Returns the sources of all files that a listener's settings name.
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
    let rules = settings.client_certificates.iter();
    let files = rules.flat_map(|rule| [&rule.authorities].into_iter().chain(&rule.revoked));
    sources.extend(files.cloned().map(Source::File));
    sources
}

impl TlsListener {
    /// Builds the TLS state for these settings. Certificates that cannot be used are out. Error:
    /// another file that cannot be used.
    pub fn without_unusable(
        settings: &config::Tls,
        material: &CertificateFiles,
    ) -> Result<Self, String> {
        let certificates = Arc::new(Certificates::new(settings, material));
        let rules = settings.client_certificates.iter().map(|rule| {
            Rule::new(rule, RuleFiles::find(rule, material)?, |verifier, binding| {
                server_config(settings, &certificates, Some(verifier), binding)
            })
        });
        let rules = rules.collect::<Result<Vec<_>, String>>()?;
        let without_rule = server_config(settings, &certificates, None, b"")?;
        let of_rules = rules.iter().map(|rule| &rule.config);
        let http3 = http3::configurations([&without_rule].into_iter().chain(of_rules));
        let (settings, counters, closed) = (settings.clone(), Arc::default(), None);
        Ok(TlsListener { settings, certificates, rules, without_rule, http3, counters, closed })
    }

    /// Builds a listener that refuses all clients: without a file, such as the authorities of
    /// client certificates, it would accept any client. Error: the TLS library refuses the
    /// settings.
    pub fn closed(settings: &config::Tls, problem: String) -> Result<Self, String> {
        let nothing = config::Tls {
            certificates: Vec::new(),
            client_certificates: Vec::new(),
            acme: Vec::new(),
            refuse_unknown_names: true,
            ..settings.clone()
        };
        let listener = TlsListener::without_unusable(&nothing, &CertificateFiles::default())?;
        Ok(TlsListener { closed: Some(problem), ..listener })
    }

    /// Returns the reason why no client can use it; `None` if clients can.
    pub fn closed_because(&self) -> Option<&str> {
        self.closed.as_deref()
    }

    /// Returns how encryption begins with a command; `None` if it does with the first byte.
    pub fn starttls(&self) -> Option<config::StartTls> {
        self.settings.starttls
    }

    /// Returns the configured certificates that cannot be used.
    pub fn unusable(&self) -> Vec<UnusableCertificate> {
        self.certificates.unusable()
    }

    /// Takes over the counters of the listener that this one replaces.
    pub fn take_counters_of(self, other: Option<&Arc<TlsListener>>) -> Self {
        let counters = other.map(|other| Arc::clone(&other.counters));
        TlsListener { counters: counters.unwrap_or_default(), ..self }
    }

    /// Uses the certificates of the listener that this one replaces in place of those that cannot
    /// be used.
    pub fn take_earlier_of(&self, other: &TlsListener) {
        self.certificates.take_earlier_of(&other.certificates);
    }

    /// Returns true if there is any certificate.
    pub(super) fn has_certificates(&self) -> bool {
        !self.certificates.is_empty()
    }

    /// Returns true if clients that request this lower-case name, or none (empty), are refused.
    pub(super) fn refuses(&self, name: &str) -> bool {
        self.settings.refuse_unknown_names && !self.certificates.has(name)
    }

    /// Counters of the handshakes.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns the configured certificates.
    pub fn in_use(&self) -> Vec<CertificateInUse> {
        self.certificates.in_use()
    }

    /// Returns true if the listener has these settings, client authorities and lists of revoked
    /// certificates: only its own certificates may differ.
    pub fn has_settings(&self, settings: &config::Tls, material: &CertificateFiles) -> bool {
        let mut rules = settings.client_certificates.iter().zip(&self.rules);
        self.closed.is_none()
            && self.settings == *settings
            && rules.all(|(settings, rule)| {
                RuleFiles::find(settings, material).is_ok_and(|files| rule.is_of(&files))
            })
    }

    /// Replaces certificates that have changed. One that cannot be used stays as it was. Returns
    /// true if any has changed, and the problems. Sessions stay valid.
    pub fn renew(&self, material: &CertificateFiles) -> (bool, Vec<UnusableCertificate>) {
        self.certificates.renew(&self.settings, material)
    }

    /// Adds or replaces an on-demand certificate.
    pub fn add(&self, pem: &[u8]) -> Result<(), String> {
        self.certificates.add(certified(pem)?, self.max_on_demand())
    }

    /// Returns the settings for a certificate on demand, if there are any and the name has no
    /// certificate.
    pub(super) fn on_demand_settings(&self, name: &str) -> Option<&config::Acme> {
        let mut all = self.settings.acme.iter();
        let acme = all.find(|acme| acme.on_demand.is_some())?;
        (!name.is_empty() && !self.certificates.has(name)).then_some(acme)
    }

    fn max_on_demand(&self) -> usize {
        let all = self.settings.acme.iter().filter_map(|acme| acme.on_demand.as_ref());
        all.map(|on_demand| on_demand.max as usize).sum()
    }

    /// Returns the index of the client certificate rule for a lower-case name.
    pub fn rule(&self, name: &str) -> Option<usize> {
        self.rules.iter().position(|rule| rule.is_for(name))
    }

    /// Returns the configuration for a rule, or for names without one.
    pub(super) fn config(&self, rule: Option<usize>) -> &Arc<ServerConfig> {
        rule.and_then(|rule| self.rules.get(rule)).map_or(&self.without_rule, |rule| &rule.config)
    }
}

/// Builds the configuration for one client certificate rule. Session tickets are bound to
/// `binding`.
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
    let protocols: &[&[u8]] = match settings.alpn {
        Alpn::Http { http2: true } => &[b"h2", b"http/1.1"],
        Alpn::Http { http2: false } => &[b"http/1.1"],
        Alpn::Any => &[],
        Alpn::Imap => &[b"imap"],
        Alpn::Pop3 => &[b"pop3"],
        Alpn::Smtp => &[b"smtp", b"submission"],
    };
    made.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    made.session_storage = Arc::new(Sessions::new(&settings.session));
    let tickets = Tickets::new(&settings.session, binding)?;
    let resumable = settings.session.cache_size > 0 || tickets.is_some();
    made.send_tls13_tickets = if resumable { parameters.ticket_count } else { 0 };
    if let Some(tickets) = tickets {
        made.ticketer = Arc::new(tickets);
    }
    Ok(Arc::new(made))
}
