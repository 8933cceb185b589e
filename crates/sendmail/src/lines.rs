//! The text of a message as SMTP carries it (RFC 5321, 4.5.2).
//!
//! A mail server that takes a bare line feed, or a bare carriage return, for a line end would find
//! the end of the message at `<LF>.<LF>` in the middle of a text, and commands behind it. The text
//! therefore gets line ends of one form, and each line that begins with a dot another dot. NUL is
//! left out: some servers remove it, after they have looked for the end.

/// Maximum length of a line without its end, in bytes (RFC 5322, 2.1.1).
pub const MAX_LINE_BYTES: usize = 998;

/// Encodes a text piece by piece.
#[derive(Debug, Default)]
pub struct Encoder {
    /// Bytes of the line so far.
    column: usize,
    /// Carriage returns have come, which may be followed by a line feed.
    is_after_return: bool,
}

impl Encoder {
    /// Encodes a piece. A line that is too long is continued on the next one after a space, as
    /// Postfix does.
    pub fn encode(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        for &byte in piece {
            match byte {
                0 => {}
                b'\r' => self.is_after_return = true,
                b'\n' => self.end_line(out),
                byte => {
                    if self.is_after_return {
                        self.end_line(out);
                    }
                    if self.column + character_bytes(byte) > MAX_LINE_BYTES {
                        out.extend_from_slice(b"\r\n ");
                        self.column = 1;
                    }
                    if self.column == 0 && byte == b'.' {
                        out.push(b'.');
                    }
                    out.push(byte);
                    self.column += 1;
                }
            }
        }
    }

    /// Ends the text, and the message.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        if self.is_after_return || self.column > 0 {
            self.end_line(out);
        }
        out.extend_from_slice(b".\r\n");
    }

    fn end_line(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\r\n");
        self.column = 0;
        self.is_after_return = false;
    }
}

/// Returns the number of bytes of the character that begins with a byte: one of UTF-8 is not
/// divided.
fn character_bytes(first: u8) -> usize {
    match first {
        0xc0..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf7 => 4,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encode(text: &[u8]) -> Vec<u8> {
        let (mut encoder, mut out) = (Encoder::default(), Vec::new());
        encoder.encode(text, &mut out);
        encoder.finish(&mut out);
        out
    }

    #[test]
    fn line_ends_have_one_form_and_dots_are_doubled() {
        for (text, expected) in [
            (&b""[..], &b".\r\n"[..]),
            (b"a", b"a\r\n.\r\n"),
            (b"a\nb\r\nc\rd\r\r\ne", b"a\r\nb\r\nc\r\nd\r\ne\r\n.\r\n"),
            (b".\n..\n.a", b"..\r\n...\r\n..a\r\n.\r\n"),
            (b"a\n.\nMAIL FROM:<x>\n", b"a\r\n..\r\nMAIL FROM:<x>\r\n.\r\n"),
            (b"a\r.\rMAIL", b"a\r\n..\r\nMAIL\r\n.\r\n"),
            (b"a\r\n\0.\r\n", b"a\r\n..\r\n.\r\n"),
            (b"a\0\n", b"a\r\n.\r\n"),
            (b"\n\n", b"\r\n\r\n.\r\n"),
            (b"a\r", b"a\r\n.\r\n"),
        ] {
            assert_eq!(encode(text), expected, "{}", text.escape_ascii());
        }
    }

    #[test]
    fn long_lines_are_continued_between_characters() {
        assert_eq!(encode(&[b'x'; 998]), [&[b'x'; 998][..], b"\r\n.\r\n"].concat());
        let text = format!("{}ä{}", "x".repeat(997), "y".repeat(3000));
        let encoded = String::from_utf8(encode(text.as_bytes())).unwrap();
        let lines: Vec<_> = encoded.split("\r\n").collect();
        assert!(lines.iter().all(|line| line.len() <= MAX_LINE_BYTES));
        assert_eq!(lines[1].chars().take(3).collect::<String>(), " äy");
        assert!(lines[1..5].iter().all(|line| line.starts_with([' ', '.'])), "{lines:?}");
    }

    /// A server that ends the message at any line end that some server knows.
    fn lenient_lines(encoded: &[u8]) -> Vec<Vec<u8>> {
        encoded.split(|byte| matches!(byte, b'\r' | b'\n')).map(<[u8]>::to_vec).collect()
    }

    proptest! {
        #[test]
        fn no_text_ends_its_message(
            text in proptest::collection::vec(prop_oneof![
                Just(b'.'), Just(b'\r'), Just(b'\n'), Just(0), Just(b'a'), any::<u8>()
            ], 0..400),
            cut in 0usize..400,
        ) {
            let encoded = encode(&text);
            // In pieces as in one.
            let (mut encoder, mut pieces) = (Encoder::default(), Vec::new());
            let (first, second) = text.split_at(cut.min(text.len()));
            encoder.encode(first, &mut pieces);
            encoder.encode(second, &mut pieces);
            encoder.finish(&mut pieces);
            prop_assert_eq!(&pieces, &encoded);
            let body = encoded.strip_suffix(b".\r\n").unwrap();
            prop_assert!(body.is_empty() || body.ends_with(b"\r\n"));
            prop_assert!(!lenient_lines(body).iter().any(|line| line == b"."));
            prop_assert!(!body.contains(&0));
            for pair in body.windows(2) {
                prop_assert_eq!(pair[0] == b'\r', pair[1] == b'\n', "a bare line end");
            }
            prop_assert!(body.first() != Some(&b'\n'));
        }
    }
}
