//! `tls` of an upstream: how its servers must prove who they are, and how we do.

use std::net::IpAddr;
use std::path::PathBuf;

use crate::error::Error;
use crate::node::Node;
use crate::tls::{Certificate, read_host};

/// How TLS is spoken with servers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UpstreamTls {
    /// Whether a server must have a certificate for its name from somebody who is trusted.
    pub verify: bool,
    /// The file with the certificates of those who are trusted; the system's if `None`.
    pub authorities: Option<PathBuf>,
    /// The name that servers are asked for; that of the address if `None`.
    pub server_name: Option<String>,
    /// What we show of ourselves.
    pub certificate: Option<Certificate>,
}

impl Default for UpstreamTls {
    fn default() -> Self {
        UpstreamTls { verify: true, authorities: None, server_name: None, certificate: None }
    }
}

impl UpstreamTls {
    /// An object, or `true` for one without members.
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

/// A host name or an IP address.
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
