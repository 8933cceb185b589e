//! Paths of values in a document, as errors and the control API write them: `/listeners/*:80`.

use std::fmt::{self, Write};

use howdah_text::percent;

/// Writes a key behind a slash. Characters that would end a step or a line are percent-encoded.
pub(crate) fn write_key(f: &mut impl Write, key: &str) -> fmt::Result {
    f.write_char('/')?;
    for character in key.chars() {
        if character.is_control() || matches!(character, '/' | '%') {
            let mut encoded = String::new();
            percent::encode_text(
                character.encode_utf8(&mut [0; 4]).as_bytes(),
                |_| false,
                &mut encoded,
            );
            f.write_str(&encoded)?;
        } else {
            f.write_char(character)?;
        }
    }
    Ok(())
}

/// Returns the path of these keys as errors show it: `/listeners/*:80`.
pub fn path<'a>(keys: impl IntoIterator<Item = &'a (impl AsRef<str> + ?Sized + 'a)>) -> String {
    let mut text = String::new();
    for key in keys {
        // Writing to a string does not fail.
        let _ = write_key(&mut text, key.as_ref());
    }
    text
}

/// Returns the keys of a path as errors show it. Encodings that errors do not have stay as they
/// are.
pub fn split_path(path: &str) -> Vec<String> {
    let steps = path.strip_prefix('/').map(|rest| rest.split('/'));
    let decode = |step: &str| {
        let decoded = percent::decode(step.as_bytes());
        decoded.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_else(|| step.to_owned())
    };
    steps.into_iter().flatten().map(decode).collect()
}
