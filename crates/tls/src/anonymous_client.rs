//! TLS client connections to mail servers and servers of OpenTelemetry, with the authorities of the
//! system or of a file.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::authorities;
use super::client::explain;

/// A client without a certificate of its own; without ALPN unless [`AnonymousClient::speaking`] is
/// called.
#[derive(Clone)]
pub struct AnonymousClient {
    config: Arc<ClientConfig>,
    /// The file with the authorities, for messages.
    trusted: PathBuf,
}

impl AnonymousClient {
    /// Builds a client that trusts the authorities of the system. `text` is that of the system's
    /// file.
    pub fn system(text: &[u8]) -> Result<Self, String> {
        AnonymousClient::new(authorities::system(text)?, authorities::system_file())
    }

    /// Builds a client that trusts the authorities of a configured file. `text` is that of the file
    /// `path`.
    pub fn trusting(text: &[u8], path: &Path) -> Result<Self, String> {
        AnonymousClient::new(authorities::users(authorities::certificates(text)?)?, path)
    }

    /// Returns the client with a protocol that it offers in the handshake (ALPN).
    pub fn speaking(self, protocol: &[u8]) -> Self {
        let mut config = ClientConfig::clone(&self.config);
        config.alpn_protocols = vec![protocol.to_vec()];
        AnonymousClient { config: Arc::new(config), ..self }
    }

    fn new(roots: RootCertStore, trusted: &Path) -> Result<Self, String> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("the TLS library refuses the settings: {error}"))?;
        let config = builder.with_root_certificates(roots).with_no_client_auth();
        Ok(AnonymousClient { config: Arc::new(config), trusted: trusted.to_owned() })
    }

    /// Performs a handshake with the server `name`.
    pub async fn connect<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
        name: &str,
    ) -> Result<TlsStream<S>, String> {
        let known = ServerName::try_from(name.to_owned());
        let known = known.map_err(|_| format!("\"{name}\" is not a valid server name"))?;
        let stream = TlsConnector::from(Arc::clone(&self.config)).connect(known, stream).await;
        stream.map_err(|error| explain(&error, name, &self.trusted))
    }
}

impl fmt::Debug for AnonymousClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnonymousClient").field("trusted", &self.trusted).finish_non_exhaustive()
    }
}
