//! Small operations on bytes that rules and expressions share.

/// Returns the number at the start of a text, as C's `atol` does: white space, a sign, digits.
pub fn number(text: &[u8]) -> i64 {
    let text = text.trim_ascii_start();
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
    let value = digits
        .fold(0i64, |sum, digit| sum.saturating_mul(10).saturating_add(i64::from(digit - b'0')));
    if is_negative { -value } else { value }
}

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Appends `%xx`, or another prefix with two hexadecimal digits.
pub(crate) fn push_hex(text: &mut Vec<u8>, prefix: &[u8], byte: u8) {
    text.extend_from_slice(prefix);
    text.push(HEX[usize::from(byte >> 4)]);
    text.push(HEX[usize::from(byte & 15)]);
}

/// Escapes what may not stand in the path of a URL (Apache's `ap_escape_uri`). A percent sign is escaped, and a
/// question mark.
pub fn escape_uri(path: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(path.len());
    for &byte in path {
        if byte.is_ascii_alphanumeric() || b"$-_.+!*'(),:;@&=/~".contains(&byte) {
            escaped.push(byte);
        } else {
            push_hex(&mut escaped, b"%", byte);
        }
    }
    escaped
}
