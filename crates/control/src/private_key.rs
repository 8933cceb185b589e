//! Whether a private key belongs to a certificate, as far as that shows without cryptography.
//!
//! An RSA key holds its public part, and so does nearly every key on an elliptic curve. Of the others
//! only the algorithm is compared; whoever uses such a bundle finds out.

use x509_parser::asn1_rs::{Any, FromDer, Oid, Tag};
use x509_parser::certificate::X509Certificate;
use x509_parser::public_key::PublicKey;

/// What a private key says of its public part.
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
    /// Reads the contents of a PEM block with this label; `None` if it is no such key.
    pub(crate) fn read(label: &str, der: &'a [u8]) -> Option<PrivateKey<'a>> {
        match label {
            "RSA PRIVATE KEY" => rsa(der),
            "EC PRIVATE KEY" => point(der),
            _ => pkcs8(der),
        }
    }

    /// Whether it may be the key of a certificate.
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

/// RFC 5958: version, algorithm, the key in a form of the algorithm's own.
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

/// RFC 8017, A.1.2: version, modulus and the rest.
fn rsa(der: &[u8]) -> Option<PrivateKey<'_>> {
    let [_, modulus, _, _, ..] = sequence(der)?[..] else { return None };
    Some(PrivateKey::Rsa(expect(modulus, Tag::Integer)?))
}

/// RFC 5915: version, number, and, with tags of the context, curve and point.
fn point(der: &[u8]) -> Option<PrivateKey<'_>> {
    let parts = sequence(der)?;
    let [version, number, optional @ ..] = &parts[..] else { return None };
    expect(version, Tag::Integer)?;
    expect(number, Tag::OctetString)?;
    let parts = optional.iter().filter_map(|part| Some(Any::from_der(part).ok()?.1));
    let tagged = parts.into_iter().find(|part| part.tag() == Tag(1));
    let point = tagged.and_then(|part| expect(part.data, Tag::BitString));
    // The first byte says how many bits of the last are unused.
    Some(PrivateKey::Point(point.and_then(|bits| bits.get(1..))))
}

/// The elements of a sequence, each with its header. A key has few.
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

/// The contents of an element that must have this tag.
fn expect(der: &[u8], tag: Tag) -> Option<&[u8]> {
    let (_, any) = Any::from_der(der).ok()?;
    (any.tag() == tag).then_some(any.data)
}

/// Whether two encodings of a point (SEC 1, 2.3.3) may be of the same one. One of them may be
/// compressed: then it has x alone.
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
