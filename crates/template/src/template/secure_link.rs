//! Signed links with an optional time of expiry, as nginx's `secure_link` has them.
//!
//! A link is compared with the MD5 of a text that has a secret in it. The time of a comparison does
//! not depend on how much of the link is right.

use std::hint::black_box;

use howdah_text::{base64, hex};
use md5::{Digest, Md5};

use super::{Template, Variable};
use crate::captures::Captures;
use crate::groups::{Group, Groups};

/// The check of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecureLink {
    /// The text that is hashed. The link is a hash in Base64 for URLs, and, behind a comma, the
    /// second at which it expires; the value is `1`, or `0` if the link has expired.
    Md5(Template),
    /// The secret behind the text that is hashed. The link is a target: a first part, the hash in
    /// hexadecimal digits, and the rest, which is the value.
    Secret(String),
}

/// The variable for the second of expiry in the text that is hashed.
const EXPIRES: &str = "secure_link_expires";

/// Longest hash in Base64 that is decoded.
const MAX_HASH_TEXT: usize = 24;

impl SecureLink {
    /// Returns the names that the text of [`SecureLink::Md5`] may have besides variables.
    pub fn groups() -> Groups {
        let mut groups = Groups::default();
        groups.names.push(EXPIRES.to_owned());
        groups
    }

    /// Appends the value of a link. `value` appends the value of a variable. Returns false if the
    /// link is not authentic.
    pub(crate) fn write(
        &self,
        link: &[u8],
        out: &mut Vec<u8>,
        value: &dyn Fn(&Variable, &mut Vec<u8>),
    ) -> bool {
        let found = match self {
            SecureLink::Md5(text) => check_md5(text, link, value).map(|valid| {
                let text: &[u8] = if valid { b"1" } else { b"0" };
                text
            }),
            SecureLink::Secret(secret) => check_secret(secret, link),
        };
        let Some(found) = found else { return false };
        out.extend_from_slice(found);
        true
    }
}

/// Returns false if a link has expired; `None` if it is not authentic.
fn check_md5(
    text: &Template,
    link: &[u8],
    value: &dyn Fn(&Variable, &mut Vec<u8>),
) -> Option<bool> {
    let comma = memchr::memchr(b',', link);
    let (hash, expires) = match comma.and_then(|at| link.split_at_checked(at)) {
        Some((hash, rest)) => (hash, Some(rest.get(1..).unwrap_or_default())),
        None => (link, None),
    };
    let expires_at = expires.map(seconds);
    if expires_at.is_some_and(|at| at.is_none_or(|at| at == 0)) {
        return None;
    }
    let captures = Captures::of_name(EXPIRES, expires.unwrap_or_default());
    let mut hashed = Vec::new();
    text.expand(&mut hashed, |variable, out| match variable {
        Variable::Capture(group @ Group::Name(_)) => {
            out.extend_from_slice(captures.get(group).unwrap_or_default());
        }
        other => value(other, out),
    });
    if hash.len() > MAX_HASH_TEXT || hash.iter().any(|byte| matches!(byte, b'+' | b'/')) {
        return None;
    }
    let of_standard = |byte: &u8| match byte {
        b'-' => b'+',
        b'_' => b'/',
        other => *other,
    };
    let decoded = base64::decode(&hash.iter().map(of_standard).collect::<Vec<_>>())?;
    if !equal(&decoded, &Md5::digest(&hashed)) {
        return None;
    }
    let Some(Some(at)) = expires_at else { return Some(true) };
    let mut now = Vec::new();
    value(&Variable::Milliseconds, &mut now);
    let now = now.split(|byte| *byte == b'.').next().and_then(seconds)?;
    Some(at >= now)
}

/// Returns the rest of a target `/PART/HASH/REST`; `None` if the hash is not that of the rest and
/// the secret.
fn check_secret<'l>(secret: &str, link: &'l [u8]) -> Option<&'l [u8]> {
    let mut parts = link.get(1..)?.splitn(3, |byte| *byte == b'/');
    let (_, hash, rest) = (parts.next()?, parts.next()?, parts.next()?);
    let given = hash.chunks(2).map(hex::byte).collect::<Option<Vec<u8>>>()?;
    let wanted = Md5::new().chain_update(rest).chain_update(secret).finalize();
    (equal(&given, &wanted) && !rest.is_empty()).then_some(rest)
}

/// Returns a number of seconds, of digits only.
fn seconds(text: &[u8]) -> Option<i64> {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| is_number)?.parse().ok()
}

/// Compares all bytes, so that the time does not depend on the place of the first difference.
fn equal(a: &[u8], b: &[u8]) -> bool {
    let differences = a.iter().zip(b).fold(0, |all, (a, b)| black_box(all | (a ^ b)));
    a.len() == b.len() && differences == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::DefinedVariables;

    fn value_of(check: &SecureLink, link: &str, now: &str) -> String {
        let mut out = Vec::new();
        let value = |variable: &Variable, out: &mut Vec<u8>| {
            let text: &[u8] = match variable {
                Variable::Milliseconds => now.as_bytes(),
                Variable::Uri => b"/s/a.bin",
                _ => b"",
            };
            out.extend_from_slice(text);
        };
        let is_found = check.write(link.as_bytes(), &mut out, &value);
        assert_eq!(is_found, !out.is_empty());
        String::from_utf8(out).unwrap()
    }

    fn hash(text: &str) -> String {
        let hash = base64::encode(&Md5::digest(text.as_bytes()));
        hash.replace('+', "-").replace('/', "_").trim_end_matches('=').to_owned()
    }

    #[test]
    fn a_link_is_valid_until_it_expires() {
        let text = "$secure_link_expires$uri secret";
        let groups = SecureLink::groups();
        let text = Template::parse_in(text, &groups, &DefinedVariables::default()).unwrap();
        let check = SecureLink::Md5(text);
        let (link, forever) = (hash("2000/s/a.bin secret"), hash("/s/a.bin secret"));
        for (link, now, expected) in [
            (format!("{link},2000"), "1999.999", "1"),
            (format!("{link},2000"), "2000.999", "1"),
            (format!("{link},2000"), "2001.000", "0"),
            (format!("{link}==,2000"), "1.000", "1"),
            (forever.clone(), "2001.000", "1"),
            (format!("{forever},"), "1.000", ""),
            (format!("{link},2001"), "1.000", ""),
            (format!("{link},02000"), "1.000", ""),
            (format!("{link},2000 "), "1.000", ""),
            (format!("{link},+2000"), "1.000", ""),
            (format!("{link},0"), "1.000", ""),
            (format!("{link},99999999999999999999"), "1.000", ""),
            (link.clone(), "1.000", ""),
            (format!("{}A,2000", &link[..20]), "1.000", ""),
            (format!("{link}{link},2000"), "1.000", ""),
            (hash("2000/s/b.bin secret") + ",2000", "1.000", ""),
            (String::new(), "1.000", ""),
            (",2000".to_owned(), "1.000", ""),
        ] {
            assert_eq!(value_of(&check, &link, now), expected, "{link} {now}");
        }
    }

    #[test]
    fn a_link_with_a_secret_leads_to_its_rest() {
        let check = SecureLink::Secret("word".to_owned());
        let hash = |rest: &str| {
            let hash = Md5::new().chain_update(rest).chain_update("word").finalize();
            hash.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
        };
        let link = |hash: String, rest: &str| format!("/p/{hash}/{rest}");
        for (link, expected) in [
            (link(hash("a/b?c"), "a/b?c"), "a/b?c"),
            (link(hash("a/b?c").to_uppercase(), "a/b?c"), "a/b?c"),
            (link(hash("a/b"), "a/c"), ""),
            (link(hash("a")[..30].to_owned(), "a"), ""),
            (link(hash(""), ""), ""),
            (format!("/p/{}", hash("")), ""),
            ("/p/x/a".to_owned(), ""),
            ("/".to_owned(), ""),
            (String::new(), ""),
        ] {
            assert_eq!(value_of(&check, &link, "1.000"), expected, "{link}");
        }
    }
}
