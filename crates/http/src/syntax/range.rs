//! Byte ranges (RFC 9110, 14): applies the `Range` field to a length.

use std::ops::Range;

/// Maximum number of ranges in a request. With more, the whole file is sent.
pub const MAX_RANGES: usize = 64;

/// Result of applying a `Range` field to a representation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ranges {
    /// The field is malformed or has too many ranges. It is ignored and the whole representation is
    /// sent (RFC 9110, 14.2).
    Ignored,
    /// No range overlaps the representation: 416.
    Unsatisfiable,
    /// Parts to send: not empty, each within the representation, without overlap, in the order of
    /// the request unless some had to be merged.
    Parts(Vec<Range<u64>>),
}

/// Parses the value of a `Range` field for a representation of `length` bytes.
///
/// Positions beyond 64 bits are clamped to the largest number. Overlapping ranges are merged: no
/// byte is sent twice, and the response is never longer than the representation plus [`MAX_RANGES`]
/// part heads.
pub fn parse_range(value: &[u8], length: u64) -> Ranges {
    let Some(list) = strip_unit(value) else { return Ranges::Ignored };
    let mut parts = Vec::new();
    let mut specs = 0;
    for spec in list.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
        // A list may have empty elements (RFC 9110, 5.6.1).
        if spec.is_empty() {
            continue;
        }
        specs += 1;
        if specs > MAX_RANGES {
            return Ranges::Ignored;
        }
        match parse_spec(spec, length) {
            Spec::Malformed => return Ranges::Ignored,
            Spec::Outside => {}
            Spec::Part(part) => parts.push(part),
        }
    }
    match (specs, parts.is_empty()) {
        (0, _) => Ranges::Ignored,
        // A suffix of an empty representation is satisfiable, but Content-Range cannot express it.
        (_, true) if length == 0 && has_suffix(list) => Ranges::Ignored,
        (_, true) => Ranges::Unsatisfiable,
        (_, false) => Ranges::Parts(merge(parts)),
    }
}

enum Spec {
    Malformed,
    Outside,
    Part(Range<u64>),
}

/// Removes the unit `bytes` and `=`; unit names are case-insensitive.
fn strip_unit(value: &[u8]) -> Option<&[u8]> {
    let value = value.trim_ascii();
    let equals = memchr::memchr(b'=', value)?;
    let (unit, list) = value.split_at_checked(equals)?;
    unit.eq_ignore_ascii_case(b"bytes").then(|| list.get(1..).unwrap_or_default())
}

fn parse_spec(spec: &[u8], length: u64) -> Spec {
    let Some(dash) = memchr::memchr(b'-', spec) else { return Spec::Malformed };
    // The dash is within `spec`, and so are both parts.
    let (first, last) = (&spec[..dash], &spec[dash + 1..]);
    match (first.is_empty(), last.is_empty()) {
        (true, true) => Spec::Malformed,
        (true, false) => match parse_position(last) {
            None => Spec::Malformed,
            Some(0) => Spec::Outside,
            Some(_) if length == 0 => Spec::Outside,
            Some(suffix) => Spec::Part(length.saturating_sub(suffix)..length),
        },
        (false, open) => {
            let last = if open { Some(u64::MAX) } else { parse_position(last) };
            match (parse_position(first), last) {
                (Some(first), Some(last)) if last < first => Spec::Malformed,
                (Some(first), Some(_)) if first >= length => Spec::Outside,
                (Some(first), Some(last)) => Spec::Part(first..last.saturating_add(1).min(length)),
                _ => Spec::Malformed,
            }
        }
    }
}

/// Parses decimal digits; a number beyond 64 bits becomes the largest one.
fn parse_position(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, byte| match byte {
        b'0'..=b'9' => Some(number.saturating_mul(10).saturating_add(u64::from(byte - b'0'))),
        _ => None,
    })
}

/// Returns true if the list has a suffix range with a length other than zero.
fn has_suffix(list: &[u8]) -> bool {
    list.split(|byte| *byte == b',')
        .filter_map(|spec| spec.trim_ascii().strip_prefix(b"-"))
        .any(|suffix| parse_position(suffix).is_some_and(|suffix| suffix > 0))
}

/// Merges ranges that overlap; if none do, the order stays unchanged.
fn merge(parts: Vec<Range<u64>>) -> Vec<Range<u64>> {
    let mut sorted = parts.clone();
    sorted.sort_by_key(|part| part.start);
    let mut merged: Vec<Range<u64>> = Vec::with_capacity(sorted.len());
    for part in sorted {
        match merged.last_mut() {
            Some(last) if part.start < last.end => last.end = last.end.max(part.end),
            _ => merged.push(part),
        }
    }
    if merged.len() == parts.len() { parts } else { merged }
}

#[cfg(test)]
mod tests;
