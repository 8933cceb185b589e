//! Texts that must not appear in logs.

use std::fmt;

use super::field::Field;
use crate::bytes::{Decoder, Malformed};

/// A secret, such as the token of the control API. `Debug` does not show the text.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret text.
    pub fn new(text: String) -> Self {
        Secret(text)
    }

    /// Returns the text.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl Field for Secret {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }
    fn take(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
        String::take(from).map(Secret)
    }
}

#[cfg(test)]
mod tests {
    use super::super::control::ToControl;
    use super::*;

    #[test]
    fn a_secret_is_passed_on_and_never_shown() {
        let hello = ToControl::Hello {
            address: String::new(),
            token: Some(Secret::new("0123456789abcdef".to_owned())),
            origin: String::new(),
            is_undone_by_reload: false,
            has_site_users: false,
            unit_defaults: false,
            sandbox: true,
            refused: None,
        };
        let shown = format!("{hello:?}");
        assert!(shown.contains("Some(Secret)") && !shown.contains("0123"), "{shown}");
        let passed = ToControl::decode(&hello.encode()).unwrap();
        assert_eq!(passed, hello);
        let ToControl::Hello { token: Some(token), .. } = passed else { panic!() };
        assert_eq!(token.expose(), "0123456789abcdef");
    }
}
