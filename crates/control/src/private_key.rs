//! Checks that a private key belongs to a certificate, as far as that is possible without
//! cryptography.
//!
//! RSA keys contain their public part, and so do nearly all keys on elliptic curves. For other keys
//! only the algorithm is compared; a mismatch then shows when the bundle is used.

use x509_parser::asn1_rs::{Any, FromDer, Oid, Tag};
use x509_parser::certificate::X509Certificate;
use x509_parser::public_key::PublicKey;

/// The public part of a private key.
#[derive(PartialEq, Eq)]
pub(crate) enum PrivateKey<'a> {
    /// RSA: the modulus.
    Rsa(&'a [u8]),
    /// An elliptic curve: the point, if the key has it.
    Point(Option<&'a [u8]>),
    /// Another algorithm.
    Other(Oid<'a>),
}

impl<'a> PrivateKey<'a> {
    /// Reads the contents of a PEM block with this label; `None` if it is no private key.
    pub(crate) fn read(label: &str, der: &'a [u8]) -> Option<PrivateKey<'a>> {
        match label {
            "RSA PRIVATE KEY" => rsa(der),
            "EC PRIVATE KEY" => point(der),
            _ => pkcs8(der),
        }
    }

    /// Returns false if the key is not that of the certificate.
    pub(crate) fn fits(&self, certificate: &X509Certificate<'_>) -> bool {
        match (self, certificate.public_key().parsed()) {
            (PrivateKey::Rsa(modulus), Ok(PublicKey::RSA(public))) => {
                unpadded(modulus) == unpadded(public.modulus)
            }
            (PrivateKey::Point(Some(point)), Ok(PublicKey::EC(public))) => {
                same_point(point, public.data())
            }
            (PrivateKey::Point(None), Ok(PublicKey::EC(_))) => true,
            (PrivateKey::Other(algorithm), _) => {
                *algorithm == certificate.public_key().algorithm.algorithm
            }
            _ => false,
        }
    }
}

/// Reads RFC 5958: version, algorithm, and the key in the algorithm's format.
fn pkcs8(der: &[u8]) -> Option<PrivateKey<'_>> {
    let [version, algorithm, key, ..] = sequence(der)?[..] else { return None };
    expect(version, Tag::Integer)?;
    let algorithm = Any::from_der(algorithm).ok()?.1;
    let (_, algorithm) = Oid::from_der(algorithm.data).ok()?;
    let key = expect(key, Tag::OctetString)?;
    match algorithm.to_id_string().as_str() {
        RSA | RSA_PSS => rsa(key),
        EC => point(key),
        _ => Some(PrivateKey::Other(algorithm)),
    }
}

/// Reads RFC 8017, A.1.2: version, modulus, and fields that are ignored.
fn rsa(der: &[u8]) -> Option<PrivateKey<'_>> {
    let [_, modulus, _, _, ..] = sequence(der)?[..] else { return None };
    Some(PrivateKey::Rsa(expect(modulus, Tag::Integer)?))
}

/// Reads RFC 5915: version, number and, with context tags, curve and point.
fn point(der: &[u8]) -> Option<PrivateKey<'_>> {
    let parts = sequence(der)?;
    let [version, number, optional @ ..] = &parts[..] else { return None };
    expect(version, Tag::Integer)?;
    expect(number, Tag::OctetString)?;
    let parts = optional.iter().filter_map(|part| Some(Any::from_der(part).ok()?.1));
    let tagged = parts.into_iter().find(|part| part.tag() == Tag(1));
    let point = tagged.and_then(|part| expect(part.data, Tag::BitString));
    // The first byte is the number of unused bits of the last.
    Some(PrivateKey::Point(point.and_then(|bits| bits.get(1..))))
}

/// Returns the elements of a sequence, each with its header.
fn sequence(der: &[u8]) -> Option<Vec<&[u8]>> {
    let mut rest = expect(der, Tag::Sequence)?;
    let mut parts = Vec::new();
    while !rest.is_empty() {
        let (after, _) = Any::from_der(rest).ok()?;
        parts.push(rest.get(..rest.len() - after.len())?);
        rest = after;
    }
    Some(parts)
}

/// Returns the contents of an element with this tag; `None` for other tags.
fn expect(der: &[u8], tag: Tag) -> Option<&[u8]> {
    let (_, any) = Any::from_der(der).ok()?;
    (any.tag() == tag).then_some(any.data)
}

/// Returns true if two encodings (SEC 1, 2.3.3) may be of the same point. A compressed encoding has
/// only x.
fn same_point(a: &[u8], b: &[u8]) -> bool {
    let x = |point: &[u8]| match point.split_first() {
        Some((4, both)) => both.get(..both.len() / 2).map(<[u8]>::to_vec),
        Some((2 | 3, x)) => Some(x.to_vec()),
        _ => None,
    };
    a == b || (a.len() != b.len() && x(a).is_some() && x(a) == x(b))
}

fn unpadded(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|&&byte| byte == 0).count();
    number.get(zeros..).unwrap_or_default()
}

const RSA: &str = "1.2.840.113549.1.1.1";
const RSA_PSS: &str = "1.2.840.113549.1.1.10";
const EC: &str = "1.2.840.10045.2.1";
