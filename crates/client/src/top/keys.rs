//! Keys and the mouse, as terminals send them.

/// A key, or an action of the mouse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Char(char),
    Enter,
    Escape,
    Backspace,
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    /// Ctrl-C or Ctrl-D.
    Interrupt,
    /// Ctrl-Z.
    Suspend,
    /// A click of the left button; column and row begin with 0.
    Click {
        column: usize,
        row: usize,
    },
    WheelUp,
    WheelDown,
}

/// Reads keys. Sequences that are unknown or cut are left out.
pub(super) fn parse(bytes: &[u8]) -> Vec<Key> {
    let text = String::from_utf8_lossy(bytes);
    let (mut rest, mut keys) = (&*text, Vec::new());
    while let Some(first) = rest.chars().next() {
        rest = rest.get(first.len_utf8()..).unwrap_or_default();
        let key = match first {
            '\x1b' => match rest.strip_prefix('[').or_else(|| rest.strip_prefix('O')) {
                Some(sequence) => {
                    let is_final = |c: char| matches!(c, '@'..='~');
                    let Some(end) = sequence.find(is_final) else { break };
                    let (parameters, last) = sequence.split_at(end);
                    rest = last.get(1..).unwrap_or_default();
                    match sequence_key(parameters, last.chars().next().unwrap_or_default()) {
                        Some(key) => key,
                        None => continue,
                    }
                }
                None => Key::Escape,
            },
            '\r' | '\n' => Key::Enter,
            '\x03' | '\x04' => Key::Interrupt,
            '\x1a' => Key::Suspend,
            '\x08' | '\x7f' => Key::Backspace,
            other if other.is_control() => continue,
            other => Key::Char(other),
        };
        keys.push(key);
    }
    keys
}

/// Returns the key of a control sequence (ECMA-48; xterm's mouse reports in SGR format).
fn sequence_key(parameters: &str, last: char) -> Option<Key> {
    Some(match (parameters, last) {
        (_, 'A') => Key::Up,
        (_, 'B') => Key::Down,
        (_, 'H') | ("1" | "7", '~') => Key::Home,
        (_, 'F') | ("4" | "8", '~') => Key::End,
        ("5", '~') => Key::PageUp,
        ("6", '~') => Key::PageDown,
        (report, 'M') => {
            let mut numbers = report.strip_prefix('<')?.split(';').map(str::parse::<usize>);
            let (button, column, row) =
                (numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?);
            match button {
                0 => Key::Click { column: column.checked_sub(1)?, row: row.checked_sub(1)? },
                64 => Key::WheelUp,
                65 => Key::WheelDown,
                _ => return None,
            }
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_the_mouse_are_read() {
        let click = Key::Click { column: 9, row: 4 };
        for (bytes, expected) in [
            (&b"c"[..], vec![Key::Char('c')]),
            (b"/a\xc3\xa9\x7f\r", {
                let word = [Key::Char('/'), Key::Char('a'), Key::Char('é')];
                [&word[..], &[Key::Backspace, Key::Enter]].concat()
            }),
            (b"\x1b", vec![Key::Escape]),
            (b"\x1b[A\x1bOB\x1b[5~\x1b[6~", {
                vec![Key::Up, Key::Down, Key::PageUp, Key::PageDown]
            }),
            (b"\x1b[H\x1b[4~", vec![Key::Home, Key::End]),
            (b"\x1b[<0;10;5M\x1b[<0;10;5m", vec![click]),
            (b"\x1b[<64;1;1M\x1b[<65;1;1M\x1b[<2;1;1M", vec![Key::WheelUp, Key::WheelDown]),
            (b"\x03\x1a\x00", vec![Key::Interrupt, Key::Suspend]),
            (b"\x1b[<0;0;0M\x1b[<0;99999999999999999999;1Mq", vec![Key::Char('q')]),
            (b"q\x1b[<0;1", vec![Key::Char('q')]),
        ] {
            assert_eq!(parse(bytes), expected, "{:?}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn no_byte_harms() {
        for first in 0..=255u8 {
            for second in 0..=255u8 {
                parse(&[0x1b, b'[', first, second]);
                parse(&[first, second]);
            }
        }
    }
}
