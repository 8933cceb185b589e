//! TLS checks of `howdah check`: prepares the TLS of a document from the same files and by the same
//! code as for a configuration that is applied.

use std::path::{Path, PathBuf};

use howdah_config::{Certificate, Config, Listener, Tls};
use howdah_tls::{CertificateFiles, Source, TlsClient, TlsListener};

/// Sources of certificates and keys.
pub struct CertificateSources<'a> {
    /// Reads a file. Error: the reason why it cannot be read.
    pub read: &'a dyn Fn(&Path) -> Result<Vec<u8>, String>,
    /// Reads a bundle from the certificate store. Without a store, listeners and upstreams that
    /// name stored certificates are not checked.
    pub stored: Option<&'a Stored<'a>>,
}

/// Returns the stored bundle with a name; `None` if there is none.
pub type Stored<'a> = dyn Fn(&str) -> Option<Vec<u8>> + 'a;

/// A problem of the TLS of a document.
#[derive(Debug)]
pub struct TlsProblem {
    /// The place in the document.
    pub place: String,
    /// The part of that place that has the problem. Several files may have parts of it.
    pub part: String,
    /// The problem, and the remedy.
    pub problem: String,
}

/// Checks the TLS of a document. Returns all problems.
pub fn tls(config: &Config, texts: &CertificateSources<'_>) -> Vec<TlsProblem> {
    let mut problems = Vec::new();
    let known = |certificate: &Certificate| {
        texts.stored.is_some() || !matches!(certificate, Certificate::Stored(_))
    };
    for listener in &config.listeners {
        let Some(settings) = &listener.tls else { continue };
        let found = listener_problems(settings, &known, texts);
        problems.extend(found.into_iter().map(|(part, problem)| {
            let place = place(listener);
            TlsProblem { part: format!("{place}{part}"), place, problem }
        }));
    }
    for (place, settings) in config.upstream_tls() {
        if !settings.certificate.iter().all(known) {
            continue;
        }
        let material = texts.material(howdah_tls::client_sources(&settings));
        let made = TlsClient::new(&settings, &material);
        let problem = made.err();
        problems.extend(problem.map(|problem| TlsProblem { part: place.clone(), place, problem }));
    }
    problems
}

/// Returns the problems of all files of a listener, each with the part of `tls` that has it.
fn listener_problems(
    settings: &Tls,
    known: &dyn Fn(&Certificate) -> bool,
    texts: &CertificateSources<'_>,
) -> Vec<(String, String)> {
    let mut problems = Vec::new();
    for (number, acme) in settings.acme.iter().enumerate() {
        let authorities = acme.servers.iter().filter_map(|server| server.ca.as_ref());
        let found = authorities.filter_map(|ca| texts.file(ca).err());
        problems.extend(found.map(|problem| (format!("/acme/{number}"), problem)));
    }
    let material = texts.material(howdah_tls::sources(settings));
    let without =
        Tls { certificates: Vec::new(), client_certificates: Vec::new(), ..settings.clone() };
    let certificates = settings.certificates.iter().filter(|one| known(one)).cloned();
    let own = Tls { certificates: certificates.collect(), ..without.clone() };
    match TlsListener::without_unusable(&own, &material) {
        Ok(made) => problems.extend(
            made.unusable()
                .into_iter()
                .map(|unusable| (part(settings, &unusable.certificate), unusable.problem)),
        ),
        Err(problem) => return vec![(String::new(), problem)],
    }
    for (number, rule) in settings.client_certificates.iter().enumerate() {
        let of_rule = Tls { client_certificates: vec![rule.clone()], ..without.clone() };
        let problem = TlsListener::without_unusable(&of_rule, &material).err();
        problems.extend(problem.map(|problem| (format!("/client_certificates/{number}"), problem)));
    }
    problems
}

/// Returns the places in a document that name stored certificates.
pub fn stored(config: &Config) -> Vec<String> {
    let is_stored = |certificate: &Certificate| matches!(certificate, Certificate::Stored(_));
    let listeners = config
        .listeners
        .iter()
        .filter(|listener| listener.tls.iter().flat_map(|tls| &tls.certificates).any(is_stored));
    let upstreams = config.upstream_tls().into_iter();
    let upstreams = upstreams.filter(|(_, settings)| settings.certificate.iter().any(is_stored));
    listeners.map(place).chain(upstreams.map(|(place, _)| place)).collect()
}

/// Returns the place of a listener's TLS in the document.
pub(crate) fn place(listener: &Listener) -> String {
    format!("{}/tls", howdah_config::path(["listeners", listener.key.as_str()]))
}

/// Returns the part of `tls` with a certificate.
pub(crate) fn part(settings: &Tls, certificate: &Certificate) -> String {
    let number = settings.certificates.iter().position(|other| other == certificate);
    format!("/certificate/{}", number.unwrap_or_default())
}

/// Returns the files with trusted authorities for the HTTPS of ACME servers. They are read again
/// when they are needed.
pub(crate) fn authorities(settings: &Tls) -> impl Iterator<Item = &PathBuf> {
    settings.acme.iter().flat_map(|acme| &acme.servers).filter_map(|server| server.ca.as_ref())
}

impl CertificateSources<'_> {
    fn file(&self, path: &Path) -> Result<Vec<u8>, String> {
        let name = path.to_string_lossy();
        (self.read)(path).map_err(|error| howdah_tls::authorities::unreadable(&name, &error))
    }

    fn material(&self, sources: Vec<Source>) -> CertificateFiles {
        let mut material = CertificateFiles::default();
        for source in sources {
            let text = match &source {
                Source::Stored(name) => self.stored.and_then(|stored| stored(name)).map(Ok),
                Source::File(path) => Some(self.file(path)),
            };
            match text {
                Some(Ok(text)) => material.add(source, text),
                Some(Err(problem)) => material.fail(source, problem),
                None => {}
            }
        }
        material
    }
}
