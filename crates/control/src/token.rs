//! The token of requests over TCP and abstract unix sockets, which every process of the machine can
//! reach.

use std::fmt;

use subtle::ConstantTimeEq;

/// Shared secret of the server and the clients of its control API (RFC 6750). `Debug` does not show
/// it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

/// Minimum length of a token in bytes.
pub const MIN_TOKEN: usize = 16;

/// Maximum length of a token in bytes; a header field holds it.
pub const MAX_TOKEN: usize = 4096;

impl Token {
    /// Reads the text of a token file: one line, with any white space around it. Error: the problem
    /// of the text.
    pub fn parse(text: &[u8]) -> Result<Token, &'static str> {
        let token = text.trim_ascii();
        if token.is_empty() {
            return Err("it is empty");
        }
        if token.contains(&b'\n') || token.contains(&b'\r') {
            return Err("it has more than one line");
        }
        if !token.iter().all(u8::is_ascii_graphic) {
            return Err("a token consists of visible ASCII characters without spaces");
        }
        match token.len() {
            0..MIN_TOKEN => Err("a token has at least 16 characters"),
            MIN_TOKEN..=MAX_TOKEN => Ok(Token(String::from_utf8_lossy(token).into_owned())),
            _ => Err("a token has at most 4096 characters"),
        }
    }

    /// Wraps a text that [`Token::parse`] has accepted before.
    pub fn new(text: String) -> Token {
        Token(text)
    }

    /// Returns the secret.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Returns true if the value of an `Authorization` field carries this token. Takes the same
    /// time for all tokens of one length.
    pub(crate) fn authorizes(&self, authorization: &[u8]) -> bool {
        let (scheme, credentials) = authorization.split_at(SCHEME.len().min(authorization.len()));
        scheme.eq_ignore_ascii_case(SCHEME)
            && credentials.first() == Some(&b' ')
            && self.0.as_bytes().ct_eq(credentials.trim_ascii()).into()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// Name of the authentication scheme (RFC 6750, 2.1).
const SCHEME: &[u8] = b"bearer";

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "0123456789abcdef";

    #[test]
    fn a_token_is_one_line_of_at_least_16_characters() {
        for good in [SECRET, " \t0123456789abcdef\r\n\n", &"~".repeat(MAX_TOKEN)] {
            assert_eq!(Token::parse(good.as_bytes()).unwrap().expose(), good.trim());
        }
        for (bad, why) in [
            ("", "empty"),
            (" \n\n", "empty"),
            ("0123456789abcde", "at least 16"),
            ("0123456789abcdef\n0123456789abcdef", "more than one line"),
            ("0123456789 abcdefgh", "visible"),
            ("0123456789\0abcdefgh", "visible"),
            ("0123456789äabcdefgh", "visible"),
            (&"x".repeat(MAX_TOKEN + 1), "at most"),
        ] {
            let problem = Token::parse(bad.as_bytes()).unwrap_err();
            assert!(problem.contains(why), "{bad:?}: {problem}");
        }
    }

    #[test]
    fn a_token_is_shown_by_nothing_but_its_accessor() {
        let token = Token::parse(SECRET.as_bytes()).unwrap();
        assert!(!format!("{token:?} {:#?}", Some(&token)).contains("0123"));
    }

    #[test]
    fn only_the_whole_token_authorizes() {
        let token = Token::parse(SECRET.as_bytes()).unwrap();
        for good in
            ["Bearer 0123456789abcdef", "bearer 0123456789abcdef", "BEARER   0123456789abcdef "]
        {
            assert!(token.authorizes(good.as_bytes()), "{good}");
        }
        for bad in [
            "",
            "Bearer",
            "Bearer ",
            "0123456789abcdef",
            "Bearer0123456789abcdef",
            "Bearer 0123456789abcde",
            "Bearer 0123456789abcdef0",
            "Bearer 0123456789abcdeF",
            "Bearer \"0123456789abcdef\"",
            "Basic 0123456789abcdef",
            "Basic, Bearer 0123456789abcdef",
        ] {
            assert!(!token.authorizes(bad.as_bytes()), "{bad}");
        }
    }
}
