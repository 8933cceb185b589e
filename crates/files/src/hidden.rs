//! Names of files that are never sent, whatever their content.
//!
//! Both rules read only names, never the disk. They apply to the names in the request's path and,
//! if the path has symbolic links, also to those in the resolved path:
//!
//! 1. **Dot names.** A path with a segment that starts with a dot is hidden: `.git`, `.env`,
//!    `.htaccess`, `.user.ini`. The exception is a first segment of exactly `.well-known`
//!    (RFC 8615).
//! 2. **PHP source and its copies.** A name that contains `.php`, `.pht` or `.phar` is hidden,
//!    because PHP gives these endings to its source (`.php`, `.php5`, `.phps`, `.phtml`,
//!    `.phar`) and editors and hands append to them (`.php~`, `.php.bak`, `.php.swp`, `.php.`,
//!    `#x.php#`). A name whose last extension is that of a page or a picture is no such copy:
//!    `index.php.html` from a mirrored site is sent.
//!
//! 3. **Further endings of scripts** that the configuration has for an application
//!    (`limit_extensions`), and copies of scripts: a file that may run is never sent.
//!
//! Names are compared in a folded form: some file systems find `index.php` under `INDEX.PHP`, under
//! a name with invisible characters in it, or under its full-width look-alike. Folding only ever
//! hides more. `howdah_config::ScriptExtensions` alone decides which files run as scripts, on the
//! exact bytes.

use std::borrow::Cow;

/// Returns true if a segment of the path starts with a dot and is not a leading `.well-known`.
pub fn has_dot_segment(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/')
        .filter(|segment| !segment.is_empty())
        .enumerate()
        .any(|(place, segment)| is_dot_name(segment) && !(place == 0 && segment == b".well-known"))
}

/// Returns true if a segment of a resolved path starts with a dot. `.well-known` is allowed
/// anywhere in it: sites often share the directory of ACME challenges.
pub fn is_hidden_segment(segment: &[u8]) -> bool {
    is_dot_name(segment) && segment != b".well-known"
}

/// Returns true if the name contains an extension of PHP source and does not end in one of
/// `PAGE_EXTENSIONS`.
pub fn is_php_source(name: &[u8]) -> bool {
    let folded = fold(name);
    let marked = [&b".php"[..], b".pht", b".phar"]
        .iter()
        .any(|marker| memchr::memmem::find(&folded, marker).is_some());
    marked && !PAGE_EXTENSIONS.iter().any(|extension| has_extension(&folded, extension))
}

/// Returns true if the name is that of a script or of a copy of one: it ends with one of these
/// endings, or has one in it that no letter or digit follows and does not end in one of
/// `PAGE_EXTENSIONS`.
pub fn is_source_of(endings: &[String], name: &[u8]) -> bool {
    if endings.is_empty() {
        return false;
    }
    let folded = fold(name);
    let is_page = PAGE_EXTENSIONS.iter().any(|extension| has_extension(&folded, extension));
    endings.iter().any(|ending| {
        let ending = ending.to_ascii_lowercase();
        memchr::memmem::find_iter(&folded, &ending).any(|at| match folded.get(at + ending.len()) {
            None => true,
            Some(next) => !next.is_ascii_alphanumeric() && !is_page,
        })
    })
}

fn is_dot_name(segment: &[u8]) -> bool {
    match segment.first() {
        Some(b'.') => true,
        Some(byte) if byte.is_ascii() => false,
        _ => fold(segment).first() == Some(&b'.'),
    }
}

fn has_extension(name: &[u8], extension: &[u8]) -> bool {
    name.strip_suffix(extension).is_some_and(|stem| stem.ends_with(b"."))
}

/// Folds a name as a lenient file system may: ASCII in lower case, compatibility forms of ASCII
/// characters replaced by them (Unicode's NFKC, if it yields a single ASCII character), invisible
/// characters (Default_Ignorable_Code_Point) left out. Every other character becomes the byte 0xFF,
/// which occurs in no marker.
fn fold(name: &[u8]) -> Cow<'_, [u8]> {
    if name.iter().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase()) {
        return Cow::Borrowed(name);
    }
    let mut folded = Vec::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        for character in chunk.valid().chars().filter(|c| !is_ignorable(*c)) {
            folded.push(ascii_form(character).map_or(0xFF, |byte| byte.to_ascii_lowercase()));
        }
        if !chunk.invalid().is_empty() {
            folded.push(0xFF);
        }
    }
    Cow::Owned(folded)
}

/// Returns the ASCII character that NFKC normalisation or case folding maps a character to.
fn ascii_form(character: char) -> Option<u8> {
    let code = u32::from(character);
    let letter = |offset: u32, first: u8| u8::try_from(offset).ok().map(|offset| first + offset);
    match code {
        0..=0x7F => u8::try_from(code).ok(),
        // Full width forms, in ASCII's order.
        0xFF01..=0xFF5E => letter(code - 0xFF01, b'!'),
        // One dot leader, small full stop.
        0x2024 | 0xFE52 => Some(b'.'),
        // Circled and squared letters.
        0x24B6..=0x24CF => letter(code - 0x24B6, b'A'),
        0x24D0..=0x24E9 => letter(code - 0x24D0, b'a'),
        0x1F130..=0x1F149 => letter(code - 0x1F130, b'A'),
        // Mathematical alphabets: 26 capitals, then 26 small letters, thirteen times.
        0x1D400..=0x1D6A3 => match (code - 0x1D400) % 52 {
            capital @ 0..26 => letter(capital, b'A'),
            small => letter(small - 26, b'a'),
        },
        0x1D7CE..=0x1D7FF => letter((code - 0x1D7CE) % 10, b'0'),
        // Letterlike symbols, modifier letters, subscripts: only the letters of "php", "pht" and
        // "phar".
        0x210B..=0x210E | 0x02B0 | 0x1D34 | 0x2095 => Some(b'h'),
        0x2119 | 0x1D3E | 0x1D56 | 0x209A => Some(b'p'),
        0x1D40 | 0x1D57 | 0x209C => Some(b't'),
        0x00AA | 0x1D2C | 0x1D43 | 0x2090 => Some(b'a'),
        0x211B..=0x211D | 0x02B3 | 0x1D3F | 0x1D63 => Some(b'r'),
        _ => None,
    }
}

/// Returns true for characters of Unicode's Default_Ignorable_Code_Point.
fn is_ignorable(character: char) -> bool {
    matches!(
        u32::from(character),
        0xAD | 0x34F
            | 0x61C
            | 0x115F..=0x1160
            | 0x17B4..=0x17B5
            | 0x180B..=0x180F
            | 0x200B..=0x200F
            | 0x202A..=0x202E
            | 0x2060..=0x206F
            | 0x3164
            | 0xFE00..=0xFE0F
            | 0xFEFF
            | 0xFFA0
            | 0xFFF0..=0xFFF8
            | 0x1BCA0..=0x1BCA3
            | 0x1D173..=0x1D17A
            | 0xE0000..=0xE0FFF
    )
}

/// Last extensions that neither editors nor backup tools give to a copy of a script.
const PAGE_EXTENSIONS: [&[u8]; 19] = [
    b"html", b"htm", b"xhtml", b"css", b"js", b"mjs", b"json", b"xml", b"rss", b"png", b"jpg",
    b"jpeg", b"gif", b"webp", b"avif", b"svg", b"ico", b"pdf", b"woff2",
];

#[cfg(test)]
mod tests;
