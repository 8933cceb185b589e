//! Base64 (RFC 4648, 4) in `Authorization`, password files and ticket keys.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::DecodePaddingMode::Indifferent;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};

/// Accepts text with or without padding, as nginx and Apache do.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Decodes text with or without padding; `None` if it is not base64.
pub fn decode(text: &[u8]) -> Option<Vec<u8>> {
    LENIENT.decode(text).ok()
}

/// Decodes up to the first byte that is not of the alphabet, as Apache does. Bits that make no
/// whole byte are left out.
pub fn decode_prefix(text: &[u8]) -> Vec<u8> {
    let is_digit = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    let digits = text.iter().take_while(|byte| is_digit(byte)).count();
    // A single digit behind whole groups has no byte.
    let whole = if digits % 4 == 1 { digits - 1 } else { digits };
    decode(&text[..whole]).unwrap_or_default()
}

/// Encodes bytes, with padding.
pub fn encode(bytes: &[u8]) -> String {
    LENIENT.encode(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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
            ("QQ=", Some("A")),
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
    fn a_prefix_is_decoded_up_to_a_foreign_byte() {
        for (text, expected) in [
            ("YWI=YWJj", "ab"),
            ("YWJjY", "abc"),
            ("YWJj!YWJj", "abc"),
            ("YQ", "a"),
            ("Y", ""),
            ("!!", ""),
            ("", ""),
        ] {
            assert_eq!(decode_prefix(text.as_bytes()), expected.as_bytes(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_prefix_of_valid_text_is_all_of_it(bytes: Vec<u8>) {
            prop_assert_eq!(decode_prefix(encode(&bytes).as_bytes()), bytes);
        }

        #[test]
        fn no_text_makes_the_decoders_panic(text: Vec<u8>) {
            decode(&text);
            decode_prefix(&text);
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
