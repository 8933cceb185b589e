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

/// Encodes bytes, with padding.
pub fn encode(bytes: &[u8]) -> String {
    LENIENT.encode(bytes)
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
    fn what_is_encoded_is_decoded_again() {
        assert_eq!(
            ["", "A", "AB", "ABC"].map(|text| encode(text.as_bytes())),
            ["", "QQ==", "QUI=", "QUJD"]
        );
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(decode(encode(&all).as_bytes()), Some(all));
    }
}
