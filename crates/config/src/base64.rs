//! Base64 (RFC 4648, 4), as `Authorization`, password files and ticket keys have it.

/// Decodes text with or without padding; `None` if it is no base64.
pub fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let padding = text.iter().rev().take_while(|byte| **byte == b'=').count();
    let digits = text.get(..text.len().checked_sub(padding)?)?;
    if padding > 2 || digits.len() % 4 == 1 || (padding > 0 && !text.len().is_multiple_of(4)) {
        return None;
    }
    let mut out = Vec::with_capacity(digits.len() / 4 * 3 + 2);
    let (mut bits, mut count) = (0u32, 0);
    for byte in digits {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(digit);
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count & 0xff) as u8);
        }
    }
    Some(out)
}

/// Encodes bytes, with padding.
pub fn encode(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |index: usize| u32::from(group.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let digit = bits >> (18 - 6 * place) & 63;
            let known = place <= group.len();
            out.push(if known { char::from(DIGITS[digit as usize]) } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_decoded_or_refused() {
        for (text, expected) in [
            ("", Some("")),
            ("QQ==", Some("A")),
            ("QQ", Some("A")),
            ("QUI=", Some("AB")),
            ("QUJD", Some("ABC")),
            ("dXNlcjpwYXNz", Some("user:pass")),
            ("Q", None),
            ("QQ=", None),
            ("Q===", None),
            ("====", None),
            ("QQ=A", None),
            ("Q Q=", None),
            ("QQ-_", None),
        ] {
            assert_eq!(decode(text.as_bytes()).as_deref(), expected.map(str::as_bytes), "{text}");
        }
    }

    #[test]
    fn what_is_encoded_is_decoded_again() {
        assert_eq!(
            ["", "A", "AB", "ABC"].map(|text| encode(text.as_bytes())),
            ["", "QQ==", "QUI=", "QUJD"]
        );
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(decode(encode(&all).as_bytes()), Some(all));
    }
}
