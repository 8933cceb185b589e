//! Shell patterns, as `-fnmatch` and `-strmatch` use them: `*`, `?`, `[a-z]`, backslash.

/// Returns true if a text matches. With `is_path`, wildcards do not match a slash.
pub(super) fn matches(pattern: &[u8], text: &[u8], is_path: bool, ignores_case: bool) -> bool {
    let fold = |byte: u8| if ignores_case { byte.to_ascii_lowercase() } else { byte };
    let (mut at, mut position) = (0, 0);
    // Behind the last star, and where the text that it matches ends.
    let mut star: Option<(usize, usize)> = None;
    loop {
        let is_wild = text.get(position).is_some_and(|byte| !is_path || *byte != b'/');
        let step = match pattern.get(at) {
            None if position == text.len() => return true,
            None => None,
            Some(b'*') => {
                at += 1;
                star = Some((at, position));
                continue;
            }
            Some(b'?') => is_wild.then_some(1),
            Some(b'[') => match class(&pattern[at..], text.get(position).copied(), &fold) {
                Some((length, is_match)) => (is_match && is_wild).then_some(length),
                None => (text.get(position) == Some(&b'[')).then_some(1),
            },
            Some(byte) => {
                let (byte, length) = match (byte, pattern.get(at + 1)) {
                    (b'\\', Some(escaped)) => (escaped, 2),
                    _ => (byte, 1),
                };
                let is_same = text.get(position).is_some_and(|other| fold(*other) == fold(*byte));
                is_same.then_some(length)
            }
        };
        if let Some(length) = step {
            at += length;
            position += 1;
            continue;
        }
        let Some((after, end)) = star else { return false };
        if text.get(end).is_none_or(|byte| is_path && *byte == b'/') {
            return false;
        }
        star = Some((after, end + 1));
        (at, position) = (after, end + 1);
    }
}

/// Reads `[…]`: its length, and whether a byte is in it. `None` without a closing bracket.
fn class(pattern: &[u8], byte: Option<u8>, fold: &impl Fn(u8) -> u8) -> Option<(usize, bool)> {
    let is_negated = matches!(pattern.get(1), Some(b'!' | b'^'));
    let first = 1 + usize::from(is_negated);
    let mut at = first;
    let mut is_match = false;
    loop {
        let mut low = *pattern.get(at)?;
        if low == b']' && at > first {
            break;
        }
        if low == b'\\' && at + 1 < pattern.len() {
            at += 1;
            low = pattern[at];
        }
        at += 1;
        let mut high = low;
        if pattern.get(at) == Some(&b'-') && pattern.get(at + 1).is_some_and(|byte| *byte != b']') {
            high = pattern[at + 1];
            at += 2;
        }
        if let Some(byte) = byte {
            is_match |=
                (low..=high).contains(&byte) || (fold(low)..=fold(high)).contains(&fold(byte));
        }
    }
    Some((at + 1, byte.is_some() && is_match != is_negated))
}
