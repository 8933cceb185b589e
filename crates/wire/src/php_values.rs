//! Settings of PHP for one request (`php_value`, `php_flag`), the value of the parameters
//! [`Reserved::PhpValues`](crate::request::Reserved::PhpValues) and
//! [`Reserved::PhpAdminValues`](crate::request::Reserved::PhpAdminValues).
//!
//! ```text
//! setting, any number of times: name │ byte 2 │ value │ byte 3
//! ```
//!
//! Of two settings with one name, the later counts.

use crate::bytes::Malformed;

/// Ends a name.
const NAME_END: u8 = 2;
/// Ends a value.
const VALUE_END: u8 = 3;

/// Maximum number of settings of a request; PHP has some hundreds.
pub const MAX_PHP_VALUES: usize = 4096;

/// Encodes the settings of a request.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct PhpValues {
    bytes: Vec<u8>,
    count: usize,
}

impl PhpValues {
    /// Adds a setting. Returns false, without adding it, if the name is empty, a string contains a
    /// NUL or one of the separators, or there are [`MAX_PHP_VALUES`] settings.
    pub fn push(&mut self, name: &[u8], value: &[u8]) -> bool {
        let is_valid = |text: &[u8]| !text.iter().any(|b| [0, NAME_END, VALUE_END].contains(b));
        if name.is_empty() || !is_valid(name) || !is_valid(value) || self.count == MAX_PHP_VALUES {
            return false;
        }
        self.bytes.extend_from_slice(name);
        self.bytes.push(NAME_END);
        self.bytes.extend_from_slice(value);
        self.bytes.push(VALUE_END);
        self.count += 1;
        true
    }

    /// Returns the encoding.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns true if there are no settings; then the parameter is not needed.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// Name and value of a setting.
pub type Setting<'a> = (&'a [u8], &'a [u8]);

/// Decodes settings. Error: bytes that [`PhpValues`] does not make.
pub fn decode(bytes: &[u8]) -> Result<Vec<Setting<'_>>, Malformed> {
    let mut settings = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let end = rest.iter().position(|b| *b == VALUE_END).ok_or(Malformed)?;
        let (setting, after) = (&rest[..end], &rest[end + 1..]);
        let end = setting.iter().position(|b| *b == NAME_END).ok_or(Malformed)?;
        let (name, value) = (&setting[..end], &setting[end + 1..]);
        let has_other = setting.contains(&0) || value.contains(&NAME_END);
        if name.is_empty() || has_other || settings.len() == MAX_PHP_VALUES {
            return Err(Malformed);
        }
        settings.push((name, value));
        rest = after;
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_back_in_order() {
        let mut values = PhpValues::default();
        assert!(values.is_empty());
        assert!(values.push(b"precision", b"5"));
        assert!(values.push(b"auto_prepend_file", b""));
        assert!(values.push(b"precision", b"a=b\n\x01\xff"));
        assert!(!values.is_empty());
        let expected: Vec<(&[u8], &[u8])> = vec![
            (b"precision", b"5"),
            (b"auto_prepend_file", b""),
            (b"precision", b"a=b\n\x01\xff"),
        ];
        assert_eq!(decode(values.as_bytes()), Ok(expected));
        assert_eq!(decode(b""), Ok(Vec::new()));
    }

    #[test]
    fn a_setting_cannot_contain_another() {
        let mut values = PhpValues::default();
        for (name, value) in [
            (&b""[..], &b"1"[..]),
            (b"a\x02", b"1"),
            (b"a\x03b", b"1"),
            (b"a\0", b"1"),
            (b"a", b"1\x03engine\x020"),
            (b"a", b"1\x02"),
            (b"a", b"1\0"),
        ] {
            assert!(!values.push(name, value), "{name:?} {value:?}");
        }
        assert!(values.is_empty());
    }

    #[test]
    fn a_broken_encoding_is_refused() {
        for bytes in [
            &b"a"[..],
            b"a\x02",
            b"a\x021",
            b"a\x03",
            b"\x03",
            b"\x021\x03",
            b"a\x021\x02\x03",
            b"a\x021\0\x03",
            b"a\0\x021\x03",
            b"a\x021\x03b",
            b"a\x021\x03\x03",
        ] {
            assert_eq!(decode(bytes), Err(Malformed), "{bytes:?}");
        }
    }

    #[test]
    fn the_number_of_settings_is_limited() {
        let mut values = PhpValues::default();
        for _ in 0..MAX_PHP_VALUES {
            assert!(values.push(b"a", b"1"));
        }
        assert!(!values.push(b"a", b"1"));
        assert_eq!(decode(values.as_bytes()).map(|settings| settings.len()), Ok(MAX_PHP_VALUES));
        let more = [values.as_bytes(), b"a\x021\x03"].concat();
        assert_eq!(decode(&more), Err(Malformed));
    }
}
