//! A listener's certificates. A client gets the certificate for the name in its hello, or else the
//! first.
//!
//! The names of a certificate are its DNS names, or, if it has none, its common name. A leading `*`
//! stands for one label. Several certificates for a name must have different kinds of keys; of
//! those with the same kind, the first is used.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use arc_swap::ArcSwap;
use howdah_config::{self as config, Certificate};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::FromDer;

use super::material::{CertificateFiles, Source};
use super::validity::Validity;

/// Certificates that can be replaced while the listener runs.
#[derive(Debug)]
pub(super) struct Certificates {
    configured: ArcSwap<Table>,
    /// On-demand certificates by name.
    on_demand: RwLock<HashMap<String, Arc<CertifiedKey>>>,
}

/// A certificate in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateInUse {
    /// Name in the certificate store, or path of the file.
    pub name: String,
    /// DNS names, wildcards included.
    pub names: Vec<String>,
    /// Validity.
    pub validity: Validity,
    /// The server renews it itself.
    pub is_managed: bool,
}

/// A configured certificate that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnusableCertificate {
    /// The certificate in the settings.
    pub certificate: Certificate,
    /// The problem, and the remedy.
    pub problem: String,
    /// An earlier content is in use.
    pub has_earlier: bool,
}

impl UnusableCertificate {
    /// Returns its name in the certificate store, or the path of its file.
    pub fn name(&self) -> String {
        match &self.certificate {
            Certificate::Stored(name) | Certificate::Managed(name) => name.clone(),
            Certificate::Files { chain, .. } => chain.display().to_string(),
        }
    }
}

/// Certificates by name.
#[derive(Debug, Default)]
struct Table {
    all: Vec<Arc<CertifiedKey>>,
    /// The place of each in the settings.
    sources: Vec<Certificate>,
    unusable: Vec<UnusableCertificate>,
    in_use: Vec<CertificateInUse>,
    /// Indexes by name, in lower case; wildcards without their asterisk.
    names: HashMap<String, Vec<usize>>,
}

impl Certificates {
    /// Takes the certificates of these settings. Those that cannot be used are out.
    pub fn new(settings: &config::Tls, material: &CertificateFiles) -> Self {
        let configured = ArcSwap::from_pointee(Table::new(settings, material, None));
        Certificates { configured, on_demand: RwLock::default() }
    }

    /// Replaces the configured certificates. One that cannot be used stays as it was, if it was in
    /// use. Returns true if any has changed, and the problems.
    pub fn renew(
        &self,
        settings: &config::Tls,
        material: &CertificateFiles,
    ) -> (bool, Vec<UnusableCertificate>) {
        let current = self.configured.load();
        let table = Table::new(settings, material, Some(&current));
        let is_same =
            |(a, b): (&Arc<CertifiedKey>, &Arc<CertifiedKey>)| a.cert == b.cert && a.ocsp == b.ocsp;
        let is_unchanged =
            current.all.len() == table.all.len() && current.all.iter().zip(&table.all).all(is_same);
        let problems = table.unusable.clone();
        self.configured.store(Arc::new(table));
        (!is_unchanged, problems)
    }

    /// Uses those of `other` in place of the configured ones that cannot be used.
    pub fn take_earlier_of(&self, other: &Certificates) {
        let (table, other) = (self.configured.load(), other.configured.load());
        if table.is_incomplete() {
            self.configured.store(Arc::new(table.with_earlier(&other)));
        }
    }

    /// Returns the configured certificates that cannot be used.
    pub fn unusable(&self) -> Vec<UnusableCertificate> {
        self.configured.load().unusable.clone()
    }

    /// Adds or replaces an on-demand certificate. Error: `max` names already have one.
    pub fn add(&self, key: CertifiedKey, max: usize) -> Result<(), String> {
        let key = Arc::new(key);
        let mut all = self.on_demand.write().unwrap_or_else(PoisonError::into_inner);
        for name in { key.cert.first() }.map(|leaf| names(leaf)).unwrap_or_default() {
            if all.len() >= max && !all.contains_key(&name) {
                return Err("there are too many certificates on demand".to_owned());
            }
            all.insert(name, Arc::clone(&key));
        }
        Ok(())
    }

    /// Returns the configured certificates.
    pub fn in_use(&self) -> Vec<CertificateInUse> {
        self.configured.load().in_use.clone()
    }

    /// Returns true if there is no certificate.
    pub fn is_empty(&self) -> bool {
        let all = || self.on_demand.read().unwrap_or_else(PoisonError::into_inner);
        self.configured.load().all.is_empty() && all().is_empty()
    }

    /// Returns true if there is a certificate for a lower-case name.
    pub fn has(&self, name: &str) -> bool {
        !self.configured.load().named(name).is_empty() || self.on_demand(name).is_some()
    }

    fn on_demand(&self, name: &str) -> Option<Arc<CertifiedKey>> {
        let all = self.on_demand.read().unwrap_or_else(PoisonError::into_inner);
        all.get(name).cloned()
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let table = self.configured.load();
        let schemes = hello.signature_schemes();
        let suits = |key: &&Arc<CertifiedKey>| key.key.choose_scheme(schemes).is_some();
        let named = hello.server_name().map(|name| table.named(name)).unwrap_or_default();
        let mut named = named.iter().filter_map(|index| table.all.get(*index)).peekable();
        let for_name = named.peek().copied();
        // A certificate for the name with an unsuitable key is better than one for another name.
        let found = named.find(suits).or(for_name);
        if let (None, Some(name)) = (found, hello.server_name())
            && let Some(made) = self.on_demand(&name.to_ascii_lowercase())
        {
            return Some(made);
        }
        if found.is_none() && table.is_incomplete() && hello.server_name().is_some() {
            return None; // it may be the name of a certificate that is out: it gets no other one
        }
        let found = found.or_else(|| table.all.iter().find(suits)).or_else(|| table.all.first());
        found.cloned()
    }
}

impl Table {
    /// Takes the certificates of these settings; in place of one that cannot be used, that of
    /// `earlier`.
    fn new(settings: &config::Tls, material: &CertificateFiles, earlier: Option<&Table>) -> Self {
        let mut table = Table::default();
        for certificate in &settings.certificates {
            if let Certificate::Managed(name) = certificate
                && material.find(&Source::Stored(name.clone())).is_none()
            {
                continue; // not issued yet
            }
            table.add(certificate, load(certificate, material).map(Arc::new), earlier);
        }
        table
    }

    /// Returns the same table with the certificates of `earlier` in place of those that are out.
    fn with_earlier(&self, earlier: &Table) -> Self {
        let mut table = Table::default();
        // Unusable certificates come last: the first one stays the one for clients that name none.
        for (certificate, key) in self.sources.iter().zip(&self.all) {
            table.add(certificate, Ok(Arc::clone(key)), None);
        }
        for unusable in &self.unusable {
            table.add(&unusable.certificate, Err(unusable.problem.clone()), Some(earlier));
        }
        table
    }

    /// Adds a certificate; in place of one that cannot be used, that of `earlier`.
    fn add(
        &mut self,
        certificate: &Certificate,
        loaded: Result<Arc<CertifiedKey>, String>,
        earlier: Option<&Table>,
    ) {
        let key = match loaded {
            Ok(key) => key,
            Err(problem) => {
                let earlier = earlier.and_then(|earlier| earlier.of(certificate));
                let (certificate, has_earlier) = (certificate.clone(), earlier.is_some());
                self.unusable.push(UnusableCertificate { certificate, problem, has_earlier });
                let Some(key) = earlier else { return };
                key
            }
        };
        let leaf = key.cert.first();
        self.in_use.extend(leaf.map(|leaf| CertificateInUse::of(certificate, leaf)));
        for name in leaf.map(|leaf| names(leaf)).unwrap_or_default() {
            self.names.entry(name).or_default().push(self.all.len());
        }
        self.all.push(key);
        self.sources.push(certificate.clone());
    }

    /// Returns the certificate for this place in the settings.
    fn of(&self, certificate: &Certificate) -> Option<Arc<CertifiedKey>> {
        let index = self.sources.iter().position(|source| source == certificate)?;
        self.all.get(index).map(Arc::clone)
    }

    /// Returns true if a certificate is out: which names it would have is not known.
    fn is_incomplete(&self) -> bool {
        self.unusable.iter().any(|unusable| !unusable.has_earlier)
    }

    /// Returns the certificates for a name.
    fn named(&self, name: &str) -> &[usize] {
        let name = name.to_ascii_lowercase();
        let exact = self.names.get(&name).filter(|_| !name.starts_with('.'));
        let wildcard = || name.find('.').and_then(|dot| self.names.get(name.get(dot..)?));
        exact.or_else(wildcard).map(Vec::as_slice).unwrap_or_default()
    }
}

impl CertificateInUse {
    fn of(certificate: &Certificate, leaf: &CertificateDer<'_>) -> CertificateInUse {
        let name = match certificate {
            Certificate::Stored(name) | Certificate::Managed(name) => name.clone(),
            Certificate::Files { chain, .. } => chain.display().to_string(),
        };
        let wild = |name: String| if name.starts_with('.') { format!("*{name}") } else { name };
        let parsed = X509Certificate::from_der(leaf);
        let validity = parsed.map_or_else(|_| Validity::default(), |(_, leaf)| (&leaf).into());
        let names = names(leaf).into_iter().map(wild).collect();
        let is_managed = matches!(certificate, Certificate::Managed(_));
        CertificateInUse { name, names, validity, is_managed }
    }
}

pub(super) fn load(
    certificate: &Certificate,
    material: &CertificateFiles,
) -> Result<CertifiedKey, String> {
    let (chain, key, ocsp, label) = match certificate {
        Certificate::Stored(name) | Certificate::Managed(name) => {
            let text = material.get(&Source::Stored(name.clone()))?;
            (text, text, None, format!("certificate \"{name}\""))
        }
        Certificate::Files { chain, key, ocsp } => {
            let get = |path: &std::path::PathBuf| material.get(&Source::File(path.clone()));
            let ocsp = ocsp.as_ref().map(get).transpose()?;
            (get(chain)?, get(key)?, ocsp, format!("certificate {}", chain.display()))
        }
    };
    let refuse = |problem: String| format!("{label}: {problem}");
    let mut made = certified_of(chain, key).map_err(refuse)?;
    made.ocsp = ocsp.filter(|ocsp| !ocsp.is_empty()).map(<[u8]>::to_vec);
    Ok(made)
}

/// Parses a certificate chain and its private key from one text (PEM).
pub fn certified(pem: &[u8]) -> Result<CertifiedKey, String> {
    certified_of(pem, pem)
}

fn certified_of(chain: &[u8], key: &[u8]) -> Result<CertifiedKey, String> {
    let refuse = |problem: &str| problem.to_owned();
    let certificates = CertificateDer::pem_slice_iter(chain).collect::<Result<Vec<_>, _>>();
    let certificates = certificates.map_err(|_| refuse("there is broken PEM in it"))?;
    if certificates.is_empty() {
        return Err(refuse("there is no certificate in PEM form in it"));
    }
    // The library's messages could contain a part of the key.
    let key = PrivateKeyDer::from_pem_slice(key)
        .map_err(|_| refuse("there is no private key in PEM form for it, or it is encrypted"))?;
    let key = aws_lc_rs::sign::any_supported_type(&key).map_err(|_| {
        refuse(
            "its private key is neither RSA (2048 to 8192 bits), ECDSA (P-256, \
                             P-384, P-521) nor Ed25519",
        )
    })?;
    let made = CertifiedKey::new(certificates, key);
    if let Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::KeyMismatch)) =
        made.keys_match()
    {
        return Err(refuse("its private key belongs to another certificate"));
    }
    Ok(made)
}

/// Returns the DNS names of a certificate, in lower case; wildcards without their asterisk.
pub fn names(leaf: &CertificateDer<'_>) -> Vec<String> {
    let Ok((_, leaf)) = X509Certificate::from_der(leaf) else { return Vec::new() };
    let alternatives = leaf.extensions().iter().find_map(|one| match one.parsed_extension() {
        ParsedExtension::SubjectAlternativeName(names) => Some(&names.general_names),
        _ => None,
    });
    let names: Vec<&str> = match alternatives {
        Some(names) => { names.iter() }
            .filter_map(|name| match name {
                GeneralName::DNSName(name) => Some(*name),
                _ => None,
            })
            .collect(),
        None => {
            let common = leaf.subject().iter_common_name().next();
            common.and_then(|name| name.as_str().ok()).into_iter().collect()
        }
    };
    let key = |name: &str| {
        let name = name.to_ascii_lowercase();
        match name.strip_prefix('*') {
            None => Some(name),
            // RFC 6125, 6.4.3: a wildcard is the whole leftmost label.
            Some(rest) => (rest.len() > 1 && rest.starts_with('.')).then(|| rest.to_owned()),
        }
    };
    names.into_iter().filter_map(key).collect()
}
