//! Entity tags (RFC 9110, 8.8.3): those of files, and those that requests name.

use bytes::Bytes;
use howdah_http::encoding::Coding;

use super::resolve::Meta;

/// Returns the entity tag of a stored file. The tag is strong: `"<seconds>.<nanoseconds>-<size>"`, the
/// time of the last modification and the length in hexadecimal. `coding` is that of a precompressed
/// sibling, whose own time and size are followed by `-br`, `-zstd` or `-gzip`.
pub(super) fn etag(meta: &Meta, coding: Coding) -> Bytes {
    let dash = if coding == Coding::Identity { "" } else { "-" };
    let Meta { modified, modified_nanos, size, .. } = meta;
    format!("\"{modified:x}.{modified_nanos:x}-{size:x}{dash}{}\"", coding.name()).into()
}

/// An entity tag of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntityTag<'a> {
    /// Marked with `W/`.
    pub weak: bool,
    /// The opaque tag, with its quotes.
    pub opaque: &'a [u8],
}

impl EntityTag<'_> {
    /// Strong comparison (RFC 9110, 8.8.3.2) with a strong tag.
    pub fn matches_strongly(self, etag: &[u8]) -> bool {
        !self.weak && self.opaque == etag
    }

    /// Weak comparison with a strong tag.
    pub fn matches_weakly(self, etag: &[u8]) -> bool {
        self.opaque == etag
    }
}

/// The tags of a comma-separated list. What is not well formed ends the list: a precondition is
/// never met by a guess.
pub fn parse_entity_tags(list: &[u8]) -> EntityTags<'_> {
    EntityTags { rest: list }
}

/// Iterator of [`parse_entity_tags`].
#[derive(Debug, Clone)]
pub struct EntityTags<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for EntityTags<'a> {
    type Item = EntityTag<'a>;

    fn next(&mut self) -> Option<EntityTag<'a>> {
        while let [b' ' | b'\t' | b',', rest @ ..] = self.rest {
            self.rest = rest;
        }
        let list = std::mem::take(&mut self.rest);
        let (weak, quoted) = match list.strip_prefix(b"W/") {
            Some(quoted) => (true, quoted),
            None => (false, list),
        };
        let length = memchr::memchr(b'"', quoted.strip_prefix(b"\"")?)?;
        // The two quotes are outside of what was counted.
        let (opaque, rest) = quoted.split_at_checked(length + 2)?;
        if opaque.iter().any(|byte| *byte <= b' ' || *byte == 0x7F) {
            return None;
        }
        let rest = rest.trim_ascii_start();
        if !(rest.is_empty() || rest.starts_with(b",")) {
            return None;
        }
        self.rest = rest;
        Some(EntityTag { weak, opaque })
    }
}
