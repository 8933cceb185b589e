//! Messages with a limited length.

use std::fmt::{self, Write};

/// Maximum length of a message in bytes.
const MAX_BYTES: usize = 4 << 10;

/// Shows the first 4 KiB of a message. If it is longer, its length follows.
#[derive(Debug)]
pub struct Shortened<T>(pub T);

impl<T: fmt::Display> fmt::Display for Shortened<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut writer = Writer { f, length: 0 };
        write!(writer, "{}", self.0)?;
        match writer.length {
            0..=MAX_BYTES => Ok(()),
            length => write!(f, "… ({length} bytes)"),
        }
    }
}

struct Writer<'a, 'f> {
    f: &'a mut fmt::Formatter<'f>,
    /// Length of the message so far, in bytes.
    length: usize,
}

impl Write for Writer<'_, '_> {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let room = MAX_BYTES.saturating_sub(self.length);
        self.length += part.len();
        self.f.write_str(&part[..part.floor_char_boundary(room)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_is_cut_between_characters_and_its_length_is_told() {
        let exact = "é".repeat(MAX_BYTES / 2);
        assert_eq!(Shortened(&exact).to_string(), exact);
        let long = format_args!("a{exact}: {exact}").to_string();
        let shown = Shortened(format_args!("a{exact}: {exact}")).to_string();
        let (start, length) = shown.split_once('…').unwrap();
        assert_eq!(start, &long[..MAX_BYTES - 1]);
        assert_eq!(length, format!(" ({} bytes)", long.len()));
    }
}
