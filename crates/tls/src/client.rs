//! TLS client connections to upstream servers: trusted authorities, client certificate, server
//! name.
//!
//! A [`TlsClient`] is built from an upstream's settings and the files that they name. If a file
//! cannot be used, the configuration is refused. All threads share the sessions of a client. Its id
//! is part of a connection's pool key, so that a connection is never reused under settings that
//! trust other authorities.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
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

/// TLS clients of a configuration, by their settings.
pub type TlsClients = HashMap<UpstreamTls, Arc<TlsClient>>;

/// TLS client for the servers of an upstream.
pub struct TlsClient {
    /// Unique id of this client in the process. Never 0.
    pub id: u64,
    settings: UpstreamTls,
    /// Digest of the files that the client was built from.
    digest: Vec<u8>,
    /// Settings for each [`ClientProtocol`], which differ in ALPN. Error: why no connection is
    /// possible.
    config: Result<[Arc<ClientConfig>; 3], String>,
}

/// The protocol of a connection, which the server must agree to (ALPN).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientProtocol {
    /// HTTP/1.
    Http1,
    /// HTTP/2. The server must agree to it.
    Http2,
    /// Another one, which is not named in the handshake.
    Other,
}

/// Returns the sources of the files that the settings name.
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

/// Returns the path of the file with the trusted authorities (PEM).
fn trusted(settings: &UpstreamTls) -> PathBuf {
    settings.authorities.clone().unwrap_or_else(|| authorities::system_file().to_owned())
}

impl TlsClient {
    /// Builds the client. Error: the setting or file that cannot be used, and the reason.
    pub fn new(settings: &UpstreamTls, material: &CertificateFiles) -> Result<Self, String> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("the TLS library refuses the settings: {error}"))?;
        let builder = if settings.verify {
            builder.with_root_certificates(roots(settings, material)?)
        } else {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(Anybody(provider)))
        };
        let mut config = match &settings.certificate {
            None => builder.with_no_client_auth(),
            Some(certificate) => {
                let key = certificates::load(certificate, material)?;
                builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(key)))
            }
        };
        let (mut http2, other) = (config.clone(), config.clone());
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        http2.alpn_protocols = vec![b"h2".to_vec()];
        Ok(TlsClient {
            id: next_id(),
            settings: settings.clone(),
            digest: digest(settings, material)?,
            config: Ok([Arc::new(config), Arc::new(http2), Arc::new(other)]),
        })
    }

    /// Builds a client that refuses to connect, as a file of its settings cannot be used. It has
    /// read no files.
    pub fn unusable(settings: &UpstreamTls, problem: String) -> Self {
        let (settings, digest) = (settings.clone(), Vec::new());
        TlsClient { id: next_id(), settings, digest, config: Err(problem) }
    }

    /// Returns the reason why it refuses to connect; `None` if it can.
    pub fn problem(&self) -> Option<&str> {
        self.config.as_ref().err().map(String::as_str)
    }

    /// Returns true if the client was built from these settings and files.
    pub fn is_of(&self, settings: &UpstreamTls, material: &CertificateFiles) -> bool {
        self.settings == *settings && digest(settings, material).as_ref() == Ok(&self.digest)
    }

    /// Performs a handshake with the server `name`, or with `server_name` of the settings. Bytes
    /// that the server sends before the handshake are never read as a response.
    pub async fn connect<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
        name: &str,
        protocol: ClientProtocol,
    ) -> Result<TlsStream<S>, String> {
        let name = self.settings.server_name.as_deref().unwrap_or(name);
        let known = ServerName::try_from(name.to_owned());
        let known = known.map_err(|_| format!("\"{name}\" is not a valid server name"))?;
        let [http1, http2, other] = self.config.as_ref().map_err(String::clone)?;
        let config = match protocol {
            ClientProtocol::Http1 => http1,
            ClientProtocol::Http2 => http2,
            ClientProtocol::Other => other,
        };
        let connector = TlsConnector::from(Arc::clone(config));
        let stream = connector.connect(known, stream).await;
        let stream = stream.map_err(|error| explain(&error, name, &trusted(&self.settings)))?;
        let is_http2 = protocol == ClientProtocol::Http2;
        if is_http2 && stream.get_ref().1.alpn_protocol() != Some(b"h2") {
            Err("it does not speak HTTP/2 over TLS; leave out \"http2\"".to_owned())
        } else {
            Ok(stream)
        }
    }
}

/// Returns the message for a failed handshake.
pub(crate) fn explain(error: &io::Error, name: &str, trusted: &Path) -> String {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    let Some(Error::InvalidCertificate(problem)) = inner else {
        return match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                "it closed the connection during the TLS handshake".to_owned()
            }
            _ => format!("TLS handshake: {error}"),
        };
    };
    let problem = match problem {
        // An authority with the same name and another key is a different authority.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            format!("is not issued by an authority in {}", trusted.display())
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

fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Relaxed)
}

/// Returns the trusted authorities.
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

/// Omits keys, so that no log shows them.
impl fmt::Debug for TlsClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsClient").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Verifier that accepts every certificate whose key the server has (`verify` is false).
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
