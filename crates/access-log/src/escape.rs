//! Escapes a value in place, at the end of a line.

use howdah_text::hex;

/// Escapes the value that begins at `start` for a line of text, as nginx does: control bytes, bytes
/// beyond ASCII and backslashes become `\xXX`, and so do quotation marks if `quotes` is true.
pub fn text(line: &mut Vec<u8>, start: usize, quotes: bool) {
    let unsafe_byte =
        |byte: u8| !matches!(byte, b' '..=b'~') || byte == b'\\' || (quotes && byte == b'"');
    let Some(value) = take_unsafe(line, start, unsafe_byte) else { return };
    for byte in value {
        if unsafe_byte(byte) { put_hex(line, b"\\x", byte) } else { line.push(byte) }
    }
}

/// Escapes the value that begins at `start` for a string of JSON (RFC 8259, 7). DEL and the control
/// characters beyond ASCII are escaped too, since terminals obey them. Bytes that are not UTF-8
/// become `\xXX`, with the backslash escaped.
pub fn json(line: &mut Vec<u8>, start: usize) {
    let unsafe_byte = |byte: u8| !matches!(byte, b' '..=b'~') || matches!(byte, b'"' | b'\\');
    let Some(value) = take_unsafe(line, start, unsafe_byte) else { return };
    for chunk in value.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '"' | '\\' => line.extend_from_slice(&[b'\\', character as u8]),
                // Below 0xA0, so it fits a byte.
                character if character.is_control() => put_hex(line, b"\\u00", character as u8),
                character => {
                    line.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                }
            }
        }
        chunk.invalid().iter().for_each(|byte| put_hex(line, b"\\\\x", *byte));
    }
}

/// Removes the value that begins at `start` from the line and returns it, if a byte of it must be
/// escaped.
fn take_unsafe(
    line: &mut Vec<u8>,
    start: usize,
    unsafe_byte: impl Fn(u8) -> bool,
) -> Option<Vec<u8>> {
    let value = line.get(start..)?;
    value.iter().any(|byte| unsafe_byte(*byte)).then(|| line.split_off(start))
}

fn put_hex(line: &mut Vec<u8>, lead: &[u8], byte: u8) {
    line.extend_from_slice(lead);
    line.extend_from_slice(&hex::lower_digits(byte));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn as_text(value: &[u8], quotes: bool) -> String {
        let mut line = [b"\n\"", value].concat();
        text(&mut line, 2, quotes);
        String::from_utf8(line).unwrap()
    }

    fn as_json(value: &[u8]) -> String {
        let mut line = [b"\n\"", value].concat();
        json(&mut line, 2);
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn a_value_cannot_forge_a_line_or_drive_a_terminal() {
        assert_eq!(
            as_text(b"a\r\nb\x1b[2J\x7f\xff\\x", true),
            "\n\"a\\x0d\\x0ab\\x1b[2J\\x7f\\xff\\x5cx"
        );
        assert_eq!(as_json(b"a\n\x1b\x7f\xc2\x9b"), "\n\"a\\u000a\\u001b\\u007f\\u009b");
    }

    #[test]
    fn quotation_marks_are_escaped_where_a_client_could_end_a_field_with_them() {
        assert_eq!(as_text(b"\" 200 0", true), "\n\"\\x22 200 0");
        assert_eq!(as_text(b"\"etag\"", false), "\n\"\"etag\"");
        assert_eq!(as_json(b"\"\\"), "\n\"\\\"\\\\");
    }

    #[test]
    fn json_keeps_text_and_shows_other_bytes() {
        assert_eq!(as_json("Ю₽".as_bytes()), "\n\"Ю₽");
        assert_eq!(as_json(b"a\xffb\xe2\x82"), "\n\"a\\\\xffb\\\\xe2\\\\x82");
    }

    proptest! {
        #[test]
        fn an_escaped_value_is_printable_and_of_one_line(value: Vec<u8>) {
            let line = as_text(&value, true);
            prop_assert!(line[2..].bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'"'));
        }

        #[test]
        fn a_string_of_json_is_one(value: Vec<u8>) {
            let line = as_json(&value);
            let string = format!("{}\"", &line[1..]);
            let document = howdah_config::json::parse(format!("[{string}]").as_bytes());
            prop_assert!(document.is_ok(), "{string}");
            prop_assert!(!string.chars().any(char::is_control));
        }
    }
}
