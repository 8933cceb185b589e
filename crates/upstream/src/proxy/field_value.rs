//! Field values that contain variables.

/// Returns a value that cannot end its field, whatever a client puts into a variable: surrounding
/// spaces are removed, control characters are percent-encoded.
pub fn plain(value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len());
    for &byte in value.trim_ascii() {
        match byte {
            b'\t' | b' '..=b'~' | 0x80.. => out.push(byte),
            _ => percent_encode(byte, &mut out),
        }
    }
    out
}

/// Appends a byte percent-encoded.
pub fn percent_encode(byte: u8, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    // Four bits are a valid index of the sixteen digits.
    let (high, low) = (HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]);
    out.extend_from_slice(&[b'%', high, low]);
}
