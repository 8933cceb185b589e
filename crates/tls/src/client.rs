//! TLS with other servers: whom we trust, and who we are.
//!
//! A [`TlsClient`] is made of an upstream's settings and of the texts that they name, like a
//! listener; without one that can be read there is none, and the configuration is refused. All
//! threads share its sessions. Its number tells its connections from those of others to the same
//! address, who may trust somebody else.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use aws_lc_rs::digest::{Context, SHA256};
use howdah_config::{Certificate, UpstreamTls};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::SingleCertAndKey;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::material::{CertificateFiles, Source};
use super::{authorities, certificates};

/// The clients of a configuration, by their settings.
pub type TlsClients = HashMap<UpstreamTls, Arc<TlsClient>>;

/// How TLS is spoken with some servers.
pub struct TlsClient {
    /// Unlike that of any other.
    pub id: u64,
    settings: UpstreamTls,
    /// Stands for the texts that it was made of.
    digest: Vec<u8>,
    config: Arc<ClientConfig>,
}

/// The texts that settings name.
pub fn client_sources(settings: &UpstreamTls) -> Vec<Source> {
    let mut sources = Vec::new();
    if settings.verify {
        sources.push(Source::File(trusted(settings)));
    }
    match &settings.certificate {
        None => {}
        Some(Certificate::Stored(name) | Certificate::Managed(name)) => {
            sources.push(Source::Stored(name.clone()));
        }
        Some(Certificate::Files { chain, key, .. }) => {
            sources.extend([chain, key].into_iter().cloned().map(Source::File));
        }
    }
    sources
}

/// The file with those who are trusted.
fn trusted(settings: &UpstreamTls) -> PathBuf {
    settings.authorities.clone().unwrap_or_else(|| authorities::system_file().to_owned())
}

impl TlsClient {
    /// Makes all ready. `Err` says what is of no use, and why.
    pub fn new(settings: &UpstreamTls, material: &CertificateFiles) -> Result<Self, String> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("the TLS library refuses the settings: {error}"))?;
        let builder = match settings.verify {
            true => builder.with_root_certificates(roots(settings, material)?),
            false => {
                builder.dangerous().with_custom_certificate_verifier(Arc::new(Anybody(provider)))
            }
        };
        let mut config = match &settings.certificate {
            None => builder.with_no_client_auth(),
            Some(certificate) => {
                let key = certificates::load(certificate, material)?;
                builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(key)))
            }
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(TlsClient {
            id: NEXT.fetch_add(1, Relaxed),
            settings: settings.clone(),
            digest: digest(settings, material)?,
            config: Arc::new(config),
        })
    }

    /// Whether it was made of these settings and texts.
    pub fn is_of(&self, settings: &UpstreamTls, material: &CertificateFiles) -> bool {
        self.settings == *settings && digest(settings, material).as_ref() == Ok(&self.digest)
    }

    /// Shakes hands with a server that is called `name` unless the settings say otherwise. What it
    /// sends before that is no answer to anything.
    pub async fn connect<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
        name: &str,
    ) -> Result<TlsStream<S>, String> {
        let name = self.settings.server_name.as_deref().unwrap_or(name);
        let known = ServerName::try_from(name.to_owned());
        let known = known.map_err(|_| format!("\"{name}\" is no name of a server"))?;
        let connector = TlsConnector::from(Arc::clone(&self.config));
        connector.connect(known, stream).await.map_err(|error| self.explain(&error, name))
    }

    /// Why a handshake has failed.
    fn explain(&self, error: &io::Error, name: &str) -> String {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
        let Some(Error::InvalidCertificate(problem)) = inner else {
            return match error.kind() {
                io::ErrorKind::UnexpectedEof => "it ended the TLS handshake".to_owned(),
                _ => format!("TLS handshake: {error}"),
            };
        };
        let problem = match problem {
            // An issuer that is known by name, but with another key, is somebody else.
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                format!("is from nobody in {}", trusted(&self.settings).display())
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                format!("is not for \"{name}\"")
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "has expired".to_owned()
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "is not valid yet".to_owned()
            }
            other => format!("is refused: {other}"),
        };
        format!("its certificate {problem}")
    }
}

/// Those who are trusted.
fn roots(settings: &UpstreamTls, material: &CertificateFiles) -> Result<RootCertStore, String> {
    let path = trusted(settings);
    let text = material.get(&Source::File(path.clone()))?;
    let roots = match &settings.authorities {
        Some(_) => authorities::certificates(text).and_then(authorities::users),
        None => authorities::system(text),
    };
    roots.map_err(|problem| format!("{}: {problem}", path.display()))
}

fn digest(settings: &UpstreamTls, material: &CertificateFiles) -> Result<Vec<u8>, String> {
    let mut digest = Context::new(&SHA256);
    for source in client_sources(settings) {
        let text = material.get(&source)?;
        digest.update(&text.len().to_be_bytes());
        digest.update(text);
    }
    Ok(digest.finish().as_ref().to_vec())
}

/// Whoever writes this to a log does not write a key.
impl fmt::Debug for TlsClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsClient").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Takes every certificate, of which the server must have the key.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
