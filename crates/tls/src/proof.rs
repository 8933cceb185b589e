//! Certificates that prove a name in a handshake (TLS-ALPN-01, RFC 8737).

use std::sync::Arc;

use rcgen::{CertificateParams, CustomExtension, DistinguishedName, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::PrivateKeyDer;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

/// ALPN protocol of these handshakes.
pub const PROTOCOL: &[u8] = b"acme-tls/1";

/// Builds the configuration for a proof. Its only certificate is self-signed and has the digest of
/// the key authorization, which only the owner of the account can compute (RFC 8737, 3).
pub fn server_config(name: &str, digest: &[u8]) -> Result<Arc<ServerConfig>, String> {
    let certified = certificate(name, digest).map_err(|error| error.to_string())?;
    let builder = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(|e| e.to_string())?;
    let mut config =
        builder.with_no_client_auth().with_cert_resolver(Arc::new(SingleCertificate(certified)));
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    Ok(Arc::new(config))
}

fn certificate(name: &str, digest: &[u8]) -> Result<Arc<CertifiedKey>, rcgen::Error> {
    let mut params = CertificateParams::new([name.to_owned()])?;
    params.distinguished_name = DistinguishedName::new();
    if digest.len() == 32 {
        params.custom_extensions.push(CustomExtension::new_acme_identifier(digest));
    }
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    let der = PrivateKeyDer::try_from(key.serialize_der())
        .map_err(|_| rcgen::Error::CouldNotParseKeyPair)?;
    let signing = aws_lc_rs::sign::any_supported_type(&der)
        .map_err(|_| rcgen::Error::CouldNotParseKeyPair)?;
    Ok(Arc::new(CertifiedKey::new(vec![certificate.der().clone()], signing)))
}

#[derive(Debug)]
struct SingleCertificate(Arc<CertifiedKey>);

impl ResolvesServerCert for SingleCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }
}
