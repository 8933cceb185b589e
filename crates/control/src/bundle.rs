//! Certificate bundles: checks, and descriptions for the API.
//!
//! A bundle is PEM: one private key, anywhere, and at least one certificate; the server's own
//! certificate is the first of them. The key is neither shown nor used here.

use std::fmt;

use howdah_text::date::MONTHS;
use serde_json::{Map, Value, json};
use x509_parser::certificate::X509Certificate;
use x509_parser::error::PEMError;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::pem::Pem;
use x509_parser::prelude::FromDer;
use x509_parser::public_key::{PublicKey, RSAPublicKey};
use x509_parser::time::ASN1Time;
use x509_parser::x509::{AttributeTypeAndValue, X509Name};

use crate::private_key::PrivateKey;
use crate::refusal::Refusal;

/// A valid certificate bundle.
#[derive(Clone, PartialEq, Eq)]
pub struct Bundle {
    pem: Vec<u8>,
    description: Value,
}

impl Bundle {
    /// Checks a text. The key must be that of the first certificate, and each certificate must be
    /// issued by the one that follows it.
    pub fn read(pem: Vec<u8>) -> Result<Bundle, Refusal> {
        if pem.len() > MAX_BUNDLE {
            return Err(invalid(format!("it has more than {} KiB", MAX_BUNDLE >> 10)));
        }
        let description = check(&pem)?;
        Ok(Bundle { pem, description })
    }

    /// Returns the description for the API, with Unit's names `key` and `chain`.
    pub fn description(&self) -> &Value {
        &self.description
    }

    /// Returns the text, private key included.
    pub fn into_pem(self) -> Vec<u8> {
        self.pem
    }
}

/// Omits the key, as the text may get into a log.
impl fmt::Debug for Bundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bundle").field("description", &self.description).finish_non_exhaustive()
    }
}

fn check(pem: &[u8]) -> Result<Value, Refusal> {
    let (mut key, mut certificates) = (None, Vec::new());
    for block in Pem::iter_from_buffer(pem) {
        let block = block.map_err(|error| unreadable(pem, &error))?;
        match block.label.as_str() {
            "CERTIFICATE" | "X509 CERTIFICATE" => certificates.push(block.contents),
            "PRIVATE KEY" | "RSA PRIVATE KEY" | "EC PRIVATE KEY" if key.is_none() => {
                key = Some(block)
            }
            "PRIVATE KEY" | "RSA PRIVATE KEY" | "EC PRIVATE KEY" => {
                return Err(invalid("it has more than one private key"));
            }
            "ENCRYPTED PRIVATE KEY" => return Err(invalid(ENCRYPTED)),
            // OpenSSL writes the name of the curve in a block before the key.
            "EC PARAMETERS" => {}
            other => {
                let other: String = other.chars().filter(|c| !c.is_control()).take(40).collect();
                return Err(invalid(format!("\"{other}\" is neither a certificate nor a key")));
            }
        }
    }
    let key = key.ok_or_else(|| invalid("it has no private key in PEM form"))?;
    let key = PrivateKey::read(&key.label, &key.contents)
        .ok_or_else(|| invalid("its private key cannot be read"))?;
    let chain = certificates.iter().enumerate().map(|(index, der)| certificate(index + 1, der));
    let chain = chain.collect::<Result<Vec<_>, _>>()?;
    let first = chain.first().ok_or_else(|| invalid("it has no certificate in PEM form"))?;
    check_order(&key, first, &chain)?;
    let kind = kind_of_key(first);
    Ok(json!({ "key": kind, "chain": chain.iter().map(describe).collect::<Vec<_>>() }))
}

fn certificate(number: usize, der: &[u8]) -> Result<X509Certificate<'_>, Refusal> {
    match X509Certificate::from_der(der) {
        Ok(([], certificate)) => Ok(certificate),
        Ok(_) => {
            Err(invalid(format!("certificate {number}: there are bytes after its DER encoding")))
        }
        Err(error) => Err(invalid(format!("certificate {number}: {error}"))),
    }
}

/// Checks that each certificate is issued by the next; the server's own certificate is the first.
fn check_order(
    key: &PrivateKey<'_>,
    first: &X509Certificate<'_>,
    chain: &[X509Certificate<'_>],
) -> Result<(), Refusal> {
    if !key.fits(first) {
        let other = chain.iter().position(|certificate| key.fits(certificate));
        return Err(invalid(match other {
            Some(index) => format!(
                "its private key belongs to certificate {}; the server's own comes first",
                index + 1
            ),
            None => "its private key does not belong to its first certificate".to_owned(),
        }));
    }
    let mut pairs = chain.windows(2).enumerate();
    match pairs.find(|(_, pair)| matches!(pair, [a, b] if a.issuer() != b.subject())) {
        Some((index, _)) => Err(invalid(format!(
            "certificate {} was not issued by certificate {}; each must be followed by the one \
             of its issuer",
            index + 1,
            index + 2
        ))),
        None => Ok(()),
    }
}

fn unreadable(pem: &[u8], error: &PEMError) -> Refusal {
    // Before PKCS #8, a field in the block marked encrypted keys.
    let is_encrypted = pem.windows(ENCRYPTED_FIELD.len()).any(|bytes| bytes == ENCRYPTED_FIELD);
    if is_encrypted { invalid(ENCRYPTED) } else { invalid(format!("it is not PEM: {error}")) }
}
fn describe(certificate: &X509Certificate<'_>) -> Value {
    let (mut of_subject, mut of_issuer) = (None, None);
    for extension in certificate.extensions() {
        match extension.parsed_extension() {
            ParsedExtension::SubjectAlternativeName(names) => {
                of_subject = Some(dns_names(&names.general_names));
            }
            ParsedExtension::IssuerAlternativeName(names) => {
                of_issuer = Some(dns_names(&names.general_names));
            }
            _ => {}
        }
    }
    let validity = certificate.validity();
    json!({
        "subject": name(certificate.subject(), of_subject),
        "issuer": name(certificate.issuer(), of_issuer),
        "validity": { "since": time(validity.not_before), "until": time(validity.not_after) },
    })
}

fn name(name: &X509Name<'_>, alt_names: Option<Value>) -> Value {
    let mut members = Map::new();
    let mut add = |key: &str, value: Option<&AttributeTypeAndValue<'_>>| {
        let text = |value: &AttributeTypeAndValue<'_>| match value.as_str() {
            Ok(text) => text.to_owned(),
            Err(_) => String::from_utf8_lossy(value.as_slice()).into_owned(),
        };
        members.extend(value.map(|value| (key.to_owned(), Value::String(text(value)))));
    };
    add("common_name", name.iter_common_name().next());
    add("country", name.iter_country().next());
    add("state_or_province", name.iter_state_or_province().next());
    add("locality", name.iter_locality().next());
    add("organization", name.iter_organization().next());
    add("department", name.iter_organizational_unit().next());
    if let Some(alt_names) = alt_names {
        // After the common name, as in Unit.
        let at = usize::from(members.contains_key("common_name"));
        members.shift_insert(at, "alt_names".to_owned(), alt_names);
    }
    Value::Object(members)
}

fn dns_names(names: &[GeneralName<'_>]) -> Value {
    let dns = names.iter().filter_map(|name| match name {
        GeneralName::DNSName(name) => Some(*name),
        _ => None,
    });
    dns.collect()
}

/// Formats a time as OpenSSL and Unit do: `Jan  5 09:34:29 2018 GMT`.
fn time(time: ASN1Time) -> String {
    let time = time.to_datetime();
    let month = usize::from(u8::from(time.month())) - 1;
    format!(
        "{} {:2} {:02}:{:02}:{:02} {} GMT",
        MONTHS.get(month).unwrap_or(&"???"),
        time.day(),
        time.hour(),
        time.minute(),
        time.second(),
        time.year()
    )
}

/// Returns the type of the key, with the size of RSA keys.
fn kind_of_key(certificate: &X509Certificate<'_>) -> String {
    match certificate.public_key().parsed() {
        Ok(PublicKey::RSA(key)) => format!("RSA ({} bits)", bits(&key)),
        Ok(PublicKey::EC(_)) => "ECDH".to_owned(),
        _ => "unknown".to_owned(),
    }
}

fn bits(key: &RSAPublicKey<'_>) -> usize {
    let zeros = key.modulus.iter().take_while(|&&byte| byte == 0).count();
    let number = key.modulus.get(zeros..).unwrap_or_default();
    let unused = number.first().map_or(0, |first| first.leading_zeros() as usize);
    number.len() * 8 - unused
}

fn invalid(detail: impl Into<String>) -> Refusal {
    Refusal::InvalidCertificate { detail: detail.into() }
}

/// Maximum size of a bundle in bytes: far more than the longest chain.
pub const MAX_BUNDLE: usize = 1 << 20;

const ENCRYPTED_FIELD: &[u8] = b"Proc-Type: 4,ENCRYPTED";

const ENCRYPTED: &str = "its private key is encrypted, and a server cannot ask for the password; \
     decrypt it with \"openssl pkey\"";

#[cfg(test)]
mod tests;
