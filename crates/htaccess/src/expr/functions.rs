//! Functions of expressions that depend on their argument only.

use std::borrow::Cow;

use sha1::Digest;

use super::ascii::push_hex;

/// Decodes percent escapes. `%2f` stays; a wrong escape or `%00` makes the text empty, as in Apache.
pub(super) fn unescape(text: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [byte, tail @ ..] = rest {
        rest = tail;
        if *byte != b'%' {
            decoded.push(*byte);
            continue;
        }
        let digits = (tail.first().and_then(hex), tail.get(1).and_then(hex));
        let (Some(high), Some(low)) = digits else { return Vec::new() };
        match high << 4 | low {
            0 => return Vec::new(),
            b'/' => decoded.extend_from_slice(&[b'%', tail[0], tail[1]]),
            byte => decoded.push(byte),
        }
        rest = &tail[2..];
    }
    decoded
}

fn hex(digit: &u8) -> Option<u8> {
    char::from(*digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub(super) fn base64(text: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::with_capacity(text.len().div_ceil(3) * 4);
    for group in text.chunks(3) {
        let bytes =
            [group[0], group.get(1).copied().unwrap_or(0), group.get(2).copied().unwrap_or(0)];
        let bits = u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]);
        for index in 0..4u32 {
            if index as usize <= group.len() {
                encoded.push(BASE64[(bits >> (18 - 6 * index) & 63) as usize]);
            } else {
                encoded.push(b'=');
            }
        }
    }
    encoded
}

/// Decodes to the first character that is not of Base64, as APR does. The text ends at a NUL.
pub(super) fn unbase64(text: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count) = (0u32, 0);
    for byte in text {
        let Some(value) = BASE64.iter().position(|other| other == byte) else { break };
        bits = bits << 6 | value as u32;
        count += 6;
        if count >= 8 {
            count -= 8;
            decoded.push((bits >> count & 255) as u8);
        }
    }
    if let Some(end) = memchr::memchr(0, &decoded) {
        decoded.truncate(end);
    }
    decoded
}

pub(super) fn sha1(text: &[u8]) -> Vec<u8> {
    to_hex(&sha1::Sha1::digest(text))
}

pub(crate) fn md5(text: &[u8]) -> Vec<u8> {
    to_hex(&md5::Md5::digest(text))
}

fn to_hex(bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes.len() * 2);
    bytes.iter().for_each(|byte| push_hex(&mut text, b"", *byte));
    text
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
            push_hex(&mut escaped, b"\\", *byte);
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
