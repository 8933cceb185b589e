//! Rules for client certificates (`client_certificates`).

use std::path::PathBuf;
use std::sync::Arc;

use aws_lc_rs::digest::{Context, SHA256};
use howdah_config::ClientCertificates;
use rustls::ServerConfig;
use rustls::pki_types::CertificateRevocationListDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::WebPkiClientVerifier;

use super::authorities;
use super::material::{CertificateFiles, Source};

/// Verifies the certificates of clients.
pub(super) type Verifier = Arc<dyn rustls::server::danger::ClientCertVerifier>;

/// A compiled rule.
#[derive(Debug)]
pub(super) struct Rule {
    names: Vec<String>,
    files: RuleFiles,
    pub config: Arc<ServerConfig>,
}

/// Texts of the files of a rule (PEM).
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RuleFiles {
    /// The trusted authorities.
    authorities: Vec<u8>,
    /// Their lists of revoked certificates.
    revoked: Option<Vec<u8>>,
}

impl RuleFiles {
    /// Returns the texts of a rule's files. Error: the file that was not read, and the reason.
    pub fn find(rule: &ClientCertificates, material: &CertificateFiles) -> Result<Self, String> {
        let text = |path: &PathBuf| material.get(&Source::File(path.clone())).map(<[u8]>::to_vec);
        let revoked = rule.revoked.as_ref().map(text).transpose()?;
        Ok(RuleFiles { authorities: text(&rule.authorities)?, revoked })
    }
}

impl Rule {
    /// Compiles a rule. A file without any readable certificate or list is an error, as the rule
    /// would admit no client or every client. `config` gets the verifier and a digest of the rule.
    ///
    /// As in nginx, with lists of revoked certificates each certificate of a client's chain needs a
    /// list of its issuer that has not expired.
    pub fn new(
        rule: &ClientCertificates,
        files: RuleFiles,
        config: impl FnOnce(Verifier, &[u8]) -> Result<Arc<ServerConfig>, String>,
    ) -> Result<Self, String> {
        let refuse = |problem: String| format!("{}: {problem}", rule.authorities.display());
        let certificates = authorities::certificates(&files.authorities).map_err(refuse)?;
        let mut binding = Context::new(&SHA256);
        binding.update(&[u8::from(rule.optional)]);
        certificates.iter().for_each(|certificate| binding.update(certificate));
        // A new list ends the sessions of clients whose certificates it may have revoked.
        files.revoked.iter().for_each(|lists| binding.update(lists));
        let roots = authorities::users(certificates).map_err(refuse)?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        let verifier = if rule.optional { verifier.allow_unauthenticated() } else { verifier };
        let verifier = match (&rule.revoked, &files.revoked) {
            (Some(path), Some(text)) => {
                let refuse = |problem: String| format!("{}: {problem}", path.display());
                let lists = revocation_lists(text).map_err(refuse)?;
                let verifier = verifier.with_crls(lists).enforce_revocation_expiration();
                verifier.build().map_err(|error| refuse(error.to_string()))?
            }
            _ => verifier.build().map_err(|error| refuse(error.to_string()))?,
        };
        let config = config(verifier, binding.finish().as_ref())?;
        Ok(Rule { names: rule.names.clone(), files, config })
    }

    /// Returns true if the rule was compiled with these files.
    pub fn is_of(&self, files: &RuleFiles) -> bool {
        self.files == *files
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

/// Parses lists of revoked certificates (PEM). Error: broken PEM, or no list.
fn revocation_lists(text: &[u8]) -> Result<Vec<CertificateRevocationListDer<'static>>, String> {
    let all = CertificateRevocationListDer::pem_slice_iter(text).collect::<Result<Vec<_>, _>>();
    match all.map_err(|_| "there is broken PEM in it".to_owned())? {
        none if none.is_empty() => {
            Err("there is no list of revoked certificates in PEM form in it".to_owned())
        }
        all => Ok(all),
    }
}
