//! `tls` of an upstream: verification of its servers, and the client certificate.

use std::net::IpAddr;
use std::path::PathBuf;

use crate::error::Error;
use crate::node::Node;
use crate::tls::{Certificate, read_host};

/// TLS settings for connections to servers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UpstreamTls {
    /// True if the certificates of servers are verified.
    pub verify: bool,
    /// The file with the trusted authorities' certificates; the system's if `None`.
    pub authorities: Option<PathBuf>,
    /// The requested server name (SNI), which is also verified; that of the address if `None`.
    pub server_name: Option<String>,
    /// The client certificate.
    pub certificate: Option<Certificate>,
}

impl Default for UpstreamTls {
    fn default() -> Self {
        UpstreamTls { verify: true, authorities: None, server_name: None, certificate: None }
    }
}

impl UpstreamTls {
    /// Reads an object, or `true` for an object without members.
    pub(crate) fn read(node: &Node<'_>) -> Result<Option<UpstreamTls>, Error> {
        if let Some(on) = node.value.as_bool() {
            return Ok(on.then(UpstreamTls::default));
        }
        if !node.value.is_object() {
            return Err(node.wrong_type("true, false or an object"));
        }
        let object = node.object()?;
        let tls = UpstreamTls {
            verify: object.boolean("verify")?.unwrap_or(true),
            authorities: object.file("authorities")?,
            server_name: object.read("server_name", read_name)?,
            certificate: object.read("certificate", read_certificate)?,
        };
        if let (false, Some(node)) = (tls.verify, object.optional("authorities")) {
            return Err(node.invalid("means nothing while \"verify\" is false"));
        }
        object.end()?;
        Ok(Some(tls))
    }
}

/// Reads a host name or an IP address.
fn read_name(node: &Node<'_>) -> Result<String, Error> {
    let name = node.text()?;
    match name.parse::<IpAddr>() {
        Ok(address) => Ok(address.to_string()),
        Err(_) => read_host(node, name).map(|()| name.to_ascii_lowercase()),
    }
}

fn read_certificate(node: &Node<'_>) -> Result<Certificate, Error> {
    let certificate = Certificate::read(node)?;
    match certificate {
        Certificate::Files { ocsp: Some(_), .. } => {
            Err(node.invalid("must not have \"ocsp\", which no server asks for"))
        }
        certificate => Ok(certificate),
    }
}
