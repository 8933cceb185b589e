//! Strings of a document in messages.

use std::fmt::{self, Write};

/// Maximum number of characters that are shown.
const MAX_CHARACTERS: usize = 100;

/// Formats a string of a document for a message: on one line, without control characters,
/// shortened.
pub struct Shown<'a>(pub &'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, character) in self.0.chars().enumerate() {
            if index == MAX_CHARACTERS {
                return f.write_char('…');
            }
            if character.is_control() {
                write!(f, "{}", character.escape_default())?;
            } else {
                f.write_char(character)?;
            }
        }
        Ok(())
    }
}
