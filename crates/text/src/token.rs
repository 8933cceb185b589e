//! Tokens of HTTP (RFC 9110, 5.6.2): methods and names of header fields.

/// Returns true if a text is a token, and so a valid name of a header field.
pub fn is_token(text: impl AsRef<[u8]>) -> bool {
    let text = text.as_ref();
    !text.is_empty() && text.iter().all(|byte| is_token_byte(*byte))
}

/// Returns true if a byte may be part of a token.
pub fn is_token_byte(byte: u8) -> bool {
    TOKEN[usize::from(byte)]
}

/// One entry per value of a byte.
static TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < table.len() {
        table[byte] = (byte as u8).is_ascii_alphanumeric()
            || matches!(byte as u8, b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^'..=b'`')
            || matches!(byte as u8, b'|' | b'~');
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_the_bytes_of_the_rfc() {
        let token =
            b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
        for byte in 0..=255 {
            assert_eq!(is_token_byte(byte), token.contains(&byte), "{byte}");
        }
        assert!(is_token(token) && !is_token("") && !is_token("a b"));
    }
}
