//! Rules for client certificates (`client_certificates`).

use std::sync::Arc;

use aws_lc_rs::digest::{Context, SHA256};
use howdah_config::ClientCertificates;
use rustls::ServerConfig;
use rustls::server::WebPkiClientVerifier;

use super::authorities;

/// Verifies the certificates of clients.
pub(super) type Verifier = Arc<dyn rustls::server::danger::ClientCertVerifier>;

/// A compiled rule.
#[derive(Debug)]
pub(super) struct Rule {
    names: Vec<String>,
    /// Text of the file of trusted authorities (PEM).
    authorities: Vec<u8>,
    pub config: Arc<ServerConfig>,
}

impl Rule {
    /// Compiles a rule; `text` is the content of its file of authorities. A rule without any
    /// readable certificate is an error, as it would admit no client or every client. `config` gets
    /// the verifier and a digest of the rule.
    pub fn new(
        rule: &ClientCertificates,
        text: &[u8],
        config: impl FnOnce(Verifier, &[u8]) -> Result<Arc<ServerConfig>, String>,
    ) -> Result<Self, String> {
        let refuse = |problem: String| format!("{}: {problem}", rule.authorities.display());
        let certificates = authorities::certificates(text).map_err(refuse)?;
        let mut binding = Context::new(&SHA256);
        binding.update(&[u8::from(rule.optional)]);
        certificates.iter().for_each(|certificate| binding.update(certificate));
        let roots = authorities::users(certificates).map_err(refuse)?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        let verifier = if rule.optional { verifier.allow_unauthenticated() } else { verifier };
        let verifier = verifier.build().map_err(|error| refuse(error.to_string()))?;
        let config = config(verifier, binding.finish().as_ref())?;
        Ok(Rule { names: rule.names.clone(), authorities: text.to_vec(), config })
    }

    /// Returns true if the rule was compiled with this text of authorities.
    pub fn is_of(&self, authorities: &[u8]) -> bool {
        self.authorities == authorities
    }

    /// Returns true if the rule applies to a lower-case name.
    pub fn is_for(&self, name: &str) -> bool {
        let is_for = |own: &String| match own.strip_prefix('*') {
            Some(parent) => name.find('.').is_some_and(|dot| dot > 0 && &name[dot..] == parent),
            None => own == name,
        };
        self.names.is_empty() || self.names.iter().any(is_for)
    }
}
