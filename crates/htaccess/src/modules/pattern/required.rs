//! Bytes that a text must have for a regular expression to match it: a search for them is cheaper
//! than a match.

/// Returns bytes that each text has that a regular expression matches: the longest run of plain
/// characters outside of groups. Anything unusual gives no bytes.
pub(super) fn required(pattern: &[u8]) -> Vec<u8> {
    let (mut best, mut run) = (Vec::new(), Vec::new());
    let mut depth = 0_usize;
    let mut bytes = pattern.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        let literal = match byte {
            b'\\' => match bytes.next() {
                Some(b'Q' | b'E') | None => return Vec::new(),
                Some(escaped) if !escaped.is_ascii_alphanumeric() => Some(escaped),
                Some(b'd' | b'w' | b's' | b'D' | b'W' | b'S' | b'b' | b'B') => None,
                Some(_) => return Vec::new(),
            },
            b'(' => {
                depth += 1;
                if bytes.peek() == Some(&b'?') {
                    bytes.next();
                    if bytes.peek() != Some(&b':') {
                        return Vec::new();
                    }
                }
                None
            }
            b')' => {
                depth = depth.saturating_sub(1);
                None
            }
            b'|' if depth == 0 => return Vec::new(),
            b'[' | b'#' => return Vec::new(),
            b'?' | b'*' | b'{' => {
                run.pop();
                if byte == b'{' {
                    return Vec::new();
                }
                None
            }
            b'.' | b'^' | b'$' | b'|' | b'+' => None,
            _ => Some(byte),
        };
        match literal {
            Some(literal) if depth == 0 => run.push(literal),
            _ => {
                if run.len() > best.len() {
                    best.clone_from(&run);
                }
                run.clear();
            }
        }
    }
    if run.len() > best.len() { run } else { best }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::regex::Regex;

    #[test]
    fn required_bytes_are_found() {
        assert_eq!(required(br".+\.ph(?:ar|p|tml)$"), b".ph");
        assert_eq!(required(br"^\.ht"), b".ht");
        assert_eq!(required(br"a|b"), b"");
        assert_eq!(required(br"(?i)abc"), b"");
        assert_eq!(required(br"abc?d"), b"ab");
        assert_eq!(required(br"\.(css|js)$"), b".");
        assert_eq!(required(br"[abc]x"), b"");
    }

    proptest! {
        #[test]
        fn required_bytes_do_not_change_a_match(
            pattern in "[ab.*+?()|\\\\^$]{0,10}",
            subject in "[ab.]{0,8}",
        ) {
            let (pattern, subject) = (pattern.as_bytes(), subject.as_bytes());
            if let Ok(regex) = Regex::new(pattern, false)
                && regex.is_match(subject).unwrap_or(false)
            {
                prop_assert!(memchr::memmem::find(subject, &required(pattern)).is_some());
            }
        }
    }
}
