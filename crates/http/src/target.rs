//! A request target's path: checked, decoded once, and free of anything that a file system or a
//! route could read in two ways.
//!
//! A pure function of the target, shared by all protocol versions. It follows nginx where the
//! RFCs leave room: `%2F` separates segments like `/`, empty segments vanish, bytes from 0x80 up
//! stand for themselves, and a fragment is left out (that of a client has no business here, and
//! [`head`](super::head) sees to that). It is stricter in that it takes no path above the root.

use std::ops::Range;

/// A target in origin form, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The decoded and normalised path.
    pub path: Path,
    /// Where in the target the query is; empty if there is none.
    pub query: Range<usize>,
}

/// A path: starts with `/`, holds no `.` or `..` segment, no empty segment but perhaps the last,
/// and no NUL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Path {
    /// The first bytes of the target, which needed no change.
    AsSent(usize),
    /// What decoding or normalising made of it.
    Decoded(Vec<u8>),
}

/// Why a target is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetError {
    /// It does not start with `/`.
    Form,
    /// A control byte or a space.
    Byte,
    /// A `%` without two hexadecimal digits, or `%00`.
    Escape,
    /// `..` leads above the root.
    AboveRoot,
}

impl TargetError {
    /// What the log says about it.
    pub fn reason(self) -> &'static str {
        match self {
            TargetError::Form => "the target is no path and no http URI",
            TargetError::Byte => "a byte that no target may have",
            TargetError::Escape => "a malformed percent escape in the path",
            TargetError::AboveRoot => "the path leads above the root",
        }
    }
}

impl Target {
    /// Takes apart a target in origin form (RFC 9112, 3.2.1).
    pub fn parse(target: &[u8]) -> Result<Target, TargetError> {
        if target.first() != Some(&b'/') {
            return Err(TargetError::Form);
        }
        if target.iter().any(|byte| matches!(byte, 0..=b' ' | 0x7f)) {
            return Err(TargetError::Byte);
        }
        let fragment = memchr::memchr(b'#', target).unwrap_or(target.len());
        let target = &target[..fragment];
        let end = memchr::memchr(b'?', target).unwrap_or(target.len());
        let path = &target[..end];
        let path = if is_plain(path) { Path::AsSent(end) } else { Path::Decoded(normalise(path)?) };
        Ok(Target { path, query: (end + 1).min(target.len())..target.len() })
    }

    /// The path, given the target it was parsed from.
    pub fn path<'a>(&'a self, target: &'a [u8]) -> &'a [u8] {
        match &self.path {
            Path::AsSent(end) => target.get(..*end).unwrap_or_default(),
            Path::Decoded(path) => path,
        }
    }
}

/// Whether a path needs neither decoding nor normalising. A segment that merely starts with a
/// dot sends it the long way, which is no more than slower.
fn is_plain(path: &[u8]) -> bool {
    let mut previous = 0;
    path.iter().all(|&byte| {
        let plain = byte != b'%' && !(previous == b'/' && matches!(byte, b'/' | b'.'));
        previous = byte;
        plain
    })
}

/// Decodes a path that starts with `/` and resolves its segments (RFC 3986, 5.2.4).
fn normalise(path: &[u8]) -> Result<Vec<u8>, TargetError> {
    // `out` is whole segments, each with the slash after it, and from `segment` on the segment
    // that is being read.
    let mut out = Vec::with_capacity(path.len());
    out.push(b'/');
    let mut segment = 1;
    let mut rest = path.get(1..).unwrap_or_default().iter();
    while let Some(&byte) = rest.next() {
        let byte = match byte {
            b'%' => match (rest.next().and_then(digit), rest.next().and_then(digit)) {
                (Some(high), Some(low)) if (high, low) != (0, 0) => high << 4 | low,
                _ => return Err(TargetError::Escape),
            },
            byte => byte,
        };
        if byte != b'/' {
            out.push(byte);
        } else if !close_segment(&mut out, &mut segment)? {
            out.push(b'/');
            segment = out.len();
        }
    }
    close_segment(&mut out, &mut segment)?;
    Ok(out)
}

/// At the end of a segment: removes it if it is empty or `.`, and the one before it if it is
/// `..`. Returns whether it did.
fn close_segment(out: &mut Vec<u8>, segment: &mut usize) -> Result<bool, TargetError> {
    match out.get(*segment..).unwrap_or_default() {
        b"" | b"." => out.truncate(*segment),
        b".." => {
            let before = segment.checked_sub(1).and_then(|slash| out.get(..slash));
            let parent = before.and_then(|before| memchr::memrchr(b'/', before));
            *segment = parent.ok_or(TargetError::AboveRoot)? + 1;
            out.truncate(*segment);
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn digit(byte: &u8) -> Option<u8> {
    (*byte as char).to_digit(16).map(|digit| digit as u8)
}

#[cfg(test)]
#[path = "target_tests.rs"]
mod tests;
