//! Functions of expressions that depend on their argument only.

use std::borrow::Cow;

use howdah_text::{base64, hex};
use sha1::Digest;

/// Decodes percent escapes. `%2f` stays; a wrong escape or `%00` makes the text empty, as in
/// Apache.
pub(super) fn unescape(text: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [byte, tail @ ..] = rest {
        rest = tail;
        if *byte != b'%' {
            decoded.push(*byte);
            continue;
        }
        let Some(value) = hex::byte(tail) else { return Vec::new() };
        match value {
            0 => return Vec::new(),
            b'/' => decoded.extend_from_slice(&[b'%', tail[0], tail[1]]),
            byte => decoded.push(byte),
        }
        rest = &tail[2..];
    }
    decoded
}

/// Decodes to the first character that is not of Base64, as APR does. The text ends at a NUL.
pub(super) fn unbase64(text: &[u8]) -> Vec<u8> {
    let mut decoded = base64::decode_prefix(text);
    if let Some(end) = memchr::memchr(0, &decoded) {
        decoded.truncate(end);
    }
    decoded
}

pub(super) fn sha1(text: &[u8]) -> Vec<u8> {
    hex::lower(&sha1::Sha1::digest(text)).into_bytes()
}

pub(super) fn md5(text: &[u8]) -> Vec<u8> {
    hex::lower(&md5::Md5::digest(text)).into_bytes()
}

/// Escapes for filters and names of LDAP (RFC 4514, RFC 4515).
pub(super) fn ldap(text: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(text.len());
    for (index, byte) in text.iter().enumerate() {
        let is_edge = index == 0 || index + 1 == text.len();
        let is_special = b"()*\\,+\"<>;=\0\n".contains(byte)
            || *byte == b' ' && is_edge
            || *byte == b'#' && index == 0;
        if is_special {
            escaped.push(b'\\');
            escaped.extend(hex::lower_digits(*byte));
        } else {
            escaped.push(*byte);
        }
    }
    escaped
}

/// Changes the case of ASCII letters.
pub(super) fn change_case(text: Cow<'_, [u8]>, is_upper: bool) -> Vec<u8> {
    let mut text = text.into_owned();
    if is_upper {
        text.make_ascii_uppercase()
    } else {
        text.make_ascii_lowercase()
    }
    text
}
