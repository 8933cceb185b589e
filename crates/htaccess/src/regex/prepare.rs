//! Turns a pattern of a `.htaccess` into the text that PCRE2 compiles.

use super::invalid::{InvalidPattern, MAX_PATTERN_BYTES};

/// Text for PCRE2, without the limits in front of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Prepared {
    pub text: String,
    /// True if a match can begin at the start of the subject only.
    pub is_anchored: bool,
}

/// Removes settings that would change the limits, and translates `$`.
///
/// PCRE2 reads settings at the start of a pattern, such as `(*LIMIT_MATCH=10)`; of two, the second
/// holds. So the pattern's own limits are removed, and `(*NO_JIT)` with them.
pub(super) fn prepare(pattern: &[u8]) -> Result<Prepared, InvalidPattern> {
    if pattern.len() > MAX_PATTERN_BYTES {
        let reason = format!("longer than {MAX_PATTERN_BYTES} bytes");
        return Err(InvalidPattern { reason });
    }
    let (settings, rest) = split_settings(pattern);
    let mut text = Vec::with_capacity(pattern.len() + 16);
    text.extend_from_slice(settings.as_bytes());
    // Names may repeat.
    if memchr::memmem::find(rest, b"(?").is_some() {
        text.extend_from_slice(b"(?J)");
    }
    translate_dollars(rest, &mut text);
    let is_anchored = settings.is_empty() && is_anchored(rest);
    Ok(Prepared { text: into_text(text), is_anchored })
}

/// Settings that a pattern may have at its start.
const SETTINGS: [&str; 17] = [
    "UTF",
    "UCP",
    "NOTEMPTY",
    "NOTEMPTY_ATSTART",
    "NO_AUTO_POSSESS",
    "NO_DOTSTAR_ANCHOR",
    "NO_START_OPT",
    "CASELESS_RESTRICT",
    "TURKISH_CASING",
    "CR",
    "LF",
    "CRLF",
    "ANY",
    "NUL",
    "ANYCRLF",
    "BSR_ANYCRLF",
    "BSR_UNICODE",
];

/// Separates the settings at the start, without those on limits and on JIT.
fn split_settings(pattern: &[u8]) -> (String, &[u8]) {
    let mut kept = String::new();
    let mut rest = pattern;
    while let Some(inner) = rest.strip_prefix(b"(*") {
        let Some(end) = memchr::memchr(b')', inner) else { break };
        let Ok(name) = str::from_utf8(&inner[..end]) else { break };
        let is_limit = name.starts_with("LIMIT_") || name == "NO_JIT";
        if !is_limit && !SETTINGS.contains(&name) {
            break;
        }
        if !is_limit {
            kept.push_str("(*");
            kept.push_str(name);
            kept.push(')');
        }
        rest = &inner[end + 1..];
    }
    (kept, rest)
}

/// Copies a pattern with `\z` for each `$`. PCRE2's `$` matches before a line break at the end as
/// well, Apache sets `PCRE2_DOLLAR_ENDONLY`. A pattern that may have modes in which `$` differs is
/// copied as it is.
fn translate_dollars(pattern: &[u8], text: &mut Vec<u8>) {
    if memchr::memchr(b'$', pattern).is_none() || has_modes(pattern) {
        return text.extend_from_slice(pattern);
    }
    let mut at = 0;
    let mut is_in_class = false;
    while let Some(&byte) = pattern.get(at) {
        let length = match byte {
            b'\\' if pattern.get(at + 1) == Some(&b'Q') => {
                let end = memchr::memmem::find(&pattern[at..], b"\\E");
                end.map_or(pattern.len() - at, |end| end + 2)
            }
            b'\\' => 2,
            b'[' if is_in_class => posix_class(&pattern[at..]),
            b'[' => {
                is_in_class = true;
                let negation = usize::from(pattern.get(at + 1) == Some(&b'^'));
                let bracket = usize::from(pattern.get(at + 1 + negation) == Some(&b']'));
                1 + negation + bracket
            }
            b']' => {
                is_in_class = false;
                1
            }
            b'$' if !is_in_class => {
                // A group, because `\z` takes no quantifier.
                let is_quantified = pattern.get(at + 1).is_some_and(|next| b"*+?{".contains(next));
                text.extend_from_slice(if is_quantified { b"(?:\\z)" } else { b"\\z" });
                at += 1;
                continue;
            }
            _ => 1,
        };
        let end = (at + length).min(pattern.len());
        text.extend_from_slice(&pattern[at..end]);
        at = end;
    }
}

/// Length of `[:alpha:]` and the like at the start of a text; 1 for a plain bracket.
fn posix_class(text: &[u8]) -> usize {
    let Some(&kind @ (b':' | b'.' | b'=')) = text.get(1) else { return 1 };
    let end = memchr::memmem::find(&text[2..], &[kind, b']']);
    let letters = |end: &usize| {
        text[2..2 + end].iter().all(|byte| byte.is_ascii_alphabetic() || *byte == b'^')
    };
    end.filter(letters).map_or(1, |end| end + 4)
}

/// Returns true if a pattern may have comments, the modes `m` or `x`, verbs or callouts.
fn has_modes(pattern: &[u8]) -> bool {
    if memchr::memmem::find(pattern, b"(*").is_some() {
        return true;
    }
    memchr::memmem::find_iter(pattern, b"(?").any(|at| {
        let rest = &pattern[at + 2..];
        let modes =
            rest.iter().take_while(|byte| byte.is_ascii_alphabetic() || b"^-".contains(byte));
        matches!(rest.first(), Some(b'#' | b'C')) || modes.clone().any(|mode| b"mx".contains(mode))
    })
}

/// Returns true if a pattern begins with `^` or `.*` (`.` matches line breaks), and has no
/// alternative outside of its groups.
fn is_anchored(pattern: &[u8]) -> bool {
    let is_start = match pattern {
        [b'^', b'*' | b'?' | b'{' | b'+', ..] => false,
        [b'^', ..] | [b'.', b'*', ..] => true,
        _ => false,
    };
    is_start && !has_modes(pattern) && !has_outer_alternative(pattern)
}

/// Returns true if a pattern may have an alternative outside of its groups.
fn has_outer_alternative(pattern: &[u8]) -> bool {
    if memchr::memchr(b'|', pattern).is_none() {
        return false;
    }
    // Brackets, escapes and quotations make counting ambiguous.
    if pattern.iter().any(|byte| b"[\\".contains(byte)) {
        return true;
    }
    let mut depth = 0usize;
    pattern.iter().any(|byte| {
        match byte {
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        *byte == b'|' && depth == 0
    })
}

/// Turns a pattern into UTF-8: PCRE2 reads bytes, but its crate takes a `str`.
fn into_text(pattern: Vec<u8>) -> String {
    match String::from_utf8(pattern) {
        Ok(text) => text,
        Err(error) => {
            let mut text = String::new();
            let mut is_escaped = false;
            for &byte in error.as_bytes() {
                if byte.is_ascii() {
                    text.push(char::from(byte))
                } else {
                    if is_escaped {
                        // A backslash before a byte that is not ASCII has no meaning.
                        text.pop();
                    }
                    text.push_str(&format!("\\x{{{byte:02x}}}"));
                }
                is_escaped = byte == b'\\' && !is_escaped;
            }
            text
        }
    }
}
