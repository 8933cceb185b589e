//! Field values that contain variables.

use howdah_text::percent;

/// Returns a value that cannot end its field, for any value of a variable: surrounding spaces are
/// removed, control characters are percent-encoded.
pub fn plain(value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len());
    percent::encode(
        value.trim_ascii(),
        |byte| matches!(byte, b'\t' | b' '..=b'~' | 0x80..),
        &mut out,
    );
    out
}
