//! Rules about the certificates of clients.

use std::sync::Arc;

use aws_lc_rs::digest::{Context, SHA256};
use howdah_config::ClientCertificates;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

use super::Verifier;

/// A rule, ready for handshakes.
#[derive(Debug)]
pub(super) struct Rule {
    names: Vec<String>,
    /// The file with those who may issue certificates.
    authorities: Vec<u8>,
    pub config: Arc<ServerConfig>,
}

impl Rule {
    /// `authorities` is the text of the file; a rule without a certificate that can be read is
    /// refused, as it would let in nobody or everybody. `config` gets the verifier, and bytes
    /// that stand for the rule.
    pub fn new(
        rule: &ClientCertificates,
        authorities: &[u8],
        config: impl FnOnce(Verifier, &[u8]) -> Result<Arc<ServerConfig>, String>,
    ) -> Result<Self, String> {
        let refuse = |problem: String| format!("{}: {problem}", rule.authorities.display());
        let certificates = CertificateDer::pem_slice_iter(authorities)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|_| refuse("there is broken PEM in it".to_owned()))?;
        if certificates.is_empty() {
            return Err(refuse("there is no certificate in PEM form in it".to_owned()));
        }
        let mut roots = RootCertStore::empty();
        let mut binding = Context::new(&SHA256);
        binding.update(&[u8::from(rule.optional)]);
        for (index, certificate) in certificates.into_iter().enumerate() {
            binding.update(&certificate);
            roots
                .add(certificate)
                .map_err(|error| refuse(format!("certificate {}: {error}", index + 1)))?;
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        let verifier = if rule.optional { verifier.allow_unauthenticated() } else { verifier };
        let verifier = verifier.build().map_err(|error| refuse(error.to_string()))?;
        let config = config(verifier, binding.finish().as_ref())?;
        Ok(Rule { names: rule.names.clone(), authorities: authorities.to_vec(), config })
    }

    /// Whether it was made of this file.
    pub fn is_of(&self, authorities: &[u8]) -> bool {
        self.authorities == authorities
    }

    /// Whether it is for a name, in lower case.
    pub fn is_for(&self, name: &str) -> bool {
        let is_for = |own: &String| match own.strip_prefix('*') {
            Some(parent) => name.find('.').is_some_and(|dot| dot > 0 && &name[dot..] == parent),
            None => own == name,
        };
        self.names.is_empty() || self.names.iter().any(is_for)
    }
}
