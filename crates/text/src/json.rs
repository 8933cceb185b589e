//! Text in JSON.

use std::fmt::Write;

/// Appends a text as the inside of a string (RFC 8259, 7). All control characters are escaped,
/// those of Latin-1 as well, since terminals obey them.
pub fn escape(text: &str, out: &mut String) {
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            _ if character.is_control() => {
                // Writing to a string does not fail.
                let _ = write!(out, "\\u{:04x}", u32::from(character));
            }
            _ => out.push(character),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        let mut out = String::new();
        escape("a \"b\" \\ é\n\t\r\u{1b}\u{7f}\u{9b}\u{0}", &mut out);
        assert_eq!(out, r#"a \"b\" \\ é\n\t\u000d\u001b\u007f\u009b\u0000"#);
    }
}
