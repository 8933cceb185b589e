//! Error messages for people: the reason in words, without the number that the standard library
//! adds.

use std::borrow::Cow;
use std::fmt;

/// Begins the number that the standard library adds to the text of an error of the system.
const NUMBER: &str = " (os error ";

/// Shows a message without the numbers of errors in it: `Permission denied` instead of `Permission
/// denied (os error 13)`.
#[derive(Debug)]
pub struct Plain<T>(pub T);

impl<T: fmt::Display> fmt::Display for Plain<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&without_numbers(&self.0.to_string()))
    }
}

/// Returns a message without the numbers of errors in it.
pub fn without_numbers(message: &str) -> Cow<'_, str> {
    let Some(first) = message.find(NUMBER) else { return Cow::Borrowed(message) };
    let (mut plain, mut rest) = (message[..first].to_owned(), &message[first..]);
    while let Some(at) = rest.find(NUMBER) {
        let (before, found) = rest.split_at(at);
        plain.push_str(before);
        let behind = &found[NUMBER.len()..];
        let digits = behind.trim_start_matches(|c: char| c.is_ascii_digit());
        rest = match digits.strip_prefix(')') {
            Some(behind_number) if digits.len() < behind.len() => behind_number,
            _ => {
                plain.push_str(NUMBER);
                behind
            }
        };
    }
    plain.push_str(rest);
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn errors_of_the_system_are_words() {
        let denied = io::Error::from_raw_os_error(13);
        assert_eq!(Plain(&denied).to_string(), "Permission denied");
        let two = format!("a: {denied}; b: {denied}: c");
        assert_eq!(without_numbers(&two), "a: Permission denied; b: Permission denied: c");
        assert_eq!(Plain(rustix::io::Errno::NOENT).to_string(), "No such file or directory");
    }

    #[test]
    fn other_texts_stay() {
        for text in
            ["", "é (os error )", "a (os error 1", "a (os error 1b)", " (os error  (os error x"]
        {
            assert_eq!(without_numbers(text), text);
        }
        assert_eq!(without_numbers(" (os error  (os error 5)x"), " (os error x");
    }
}
