//! TLS client connections to mail servers and servers of OpenTelemetry, with the authorities of the
//! system or of a file.

use std::fmt;
use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::OwnedFd;
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
    /// Builds a client that trusts the authorities of the system.
    pub fn of_system() -> Result<Self, String> {
        let path = authorities::system_file();
        let shown = path.display();
        let text = std::fs::read(path)
            .map_err(|error| authorities::unreadable(&shown.to_string(), &error.to_string()))?;
        let roots = authorities::system(&text).map_err(|problem| format!("{shown}: {problem}"))?;
        AnonymousClient::new(roots, path)
    }

    /// Builds a client that trusts the authorities of a configured file, which the supervisor has
    /// opened, or has failed to open and has logged it.
    pub fn of_file(path: &str, file: Option<OwnedFd>) -> Result<Self, String> {
        let unusable = |problem: &str| format!("{path}: {problem}");
        let file = file.ok_or_else(|| unusable("cannot be read; see the server's log"))?;
        let (mut file, mut text) = (File::from(file), Vec::new());
        let read = file.rewind().and_then(|()| file.read_to_end(&mut text));
        read.map_err(|error| unusable(&error.to_string()))?;
        let roots = authorities::certificates(&text).and_then(authorities::users);
        AnonymousClient::new(roots.map_err(|problem| unusable(&problem))?, Path::new(path))
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
