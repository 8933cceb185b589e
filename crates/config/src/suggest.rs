//! The nearest known word to a mistyped one.

/// Maximum number of names that are compared: a document may have many, and several mistakes.
const MAX_COMPARED: usize = 2000;

/// Returns the nearest candidate, if at most a third of its letters differ.
pub(crate) fn nearest<'a>(
    found: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    // Bounds the cost: all keys are shorter.
    if found.len() > 64 {
        return None;
    }
    candidates
        .into_iter()
        .filter(|candidate| candidate.len() <= 64)
        .take(MAX_COMPARED)
        .map(|candidate| (distance(found.as_bytes(), candidate.as_bytes()), candidate))
        .filter(|(distance, candidate)| *distance <= candidate.len().max(3) / 3)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Returns the number of insertions, deletions, replacements and swaps of neighbours that turn one
/// word into the other (optimal string alignment), regardless of case.
fn distance(from: &[u8], to: &[u8]) -> usize {
    let mut before: Vec<usize> = vec![0; to.len() + 1];
    let mut last: Vec<usize> = (0..=to.len()).collect();
    let mut previous = None;
    for (row, a) in from.iter().map(u8::to_ascii_lowercase).enumerate() {
        let mut current = Vec::with_capacity(to.len() + 1);
        let mut left = row + 1;
        current.push(left);
        let mut previous_b = None;
        for (column, b) in to.iter().map(u8::to_ascii_lowercase).enumerate() {
            // `before` and `last` are as long as `to` plus one, and `column` is an index of `to`.
            let replaced = last[column] + usize::from(a != b);
            let mut cost = replaced.min(last[column + 1] + 1).min(left + 1);
            if previous == Some(b) && previous_b == Some(a) {
                // Both words have a byte before this one, so `column` is at least 1.
                cost = cost.min(before[column - 1] + 1);
            }
            current.push(cost);
            left = cost;
            previous_b = Some(b);
        }
        previous = Some(a);
        before = std::mem::replace(&mut last, current);
    }
    last.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_single_edits_and_swaps_of_neighbours() {
        for (from, to, expected) in [
            ("share", "share", 0),
            ("shaer", "share", 1),
            ("shar", "share", 1),
            ("", "abc", 3),
            ("Pass", "pass", 0),
        ] {
            assert_eq!(distance(from.as_bytes(), to.as_bytes()), expected, "{from} to {to}");
        }
    }

    #[test]
    fn names_the_nearest_and_nothing_far_away() {
        let known = ["pass", "return", "share", "proxy"];
        assert_eq!(nearest("retrun", known), Some("return"));
        assert_eq!(nearest("colour", known), None);
        assert_eq!(nearest(&"share".repeat(100), known), None);
    }
}
