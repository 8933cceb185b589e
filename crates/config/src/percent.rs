//! Percent-decoding (RFC 3986, 2.1) of encoded strings of the configuration.

/// Decodes `%XX`; `None` if a percent sign is not followed by two hexadecimal digits.
pub(crate) fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let high = char::from(bytes.next()?).to_digit(16)?;
        let low = char::from(bytes.next()?).to_digit(16)?;
        decoded.push(u8::try_from(high << 4 | low).ok()?);
    }
    Some(decoded)
}

/// Decodes `%XX`, and `+` to a space, as in queries.
pub(crate) fn decode_form(text: &[u8]) -> Option<Vec<u8>> {
    // Before decoding, so that an encoded plus stays a plus.
    let spaced: Vec<u8> = text.iter().map(|&byte| if byte == b'+' { b' ' } else { byte }).collect();
    decode(&spaced)
}
