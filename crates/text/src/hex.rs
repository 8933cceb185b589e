//! Hexadecimal digits.

const LOWER: &[u8; 16] = b"0123456789abcdef";
const UPPER: &[u8; 16] = b"0123456789ABCDEF";

/// Returns the value of a digit in either case.
pub fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

/// Returns the byte that the first two digits of a text stand for.
pub fn byte(text: &[u8]) -> Option<u8> {
    match text {
        [high, low, ..] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    }
}

/// Returns the two digits of a byte, with small letters.
pub fn lower_digits(byte: u8) -> [u8; 2] {
    digits(LOWER, byte)
}

/// Returns the two digits of a byte, with capital letters.
pub fn upper_digits(byte: u8) -> [u8; 2] {
    digits(UPPER, byte)
}

/// Returns bytes as digits with small letters.
pub fn lower(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    append(&mut text, bytes);
    text
}

/// Appends bytes as digits with small letters.
pub fn append(text: &mut String, bytes: &[u8]) {
    text.extend(bytes.iter().flat_map(|byte| lower_digits(*byte)).map(char::from));
}

/// Returns bytes as digits with capital letters.
pub fn upper(bytes: &[u8]) -> String {
    bytes.iter().flat_map(|byte| upper_digits(*byte)).map(char::from).collect()
}

fn digits(table: &[u8; 16], byte: u8) -> [u8; 2] {
    // Four bits are always an index of the sixteen digits.
    [table[usize::from(byte >> 4)], table[usize::from(byte & 15)]]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn other_characters_are_no_digits() {
        for (text, expected) in [
            ("0f", Some(15)),
            ("Ff-", Some(255)),
            ("", None),
            ("1", None),
            ("+1", None),
            ("1 ", None),
            ("g0", None),
            ("\u{ff11}1", None),
        ] {
            assert_eq!(byte(text.as_bytes()), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn digits_are_those_of_the_standard_library(bytes: Vec<u8>) {
            let small: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            prop_assert_eq!(lower(&bytes), &*small);
            prop_assert_eq!(upper(&bytes), small.to_uppercase());
            for (index, wanted) in bytes.iter().enumerate() {
                prop_assert_eq!(byte(&small.as_bytes()[2 * index..]), Some(*wanted));
            }
        }
    }
}
