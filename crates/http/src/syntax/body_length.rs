//! Length of a body: `Content-Length`, or chunked.

/// Length of a body as its head announces it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyLength {
    /// Number of bytes.
    Known(u64),
    /// Chunked: unknown until the end.
    Chunked,
}

/// Parses a `Content-Length`: digits only, no list, no sign, no overflow.
pub fn content_length(value: &[u8]) -> Option<u64> {
    if value.is_empty() {
        return None;
    }
    value.iter().try_fold(0u64, |length, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        length.checked_mul(10)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_is_digits_and_nothing_else() {
        assert_eq!(content_length(b"0"), Some(0));
        assert_eq!(content_length(b"007"), Some(7));
        assert_eq!(content_length(b"18446744073709551615"), Some(u64::MAX));
        for value in
            ["", "18446744073709551616", "+1", "-1", "1 ", " 1", "1,1", "0x1", "1.0", "\u{661}"]
        {
            assert_eq!(content_length(value.as_bytes()), None, "{value:?}");
        }
    }
}
