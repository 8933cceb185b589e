//! Request targets: the path is checked, decoded once and normalised, so that file systems and
//! routes cannot read it in two ways.
//!
//! A pure function of the target, for all protocol versions. Where the RFCs leave a choice it
//! follows nginx: `%2F` separates segments like `/`, empty segments are removed, bytes from 0x80
//! are kept, and a fragment is cut off ([`head`](crate::h1::head) refuses it if the reading is
//! strict). In contrast to nginx, `..` above the root is refused.

use std::ops::Range;

use howdah_text::hex;

/// A target in origin form, split into path and query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Decoded and normalised path.
    pub path: Path,
    /// Range of the query within the target; empty if there is none.
    pub query: Range<usize>,
}

/// A path that starts with `/` and has no `.` or `..` segment, no empty segment except the last,
/// and no NUL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Path {
    /// Length of the start of the target that is the path, unchanged.
    AsSent(usize),
    /// Path after decoding and normalising.
    Decoded(Vec<u8>),
}

/// Reason to refuse a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetError {
    /// The target does not start with `/`.
    Form,
    /// The target has a control byte or a space.
    Byte,
    /// The path has `%` without two hexadecimal digits, or `%00`.
    Escape,
    /// `..` leads above the root.
    AboveRoot,
}

impl TargetError {
    /// Returns the text for the log.
    pub fn reason(self) -> &'static str {
        match self {
            TargetError::Form => "the target is neither a path nor an http URI",
            TargetError::Byte => "a byte that a target must not contain",
            TargetError::Escape => "a malformed percent escape in the path",
            TargetError::AboveRoot => "the path leads above the root",
        }
    }
}

impl Target {
    /// Parses a target in origin form (RFC 9112, 3.2.1).
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

    /// Returns the path. `target` is the target that was parsed.
    pub fn path<'a>(&'a self, target: &'a [u8]) -> &'a [u8] {
        match &self.path {
            Path::AsSent(end) => target.get(..*end).unwrap_or_default(),
            Path::Decoded(path) => path,
        }
    }
}

/// Returns true if a path needs neither decoding nor normalising. Returns false for all segments
/// that start with a dot, which costs time only.
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
    // `out` has whole segments, each with the slash after it; at `segment` starts the current one.
    let mut out = Vec::with_capacity(path.len());
    out.push(b'/');
    let mut segment = 1;
    let mut rest = path.get(1..).unwrap_or_default().iter().copied();
    let digit = |rest: &mut dyn Iterator<Item = u8>| rest.next().and_then(hex::digit);
    while let Some(byte) = rest.next() {
        let byte = match byte {
            b'%' => match (digit(&mut rest), digit(&mut rest)) {
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

/// Handles the end of a segment: removes it if it is empty, `.` or `..`, in the last case also the
/// segment before it. Returns true if it removed anything.
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

#[cfg(test)]
mod tests;
