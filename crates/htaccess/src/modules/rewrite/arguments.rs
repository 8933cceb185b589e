//! Arguments of `RewriteRule` and `RewriteCond`, which have a syntax of their own: a backslash
//! stays, and quotes cannot be escaped.

/// Two or three words.
pub(super) struct Words<'a> {
    pub first: &'a [u8],
    pub second: &'a [u8],
    pub third: Option<&'a [u8]>,
}

/// Divides a line; `None` if it has less than two words.
pub(super) fn words(line: &[u8]) -> Option<Words<'_>> {
    let (first, rest) = word(line)?;
    // The first word has to end before the line does.
    let rest = rest?;
    let (second, rest) = word(rest)?;
    let third = rest.map(skip_spaces).filter(|rest| !rest.is_empty());
    let third = third.and_then(word).map(|(third, _)| third);
    Some(Words { first, second, third })
}

/// Reads a word, and returns the rest behind its end; `None` for the rest at the end of the line.
fn word(line: &[u8]) -> Option<(&[u8], Option<&[u8]>)> {
    let line = skip_spaces(line);
    let (quote, text) = match line {
        [quote @ (b'"' | b'\''), text @ ..] => (Some(*quote), text),
        text => (None, text),
    };
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        let is_end = match quote {
            Some(quote) => byte == quote,
            None => is_space(byte),
        };
        if is_end {
            return Some((&text[..at], Some(&text[at + 1..])));
        }
        let is_escape = byte == b'\\' && text.get(at + 1).is_some_and(|next| is_space(*next));
        at += if is_escape { 2 } else { 1 };
    }
    Some((text, None))
}

fn skip_spaces(line: &[u8]) -> &[u8] {
    let spaces = line.iter().take_while(|byte| is_space(**byte)).count();
    &line[spaces..]
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | 11 | 12 | b'\r')
}

/// Calls a function with name and value of each flag in `[NC,R=301]`.
pub(super) fn each_flag<'a>(
    flags: &'a [u8],
    mut set: impl FnMut(&'a [u8], &'a [u8]) -> Result<(), String>,
) -> Result<(), String> {
    let inner = match flags {
        [b'[', inner @ .., b']'] => inner,
        _ => return Err("bad flag delimiters".to_owned()),
    };
    // A comma takes the bracket's place; the text after the last comma is a flag, unless only
    // spaces follow.
    for flag in inner.split(|byte| *byte == b',') {
        let flag = skip_spaces(flag);
        let spaces = flag.iter().rev().take_while(|byte| is_space(**byte)).count();
        let flag = &flag[..flag.len() - spaces];
        let (name, value) = match memchr::memchr(b'=', flag) {
            Some(at) => (&flag[..at], &flag[at + 1..]),
            None => (flag, [].as_slice()),
        };
        set(name, value)?;
    }
    Ok(())
}

/// Text of an error about an unknown flag.
pub(super) fn unknown_flag(name: &[u8]) -> String {
    format!("unknown flag '{}'", String::from_utf8_lossy(name))
}
