//! Facts about the TLS handshake of a connection, for scripts, upstreams and logs. Names and forms
//! are those of nginx's variables.

use std::fmt;
use std::sync::Arc;

/// A completed TLS handshake.
#[derive(Debug)]
pub struct Handshake {
    /// `TLSv1.3` or `TLSv1.2`.
    pub protocol: &'static str,
    /// Name of the cipher suite.
    pub cipher: &'static str,
    /// Host name that the client asked for (SNI), in lower case; empty without one.
    pub server_name: String,
    /// The client resumed an earlier session.
    pub is_resumed: bool,
    /// Verified certificate of the client.
    pub client: Option<ClientCertificate>,
    /// The server asked the client for a certificate.
    pub requests_client_certificate: bool,
    /// Hosts whose requests may come on this connection.
    pub hosts: HostPolicy,
}

/// A client's certificate.
#[derive(Debug)]
pub struct ClientCertificate {
    /// Subject (RFC 2253).
    pub subject: String,
    /// Issuer (RFC 2253).
    pub issuer: String,
    /// Serial number, in upper-case hexadecimal.
    pub serial: String,
    /// SHA-1 of the certificate, in lower-case hexadecimal.
    pub fingerprint: String,
    /// Certificate in PEM.
    pub pem: String,
}

/// Decides whether requests for a host may come on a connection: not for hosts with other
/// requirements for client certificates than the host of the handshake.
#[derive(Clone)]
pub struct HostPolicy(pub Arc<dyn Fn(&str) -> bool + Send + Sync>);

impl fmt::Debug for HostPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hosts")
    }
}

impl Handshake {
    /// Returns true if a request for this host may come on this connection.
    pub fn admits(&self, host: &str) -> bool {
        (self.hosts.0)(host)
    }

    /// Returns the value of nginx's `$ssl_client_verify`.
    pub fn verified(&self) -> &'static str {
        if self.client.is_some() { "SUCCESS" } else { "NONE" }
    }
}
