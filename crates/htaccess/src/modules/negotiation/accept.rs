//! `Accept` and its like.

use crate::record::Record;
use crate::support::{atoi, is_space, skip_space};

/// Type that Apache gives to scripts in a negotiation.
pub(super) const SCRIPT_TYPE: &[u8] = b"application/x-httpd-cgi";

/// Element of an `Accept` header field, in lower case.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub name: Vec<u8>,
    pub quality: f32,
    pub level: f32,
    pub charset: Vec<u8>,
}

/// The types, encodings, charsets and languages that a client accepts; `None` without the header
/// field.
#[derive(Debug)]
pub(super) struct Accepted {
    pub types: Option<Vec<Entry>>,
    /// True if a type has a quality: Apache takes the others' qualities literally then.
    pub has_quality: bool,
    pub encodings: Option<Vec<Entry>>,
    pub charsets: Option<Vec<Entry>>,
    pub languages: Option<Vec<Entry>>,
}

impl Accepted {
    pub fn of(record: &Record) -> Accepted {
        let of = |name: &[u8]| record.headers_in.get(name).map(entries);
        let types = of(b"Accept");
        let has_quality = types.iter().flatten().any(|entry| entry.quality < 1.0);
        Accepted {
            types,
            has_quality,
            encodings: of(b"Accept-Encoding"),
            charsets: of(b"Accept-Charset"),
            languages: of(b"Accept-Language"),
        }
    }

    /// Accepts everything without `Accept`, and scripts if no other type is accepted or if they are
    /// preferred.
    pub fn add_defaults(&mut self, prefers_scripts: bool, uses_rvsa: bool) {
        let entry = |name: &[u8], quality| Entry {
            name: name.to_vec(),
            quality,
            level: 0.0,
            charset: Vec::new(),
        };
        let types = self.types.get_or_insert_with(|| vec![entry(b"*/*", 1.0)]);
        let quality = match (uses_rvsa, prefers_scripts) {
            (true, _) => 0.0,
            (false, true) => 2.0,
            (false, false) => 0.001,
        };
        types.push(entry(SCRIPT_TYPE, quality));
    }
}

/// Reads all elements.
pub(super) fn entries(line: &[u8]) -> Vec<Entry> {
    let mut rest = line;
    let mut all = Vec::new();
    while !rest.is_empty() {
        all.push(entry(&mut rest));
    }
    all
}

/// Takes an element and its parameters.
pub(super) fn entry(line: &mut &[u8]) -> Entry {
    let name = token(line, false).to_ascii_lowercase();
    let level = match name.as_slice() {
        b"text/html" | b"text/x-server-parsed-html" => 2.0,
        b"text/x-server-parsed-html3" => 3.0,
        _ => 0.0,
    };
    let mut entry = Entry { name, quality: 1.0, level, charset: Vec::new() };
    while let Some(rest) = line.strip_prefix(b";") {
        *line = rest;
        let parameter = token(line, true);
        let end = parameter.iter().position(|&byte| is_space(byte) || byte == b'=');
        let Some(end) = end else { continue };
        let (name, value) = parameter.split_at(end);
        let start =
            value.iter().position(|&byte| !is_space(byte) && byte != b'=').unwrap_or(value.len());
        let value = value.get(start..).unwrap_or_default();
        let (value, is_end): (&[u8], fn(u8) -> bool) = match value.strip_prefix(b"\"") {
            Some(value) => (value, |byte| matches!(byte, b'\n' | b'\r' | b'"')),
            None => (value, is_space),
        };
        let end = value.iter().position(|&byte| is_end(byte)).unwrap_or(value.len());
        let value = value.get(..end).unwrap_or_default().to_ascii_lowercase();
        match name.to_ascii_lowercase().as_slice() {
            b"q" | b"qs" => entry.quality = quality(&value),
            b"level" => entry.level = atoi(&value) as f32,
            b"charset" => entry.charset = value,
            _ => {}
        }
    }
    *line = line.strip_prefix(b",").unwrap_or(line);
    entry
}

/// Reads a list of languages.
pub(super) fn languages(mut line: &[u8]) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    while !line.is_empty() {
        all.push(token(&mut line, false).to_ascii_lowercase());
        if let [b',' | b';', rest @ ..] = line {
            line = rest;
        }
    }
    all
}

/// Takes a token up to a comma or a semicolon outside of quotes, as Apache's `ap_get_token`.
pub(crate) fn token<'a>(line: &mut &'a [u8], accepts_space: bool) -> &'a [u8] {
    let text: &'a [u8] = skip_space(line);
    let (mut end, mut is_quoted) = (0, false);
    while let Some(&byte) = text.get(end) {
        let is_stop = matches!(byte, b';' | b',') || (!accepts_space && is_space(byte));
        if is_stop && !is_quoted {
            break;
        }
        is_quoted ^= byte == b'"';
        end += 1;
    }
    let (token, rest) = text.split_at(end);
    *line = skip_space(rest);
    token
}

/// Reads a quality of up to three decimals; anything but a number below one is one.
fn quality(text: &[u8]) -> f32 {
    let text = skip_space(text);
    let decimals = match text {
        [] => return 1.0,
        [b'.', decimals @ ..] | [b'0', b'.', decimals @ ..] => decimals,
        [b'0', ..] => return 0.0,
        _ => return 1.0,
    };
    let digits = decimals.iter().take_while(|byte| byte.is_ascii_digit()).zip([100u16, 10, 1]);
    f32::from(digits.map(|(digit, factor)| u16::from(digit - b'0') * factor).sum::<u16>()) / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_have_qualities_levels_and_charsets() {
        for (line, name, quality, level, charset) in [
            ("text/html", "text/html", 1.0, 2.0, ""),
            ("Text/HTML; level=3; q=0.25", "text/html", 0.25, 3.0, ""),
            ("a/b;charset=\"UTF-8\";Q=.5", "a/b", 0.5, 0.0, "utf-8"),
            ("a/b;q=0", "a/b", 0.0, 0.0, ""),
            ("a/b;q=x", "a/b", 1.0, 0.0, ""),
            ("a/b;q=0.1239", "a/b", 0.123, 0.0, ""),
            ("", "", 1.0, 0.0, ""),
        ] {
            let found = entry(&mut line.as_bytes());
            let expected = Entry { name: name.into(), quality, level, charset: charset.into() };
            assert_eq!(found, expected, "{line}");
        }
    }

    #[test]
    fn lists_end_even_if_they_are_malformed() {
        for (line, count) in
            [("a, b", 2), (",,", 2), (";;", 1), ("a b", 2), ("\"a,b", 1), ("a;\"", 1)]
        {
            assert_eq!(entries(line.as_bytes()).len(), count, "{line}");
        }
    }
}
