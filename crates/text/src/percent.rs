//! Percent-encoding (RFC 3986, 2.1) and the encoding of forms
//! (`application/x-www-form-urlencoded`).

use crate::hex;

/// Returns true for bytes that stand for themselves in all parts of a URI (RFC 3986, 2.3).
pub fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// Returns true for bytes that stand for themselves in a path (RFC 3986, 3.3), and the slash.
pub fn is_of_path(byte: u8) -> bool {
    is_unreserved(byte) || b"!$&'()*+,;=:@/".contains(&byte)
}

/// Appends `%XX`.
pub fn push(byte: u8, out: &mut Vec<u8>) {
    let [high, low] = hex::upper_digits(byte);
    out.extend_from_slice(&[b'%', high, low]);
}

/// Appends a text and percent-encodes the bytes that `keep` does not accept.
pub fn encode(text: &[u8], keep: impl Fn(u8) -> bool, out: &mut Vec<u8>) {
    for &byte in text {
        if keep(byte) {
            out.push(byte);
        } else {
            push(byte, out);
        }
    }
}

/// As [`encode`], into a string: bytes beyond ASCII are encoded in any case.
pub fn encode_text(text: &[u8], keep: impl Fn(u8) -> bool, out: &mut String) {
    for &byte in text {
        if byte.is_ascii() && keep(byte) {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.extend(hex::upper_digits(byte).map(char::from));
        }
    }
}

/// As [`encode`], with small letters, as Apache writes them.
pub fn encode_lower(text: &[u8], keep: impl Fn(u8) -> bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for &byte in text {
        if keep(byte) {
            out.push(byte);
        } else {
            let [high, low] = hex::lower_digits(byte);
            out.extend_from_slice(&[b'%', high, low]);
        }
    }
    out
}

/// Decodes `%XX`. `None` if a percent sign is not followed by two digits.
pub fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte == b'%' {
            decoded.push(hex::byte(after)?);
            rest = after.get(2..)?;
        } else {
            decoded.push(byte);
        }
    }
    Some(decoded)
}

/// Decodes `%XX`, and `+` to a space, as in queries. `None` if a percent sign is not followed by
/// two digits.
pub fn decode_form(text: &[u8]) -> Option<Vec<u8>> {
    // Before decoding, so that an encoded plus stays a plus.
    let spaced: Vec<u8> = text.iter().map(|&byte| if byte == b'+' { b' ' } else { byte }).collect();
    decode(&spaced)
}

/// Decodes `%XX`; a percent sign that is not followed by two digits stands for itself.
pub fn decoded(text: &[u8]) -> impl Iterator<Item = u8> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (&byte, after) = rest.split_first()?;
        rest = after;
        if byte == b'%'
            && let Some(byte) = hex::byte(after)
        {
            rest = after.get(2..).unwrap_or_default();
            return Some(byte);
        }
        Some(byte)
    })
}

/// As [`decoded`], with `+` as a space, as in queries.
pub fn decoded_form(text: &[u8]) -> impl Iterator<Item = u8> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (&byte, after) = rest.split_first()?;
        rest = after;
        match byte {
            b'+' => Some(b' '),
            b'%' => match hex::byte(after) {
                Some(byte) => {
                    rest = after.get(2..).unwrap_or_default();
                    Some(byte)
                }
                None => Some(b'%'),
            },
            byte => Some(byte),
        }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn escapes_are_decoded_and_what_is_none_is_refused_or_stands_for_itself() {
        for (text, strict, lenient, form) in [
            ("a+b%20c%2b", Some("a+b c+"), "a+b c+", "a b c+"),
            ("%zz%4%", None, "%zz%4%", "%zz%4%"),
            ("%%41", None, "%A", "%A"),
            ("%D0%AE", Some("Ю"), "Ю", "Ю"),
            ("", Some(""), "", ""),
        ] {
            let bytes = text.as_bytes();
            assert_eq!(decode(bytes).as_deref(), strict.map(str::as_bytes), "{text}");
            assert_eq!(decoded(bytes).collect::<Vec<_>>(), lenient.as_bytes(), "{text}");
            assert_eq!(decoded_form(bytes).collect::<Vec<_>>(), form.as_bytes(), "{text}");
        }
        assert_eq!(decode_form(b"a+b%2B").as_deref(), Some(&b"a b+"[..]));
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded_again(text: Vec<u8>) {
            let mut encoded = Vec::new();
            encode(&text, is_unreserved, &mut encoded);
            prop_assert!(encoded.iter().all(|byte| is_unreserved(*byte) || *byte == b'%'));
            prop_assert!(decode(&encoded).as_ref() == Some(&text));
            prop_assert!(decode_form(&encoded).as_ref() == Some(&text));
            let small = encode_lower(&text, is_unreserved);
            prop_assert!(small.eq_ignore_ascii_case(&encoded));
            let mut written = String::new();
            encode_text(&text, is_unreserved, &mut written);
            prop_assert_eq!(written.into_bytes(), encoded);
        }

        #[test]
        fn readings_differ_for_malformed_texts_and_plus_signs_only(text in "[%+a1-2zü]{0,20}") {
            let strict = decode(text.as_bytes());
            let lenient: Vec<u8> = decoded(text.as_bytes()).collect();
            if let Some(strict) = strict {
                prop_assert_eq!(strict, lenient);
            }
            let form: Vec<u8> = decoded_form(text.as_bytes()).collect();
            let spaced: Vec<u8> = decoded(text.replace('+', " ").as_bytes()).collect();
            prop_assert_eq!(form, spaced);
        }
    }
}
