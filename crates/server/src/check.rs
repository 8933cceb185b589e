//! `howdah check`: whether the TLS of a document can be made ready, from the same texts and by the same
//! code as for a configuration that is applied.

use std::path::{Path, PathBuf};

use howdah_config::{Certificate, Config, Listener, Tls};
use howdah_tls::{Material, Source, TlsClient, TlsListener};

/// Where texts come from.
pub struct Texts<'a> {
    /// Reads a file.
    pub read: &'a dyn Fn(&Path) -> Result<Vec<u8>, String>,
    /// A bundle of the certificate store; `None` if it does not have it. Without, nobody knows which
    /// certificates are stored, and what needs one is not looked at.
    pub stored: Option<&'a Stored<'a>>,
}

/// Gives the bundle of a name.
pub type Stored<'a> = dyn Fn(&str) -> Option<Vec<u8>> + 'a;

/// What keeps a document's TLS from being spoken: the place in it, and the problem.
pub fn tls(config: &Config, texts: &Texts<'_>) -> Vec<(String, String)> {
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

/// The places of what names certificates of the store.
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

/// Where a listener's TLS stands in the document.
pub(crate) fn place(listener: &Listener) -> String {
    format!("{}/tls", howdah_config::path(["listeners", listener.name.as_str()]))
}

/// Files with those whom the certificates of authorities must come from. They are read again when they
/// are needed.
pub(crate) fn authorities(settings: &Tls) -> impl Iterator<Item = &PathBuf> {
    settings.acme.iter().flat_map(|acme| &acme.servers).filter_map(|server| server.ca.as_ref())
}

impl Texts<'_> {
    fn file(&self, path: &Path) -> Result<Vec<u8>, String> {
        let name = path.to_string_lossy();
        (self.read)(path).map_err(|error| howdah_tls::authorities::unreadable(&name, &error))
    }

    fn material(&self, sources: Vec<Source>) -> Result<Material, String> {
        let mut material = Material::default();
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
