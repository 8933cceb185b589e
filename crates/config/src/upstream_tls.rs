//! `tls` of an upstream: verification of its servers, and the client certificate.

use std::net::IpAddr;
use std::path::PathBuf;

use crate::error::Error;
use crate::key::{Key, Kind, Shape};
use crate::node::Node;
use crate::tls::{CERTIFICATE, Certificate, read_host};

/// `tls` of an upstream.
pub(crate) static UPSTREAM_TLS: Shape = Shape {
    name: "upstream_tls",
    parts: &[&[
        Key::switch("verify", true, "Verifies the certificates of the servers").details(
            "A server needs a certificate from a trusted authority for its name, or for its \
             address if it has no name (`proxy_ssl_verify`, which is off in nginx)",
        ),
        Key::new(
            "authorities",
            Kind::Text,
            "File with the certificates of the trusted authorities (PEM)",
        )
        .default("the system's")
        .details("`proxy_ssl_trusted_certificate`"),
        Key::new(
            "server_name",
            Kind::Text,
            "Name sent in the handshake and required in the certificate",
        )
        .default("the address")
        .details("`proxy_ssl_name`, `proxy_ssl_server_name`; required for unix sockets"),
        Key::new(
            "certificate",
            Kind::Either(&[Kind::Text, Kind::Object(&CERTIFICATE)]),
            "Client certificate",
        )
        .default("none")
        .details(
            "The name of a [stored certificate](../tls.md), or an object with `chain` and `key` \
             (`proxy_ssl_certificate`)",
        ),
        Key::switch("starttls", false, "Begins TLS by the command `STARTTLS` or `STLS`")
            .details("Only in `mail/NAME`. See [Mail](../mail.md#servers-behind)"),
    ]],
};

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
    /// TLS begins by a command of a protocol of mail.
    pub starttls: bool,
}

impl Default for UpstreamTls {
    fn default() -> Self {
        UpstreamTls {
            verify: true,
            authorities: None,
            server_name: None,
            certificate: None,
            starttls: false,
        }
    }
}

impl UpstreamTls {
    /// Reads the TLS of servers that speak TLS from the first byte on.
    pub(crate) fn read(node: &Node<'_>) -> Result<Option<UpstreamTls>, Error> {
        let tls = UpstreamTls::read_of_mail(node)?;
        if tls.as_ref().is_some_and(|tls| tls.starttls) {
            let error = node.invalid("has \"starttls\", which only servers of mail know");
            return Err(error.with_hint("write it in \"mail/NAME\""));
        }
        Ok(tls)
    }

    /// Reads an object, or `true` for an object without members.
    pub(crate) fn read_of_mail(node: &Node<'_>) -> Result<Option<UpstreamTls>, Error> {
        if let Some(on) = node.value.as_bool() {
            return Ok(on.then(UpstreamTls::default));
        }
        if !node.value.is_object() {
            return Err(node.wrong_type("true, false or an object"));
        }
        let object = node.object(&UPSTREAM_TLS)?;
        let tls = UpstreamTls {
            verify: object.switch("verify")?,
            authorities: object.file("authorities")?,
            server_name: object.read("server_name", read_name)?,
            certificate: object.read("certificate", read_certificate)?,
            starttls: object.switch("starttls")?,
        };
        if let (false, Some(node)) = (tls.verify, object.optional("authorities")) {
            return Err(node.invalid("has no effect while \"verify\" is false"));
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
