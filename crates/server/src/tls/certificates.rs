//! A listener's certificates, and which of them a client gets: the one whose names have the name
//! that it asks for, or the first.
//!
//! Names are the DNS names of the certificate, or, if it has none, its common name. A leading `*`
//! stands for one label. Several certificates for a name are for different kinds of keys; where
//! they are not, the first counts.

use std::collections::HashMap;
use std::sync::Arc;

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

use super::{Material, Source};

/// Certificates that can be exchanged.
#[derive(Debug)]
pub(super) struct Certificates(ArcSwap<Table>);

/// Certificates by name.
#[derive(Debug)]
struct Table {
    all: Vec<Arc<CertifiedKey>>,
    /// Indexes by name, in lower case; wildcards without their asterisk.
    names: HashMap<String, Vec<usize>>,
}

impl Certificates {
    pub fn new(settings: &config::Tls, material: &Material) -> Result<Self, String> {
        Ok(Certificates(ArcSwap::from_pointee(Table::new(settings, material)?)))
    }

    /// Takes what has changed; returns whether anything has.
    pub fn renew(&self, settings: &config::Tls, material: &Material) -> Result<bool, String> {
        let table = Table::new(settings, material)?;
        let is_same =
            |(a, b): (&Arc<CertifiedKey>, &Arc<CertifiedKey>)| a.cert == b.cert && a.ocsp == b.ocsp;
        if self.0.load().all.iter().zip(&table.all).all(is_same) {
            return Ok(false);
        }
        self.0.store(Arc::new(table));
        Ok(true)
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let table = self.0.load();
        let schemes = hello.signature_schemes();
        let suits = |key: &&Arc<CertifiedKey>| key.key.choose_scheme(schemes).is_some();
        let named = hello.server_name().map(|name| table.named(name)).unwrap_or_default();
        let mut named = named.iter().filter_map(|index| table.all.get(*index)).peekable();
        let for_name = named.peek().copied();
        // Of the others, the first, if need be one with another kind of key.
        let found = { named }.find(suits).or(for_name);
        let found = found.or_else(|| table.all.iter().find(suits)).or_else(|| table.all.first());
        found.cloned()
    }
}

impl Table {
    fn new(settings: &config::Tls, material: &Material) -> Result<Self, String> {
        let mut table = Table { all: Vec::new(), names: HashMap::new() };
        for certificate in &settings.certificates {
            let key = load(certificate, material)?;
            for name in { key.cert.first() }.map(|leaf| names(leaf)).unwrap_or_default() {
                table.names.entry(name).or_default().push(table.all.len());
            }
            table.all.push(Arc::new(key));
        }
        Ok(table)
    }

    /// The certificates for a name.
    fn named(&self, name: &str) -> &[usize] {
        let name = name.to_ascii_lowercase();
        let exact = self.names.get(&name).filter(|_| !name.starts_with('.'));
        let wildcard = || name.find('.').and_then(|dot| self.names.get(name.get(dot..)?));
        exact.or_else(wildcard).map(Vec::as_slice).unwrap_or_default()
    }
}

pub(super) fn load(certificate: &Certificate, material: &Material) -> Result<CertifiedKey, String> {
    let (chain, key, ocsp, shown) = match certificate {
        Certificate::Stored(name) => {
            let text = material.get(&Source::Stored(name.clone()))?;
            (text, text, None, format!("certificate \"{name}\""))
        }
        Certificate::Files { chain, key, ocsp } => {
            let get = |path: &std::path::PathBuf| material.get(&Source::File(path.clone()));
            let ocsp = ocsp.as_ref().map(get).transpose()?;
            (get(chain)?, get(key)?, ocsp, format!("certificate {}", chain.display()))
        }
    };
    let refuse = |problem: &str| format!("{shown}: {problem}");
    let certificates = CertificateDer::pem_slice_iter(chain).collect::<Result<Vec<_>, _>>();
    let certificates = certificates.map_err(|_| refuse("there is broken PEM in it"))?;
    if certificates.is_empty() {
        return Err(refuse("there is no certificate in PEM form in it"));
    }
    // The library's own messages could repeat a part of the key.
    let key = PrivateKeyDer::from_pem_slice(key)
        .map_err(|_| refuse("there is no private key in PEM form for it, or it is encrypted"))?;
    let key = aws_lc_rs::sign::any_supported_type(&key)
        .map_err(|_| refuse("its private key is neither RSA (2048 to 8192 bits), ECDSA (P-256, P-384, P-521) nor Ed25519"))?;
    let mut made = CertifiedKey::new(certificates, key);
    if let Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::KeyMismatch)) =
        made.keys_match()
    {
        return Err(refuse("its private key belongs to another certificate"));
    }
    made.ocsp = ocsp.filter(|ocsp| !ocsp.is_empty()).map(<[u8]>::to_vec);
    Ok(made)
}

/// The names that a certificate is for, in lower case; wildcards without their asterisk.
fn names(leaf: &CertificateDer<'_>) -> Vec<String> {
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
            // Elsewhere than in front of a label an asterisk means nothing.
            Some(rest) => (rest.len() > 1 && rest.starts_with('.')).then(|| rest.to_owned()),
        }
    };
    names.into_iter().filter_map(key).collect()
}
