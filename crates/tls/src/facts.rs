//! Facts about a handshake, read from a rustls connection.

use std::fmt::Write;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use howdah_http::handshake::{ClientCertificate, Handshake, HostPolicy};
use howdah_text::{base64, hex};
use rustls::pki_types::CertificateDer;
use rustls::{HandshakeKind, ProtocolVersion, ServerConnection, SupportedCipherSuite};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

use super::listener::TlsListener;
use super::parameters;

/// Returns the facts about a connection whose handshake is complete. `rule` is the index of the
/// listener's client certificate rule for the name of the handshake.
pub(super) fn facts(
    connection: &ServerConnection,
    listener: Arc<TlsListener>,
    rule: Option<usize>,
) -> Handshake {
    let protocol = match connection.protocol_version() {
        Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
        _ => "TLSv1.3",
    };
    let negotiated = Negotiated {
        server_name: connection.server_name().unwrap_or_default(),
        suite: connection.negotiated_cipher_suite(),
        is_resumed: connection.handshake_kind() == Some(HandshakeKind::Resumed),
        client: connection.peer_certificates().and_then(<[_]>::first),
    };
    Handshake { protocol, ..negotiated.facts(listener, rule) }
}

/// What a handshake of TLS 1.3 has agreed on, as the TLS library tells it.
pub struct Negotiated<'n> {
    /// Name that the client has asked for; empty without one.
    pub server_name: &'n str,
    /// Cipher suite.
    pub suite: Option<SupportedCipherSuite>,
    /// The client has resumed an earlier session.
    pub is_resumed: bool,
    /// Certificate of the client.
    pub client: Option<&'n CertificateDer<'static>>,
}

impl Negotiated<'_> {
    /// Returns the facts about a connection, for whose name the listener has the client certificate
    /// rule with this index.
    pub fn facts(&self, listener: Arc<TlsListener>, rule: Option<usize>) -> Handshake {
        Handshake {
            protocol: "TLSv1.3",
            cipher: self.suite.map_or("", parameters::suite_name),
            server_name: self.server_name.to_ascii_lowercase(),
            is_resumed: self.is_resumed,
            client: self.client.and_then(|leaf| client_certificate(leaf)),
            requests_client_certificate: rule.is_some(),
            hosts: HostPolicy(Arc::new(move |host| listener.rule(host) == rule)),
        }
    }
}

fn client_certificate(der: &[u8]) -> Option<ClientCertificate> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    Some(ClientCertificate {
        subject: name(certificate.subject()),
        issuer: name(certificate.issuer()),
        serial: hex::upper(certificate.raw_serial()),
        fingerprint: hex::lower(digest(&SHA1_FOR_LEGACY_USE_ONLY, der).as_ref()),
        pem: pem(der),
    })
}

/// Formats a name as in RFC 2253: last part first, special characters escaped.
fn name(name: &x509_parser::x509::X509Name<'_>) -> String {
    let mut text = String::new();
    let parts: Vec<_> = name.iter_rdn().collect();
    for (index, part) in parts.into_iter().rev().enumerate() {
        for (inner, attribute) in part.iter().enumerate() {
            match (index, inner) {
                (0, 0) => {}
                (_, 0) => text.push(','),
                _ => text.push('+'),
            }
            let oid = attribute.attr_type().to_id_string();
            let known = ABBREVIATIONS.iter().find(|(known, _)| *known == oid);
            text.push_str(known.map_or(oid.as_str(), |(_, short)| short));
            text.push('=');
            match attribute.as_str() {
                Ok(value) => escape(value, &mut text),
                Err(_) => {
                    text.push('#');
                    text.push_str(&hex::upper(attribute.as_slice()));
                }
            }
        }
    }
    text
}

const ABBREVIATIONS: [(&str, &str); 12] = [
    ("2.5.4.3", "CN"),
    ("2.5.4.4", "SN"),
    ("2.5.4.5", "serialNumber"),
    ("2.5.4.6", "C"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.9", "street"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("0.9.2342.19200300.100.1.1", "UID"),
    ("0.9.2342.19200300.100.1.25", "DC"),
    ("1.2.840.113549.1.9.1", "emailAddress"),
];

fn escape(value: &str, text: &mut String) {
    let last = value.chars().count().saturating_sub(1);
    for (index, character) in value.chars().enumerate() {
        let special = matches!(character, ',' | '+' | '"' | '\\' | '<' | '>' | ';')
            || (index == 0 && matches!(character, '#' | ' '))
            || (index == last && character == ' ');
        if character.is_ascii_control() {
            // Writing to a string cannot fail.
            let _ = write!(text, "\\{:02X}", u32::from(character));
            continue;
        }
        if special {
            text.push('\\');
        }
        text.push(character);
    }
}

fn pem(der: &[u8]) -> String {
    let text = base64::encode(der);
    let mut pem = String::from("-----BEGIN CERTIFICATE-----\n");
    for line in text.as_bytes().chunks(64) {
        pem.push_str(std::str::from_utf8(line).unwrap_or_default());
        pem.push('\n');
    }
    pem.push_str("-----END CERTIFICATE-----\n");
    pem
}
