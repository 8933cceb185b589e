//! Comparison of names: with numbers in them, and with patterns.

use std::cmp::Ordering;

use howdah_text::wildcard::{self, Rules};

use super::turns::let_others_run;
use crate::support::is_space;
use crate::world::World;

/// Most characters of a pattern's classes that are looked at.
const MAX_PATTERN_BYTES: usize = 4096;

/// Compares names by the numbers in them, as Apache's `apr_strnatcmp`.
pub(super) fn natural(a: &[u8], b: &[u8], ignore_case: bool) -> Ordering {
    let (mut a, mut b) = (a, b);
    loop {
        let skip = |text: &mut &[u8]| {
            while let Some((&byte, rest)) = text.split_first()
                && is_space(byte)
            {
                *text = rest;
            }
        };
        skip(&mut a);
        skip(&mut b);
        let (first, second) = match (a.first(), b.first()) {
            (None, None) => return Ordering::Equal,
            (first, second) => (first.copied().unwrap_or(0), second.copied().unwrap_or(0)),
        };
        if first.is_ascii_digit() && second.is_ascii_digit() {
            let is_fraction = first == b'0' || second == b'0';
            let result = if is_fraction { fractions(a, b) } else { numbers(a, b) };
            if result != Ordering::Equal {
                return result;
            }
        }
        let fold = |byte: u8| if ignore_case { byte.to_ascii_uppercase() } else { byte };
        // Bytes are signed there.
        match (fold(first) as i8).cmp(&(fold(second) as i8)) {
            Ordering::Equal => {
                a = a.get(1..).unwrap_or_default();
                b = b.get(1..).unwrap_or_default();
            }
            result => return result,
        }
    }
}

/// The longer number is the larger one; of the same length the first different digit counts.
fn numbers(a: &[u8], b: &[u8]) -> Ordering {
    let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (first, second) = (digits(a), digits(b));
    first.cmp(&second).then_with(|| a.get(..first).cmp(&b.get(..second)))
}

/// Digits are compared from the left.
fn fractions(a: &[u8], b: &[u8]) -> Ordering {
    let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    a.get(..digits(a)).cmp(&b.get(..digits(b)))
}

/// Sorts by an order that need not be a total one (the standard library's sort may panic then).
/// Other requests have their turn meanwhile.
pub(super) async fn sort<T>(
    items: Vec<T>,
    order: &dyn Fn(&T, &T) -> Ordering,
    world: &dyn World,
) -> Vec<T> {
    let mut runs: Vec<Vec<T>> = items.into_iter().map(|item| vec![item]).collect();
    while runs.len() > 1 {
        let mut merged = Vec::with_capacity(runs.len().div_ceil(2));
        let mut pairs = runs.into_iter();
        while let Some(left) = pairs.next() {
            merged.push(merge(left, pairs.next().unwrap_or_default(), order, world).await);
        }
        runs = merged;
    }
    runs.pop().unwrap_or_default()
}

/// Number of comparisons after which other requests may have their turn.
const COMPARISONS_BETWEEN_PAUSES: usize = 64;

async fn merge<T>(
    left: Vec<T>,
    right: Vec<T>,
    order: &dyn Fn(&T, &T) -> Ordering,
    world: &dyn World,
) -> Vec<T> {
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    loop {
        let takes_left = match (left.peek(), right.peek()) {
            (Some(first), Some(second)) => order(first, second) != Ordering::Greater,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => break,
        };
        merged.extend(if takes_left { left.next() } else { right.next() });
        if merged.len().is_multiple_of(COMPARISONS_BETWEEN_PAUSES) {
            let_others_run(world).await;
        }
    }
    let_others_run(world).await;
    merged
}

/// Compares a name with a pattern. With `is_shell` a backslash is an ordinary byte, and a dot at the
/// start must be in the pattern.
pub(super) fn matches(pattern: &[u8], name: &[u8], is_shell: bool) -> bool {
    let is_hidden = |text: &[u8]| text.first() == Some(&b'.');
    let rules = Rules { has_classes: true, has_escapes: !is_shell, ..Rules::default() };
    pattern.len() <= MAX_PATTERN_BYTES
        && !(is_shell && is_hidden(name) && !is_hidden(pattern))
        && wildcard::matches(pattern, name, rules)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_are_numbers() {
        for (a, b, expected) in [
            ("a2", "a10", Ordering::Less),
            ("a10", "a10", Ordering::Equal),
            ("1.01", "1.1", Ordering::Less),
            ("a 1", "a1", Ordering::Equal),
            ("B", "a", Ordering::Less),
            ("a", "", Ordering::Greater),
        ] {
            assert_eq!(natural(a.as_bytes(), b.as_bytes(), false), expected, "{a} {b}");
        }
    }

    #[test]
    fn patterns_are_those_of_fnmatch() {
        for (pattern, name, is_shell, expected) in [
            ("*.txt", "a.txt", false, true),
            ("*.txt", ".txt", true, false),
            (".*", ".txt", true, true),
            ("[a-c]?", "bz", false, true),
            ("\\*", "*", false, true),
            ("\\*", "*", true, false),
        ] {
            assert_eq!(
                matches(pattern.as_bytes(), name.as_bytes(), is_shell),
                expected,
                "{pattern} {name}"
            );
        }
    }
}
