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

/// Checks the TLS of a document. Returns the place in the document and the description of each
/// problem.
pub fn tls(config: &Config, texts: &CertificateSources<'_>) -> Vec<(String, String)> {
    let mut problems = Vec::new();
    let known = |certificate: &Certificate| {
        texts.stored.is_some() || !matches!(certificate, Certificate::Stored(_))
    };
    for listener in &config.listeners {
        let Some(settings) = &listener.tls else { continue };
        if !settings.certificates.iter().all(known) {
            continue;
        }
        let made =
            authorities(settings).try_for_each(|ca| texts.file(ca).map(|_| ())).and_then(|()| {
                TlsListener::new(settings, &texts.material(howdah_tls::sources(settings))?)
            });
        problems.extend(made.err().map(|problem| (place(listener), problem)));
    }
    for (place, settings) in config.upstream_tls() {
        if !settings.certificate.iter().all(known) {
            continue;
        }
        let material = texts.material(howdah_tls::client_sources(&settings));
        let made = material.and_then(|material| TlsClient::new(&settings, &material));
        problems.extend(made.err().map(|problem| (place, problem)));
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
    format!("{}/tls", howdah_config::path(["listeners", listener.name.as_str()]))
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

    fn material(&self, sources: Vec<Source>) -> Result<CertificateFiles, String> {
        let mut material = CertificateFiles::default();
        for source in sources {
            let text = match &source {
                Source::Stored(name) => self.stored.and_then(|stored| stored(name)),
                Source::File(path) => Some(self.file(path)?),
            };
            text.into_iter().for_each(|text| material.add(source.clone(), text));
        }
        Ok(material)
    }
}
