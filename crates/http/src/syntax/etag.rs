//! Entity tags of requests (RFC 9110, 8.8.3).

/// An entity tag of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntityTag<'a> {
    /// The tag has the prefix `W/`.
    pub weak: bool,
    /// Opaque tag, with its quotes.
    pub opaque: &'a [u8],
}

impl EntityTag<'_> {
    /// Compares strongly with a strong tag (RFC 9110, 8.8.3.2).
    pub fn matches_strongly(self, etag: &[u8]) -> bool {
        !self.weak && self.opaque == etag
    }

    /// Compares weakly with a strong tag (RFC 9110, 8.8.3.2).
    pub fn matches_weakly(self, etag: &[u8]) -> bool {
        self.opaque == etag
    }
}

/// Parses the tags of a comma-separated list. The list ends at the first malformed element: a
/// precondition is never met by a guess.
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
        // `length` does not include the two quotes.
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
