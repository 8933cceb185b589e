//! TLS client connections to servers that speak another protocol than HTTP, with the authorities of
//! the system.

use std::fmt;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::authorities;
use super::client::explain;

/// A client without ALPN and without a certificate of its own.
#[derive(Clone)]
pub struct SystemClient(Arc<ClientConfig>);

impl SystemClient {
    /// Builds the client. `authorities` is the text of the system's file.
    pub fn new(authorities: &[u8]) -> Result<Self, String> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("the TLS library refuses the settings: {error}"))?;
        let roots = authorities::system(authorities)?;
        let config = builder.with_root_certificates(roots).with_no_client_auth();
        Ok(SystemClient(Arc::new(config)))
    }

    /// Performs a handshake with the server `name`.
    pub async fn connect<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
        name: &str,
    ) -> Result<TlsStream<S>, String> {
        let known = ServerName::try_from(name.to_owned());
        let known = known.map_err(|_| format!("\"{name}\" is not a valid server name"))?;
        let stream = TlsConnector::from(Arc::clone(&self.0)).connect(known, stream).await;
        stream.map_err(|error| explain(&error, name, authorities::system_file()))
    }
}

impl fmt::Debug for SystemClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SystemClient").finish_non_exhaustive()
    }
}
