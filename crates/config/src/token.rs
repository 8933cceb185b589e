//! Tokens of HTTP (RFC 9110, 5.6.2): methods and names of header fields.

/// Returns true if the text is a token, and so a valid name of a header field.
pub(crate) fn is_token(text: &str) -> bool {
    let is_token_byte =
        |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_token_byte)
}
