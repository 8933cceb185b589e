//! Size of a pattern after its compilation, estimated before it.

/// Bytes of a class of characters.
const CLASS: usize = 34;
/// Bytes of the two ends of a group.
const GROUP: usize = 8;

/// Estimates the bytes of a compiled pattern: PCRE2 repeats a group as often as its bounds say.
pub(super) fn estimate(pattern: &[u8]) -> usize {
    // Sizes of the parts before the open groups.
    let mut outer = Vec::new();
    let (mut size, mut last) = (0_usize, 0_usize);
    let mut at = 0;
    while let Some(&byte) = pattern.get(at) {
        at += 1;
        match byte {
            b'\\' => {
                at += 1;
                last = 4;
            }
            b'[' => {
                let start = at + 1 + usize::from(pattern.get(at) == Some(&b'^'));
                let mut end = start;
                while pattern.get(end).is_some_and(|byte| *byte != b']') {
                    end += 1 + usize::from(pattern.get(end) == Some(&b'\\'));
                }
                at = end + 1;
                last = CLASS;
            }
            b'(' => {
                outer.push(std::mem::take(&mut size));
                last = GROUP;
            }
            b')' => {
                let Some(before) = outer.pop() else { continue };
                last = std::mem::replace(&mut size, before);
            }
            b'{' => {
                if let Some(count) = bound(pattern.get(at..).unwrap_or_default()) {
                    // Characters and classes are not repeated.
                    let copies =
                        if pattern.get(at.wrapping_sub(2)) == Some(&b')') { count } else { 1 };
                    size = size.saturating_add(last.saturating_mul(copies.saturating_sub(1)));
                }
                continue;
            }
            _ => last = 2,
        }
        size = size.saturating_add(last);
    }
    outer.into_iter().fold(size, usize::saturating_add)
}

/// Returns the larger bound of `{2,9}` behind the brace.
fn bound(text: &[u8]) -> Option<usize> {
    let end = memchr::memchr(b'}', text)?;
    let numbers = text[..end].split(|byte| *byte == b',');
    let number = |digits: &[u8]| {
        let digits = str::from_utf8(digits).ok()?.trim();
        if digits.is_empty() { Some(0) } else { digits.parse().ok() }
    };
    numbers.map(number).try_fold(1, |most: usize, number| Some(most.max(number?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_count_as_often_as_they_are_repeated() {
        assert!(estimate(b"^badbot[0-9]{1,200}$") < 100);
        assert!(estimate(b"(ab|c){1,60}") > 60 * 10);
        assert!(estimate(b"((ab|c){1,60}){1,25}") > 25 * 60 * 10);
        assert!(estimate(b"((a){ , 99}){50}") > 50 * 99 * 10);
        assert!(estimate(b"[])(]({{{)))[^]{9}\\") < 200);
        assert!(estimate("((((a{1,999}){1,999}){1,999}){1,999}){1,999}".as_bytes()) > 1 << 30);
    }
}
