//! Certificate bundles: whether a text is one, and what the API shows of it.
//!
//! A bundle is PEM: one private key and at least one certificate, in any order; the server's own
//! certificate is the first of them. The key is not shown and not used here.

use serde_json::{Map, Value, json};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::pem::Pem;
use x509_parser::prelude::FromDer;
use x509_parser::public_key::{PublicKey, RSAPublicKey};
use x509_parser::time::ASN1Time;
use x509_parser::x509::{AttributeTypeAndValue, X509Name};

use crate::refusal::Refusal;

/// Checks a bundle; what the API shows of it, with the names of Unit: `key` and `chain`.
pub fn describe_bundle(pem: &[u8]) -> Result<Value, Refusal> {
    let mut has_key = false;
    let mut key = Value::Null;
    let mut chain = Vec::new();
    for block in Pem::iter_from_buffer(pem) {
        let block = block.map_err(|error| invalid(format!("this is no PEM: {error}")))?;
        match block.label.as_str() {
            "CERTIFICATE" | "X509 CERTIFICATE" => {
                let number = chain.len() + 1;
                let (rest, certificate) = X509Certificate::from_der(&block.contents)
                    .map_err(|error| invalid(format!("certificate {number}: {error}")))?;
                if !rest.is_empty() {
                    return Err(invalid(format!("certificate {number}: something follows it")));
                }
                if chain.is_empty() {
                    key = Value::String(kind_of_key(&certificate));
                }
                chain.push(describe(&certificate));
            }
            "PRIVATE KEY" | "RSA PRIVATE KEY" | "EC PRIVATE KEY" if !has_key => has_key = true,
            "PRIVATE KEY" | "RSA PRIVATE KEY" | "EC PRIVATE KEY" => {
                return Err(invalid("it has more than one private key"));
            }
            "ENCRYPTED PRIVATE KEY" => return Err(invalid(ENCRYPTED)),
            // OpenSSL writes the name of the curve beside a key.
            "EC PARAMETERS" => {}
            other => {
                let other: String = other.chars().filter(|c| !c.is_control()).take(40).collect();
                return Err(invalid(format!("\"{other}\" is neither certificate nor key")));
            }
        }
    }
    match (has_key, chain.is_empty()) {
        (true, false) => Ok(json!({ "key": key, "chain": chain })),
        (false, _) => Err(invalid("it has no private key in PEM form")),
        (true, true) => Err(invalid("it has no certificate in PEM form")),
    }
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
        // Behind the common name, as in Unit.
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

/// A time as OpenSSL and Unit write it: `Jan  5 09:34:29 2018 GMT`.
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

/// The kind of the key, which is that of the certificate made for it.
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

const ENCRYPTED: &str = "its private key is encrypted, and a server cannot ask for the password; decrypt it with \
     \"openssl pkey\"";

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

#[cfg(test)]
mod tests;
