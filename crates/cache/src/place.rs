//! The names by which an entry can be purged: its URL, its host, and the tags that the application
//! gives it.

use std::hash::{DefaultHasher, Hash, Hasher};

use bytes::Bytes;
use howdah_http::message::{FieldBlock, Request};
use howdah_http::target::Target;

use crate::control::values;

/// Maximum number of tags of a response.
pub const MAX_TAGS: usize = 1024;

/// Fields with tags, and whether commas (rather than spaces only) separate them.
const TAG_FIELDS: [(&str, bool); 6] = [
    ("cache-tag", true),
    ("cache-tags", true),
    ("surrogate-key", false),
    ("xkey", true),
    ("x-litespeed-tag", true),
    ("x-cache-tags", true),
];

/// A subject of a purge, as a hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Subject(u64);

impl Subject {
    /// Every entry.
    pub fn all() -> Subject {
        Subject::of(0, [])
    }

    /// Entries of a host, in lower case without port.
    pub fn host(host: &[u8]) -> Subject {
        Subject::of(1, [host])
    }

    /// Entries of a URL: host, decoded path, query.
    pub fn url(host: &[u8], path: &[u8], query: &[u8]) -> Subject {
        Subject::of(2, [host, path, query])
    }

    /// Entries of a host and decoded path whose response does not depend on all of the query.
    pub fn path(host: &[u8], path: &[u8]) -> Subject {
        Subject::of(5, [host, path])
    }

    /// Entries with a tag.
    pub fn tag(tag: &[u8]) -> Subject {
        Subject::of(3, [tag])
    }

    /// Entries of a host with a tag.
    pub fn tag_of_host(host: &[u8], tag: Subject) -> Subject {
        Subject::of(4, [host, &tag.0.to_le_bytes()])
    }

    /// Returns the hash.
    pub(crate) fn number(self) -> u64 {
        self.0
    }

    /// Returns the subject with a hash.
    pub(crate) fn of_number(number: u64) -> Subject {
        Subject(number)
    }

    fn of<const N: usize>(kind: u8, parts: [&[u8]; N]) -> Subject {
        let mut hasher = DefaultHasher::new();
        kind.hash(&mut hasher);
        parts.iter().for_each(|part| part.hash(&mut hasher));
        Subject(hasher.finish())
    }
}

/// URL and tags of an entry.
#[derive(Debug, Clone)]
pub struct Place {
    /// Host and decoded path.
    location: Bytes,
    /// Length of the host.
    host_len: usize,
    /// Query.
    pub query: Bytes,
    /// The URL as a subject of purges.
    pub url: Subject,
    /// Tags as subjects of purges.
    pub tags: Box<[Subject]>,
}

impl Place {
    /// Returns the place of a request, without tags: that of the URL that the client has sent,
    /// before changes by routes.
    pub fn of(request: &Request) -> Place {
        let target = &request.target;
        let (path, query) = match Target::parse(target) {
            Ok(parsed) => {
                let query = target.get(parsed.query.clone()).unwrap_or_default();
                (Bytes::copy_from_slice(parsed.path(target)), Bytes::copy_from_slice(query))
            }
            Err(_) => (request.path.clone(), request.query.clone()),
        };
        let url = Subject::url(&request.host, &path, &query);
        let location = [&request.host[..], &path].concat().into();
        Place { location, host_len: request.host.len(), query, url, tags: Box::default() }
    }

    /// Returns the place of a response that was stored on the disk.
    pub(crate) fn restored(host: &[u8], path: &[u8], query: &[u8], tags: Box<[Subject]>) -> Place {
        let url = Subject::url(host, path, query);
        let location = [host, path].concat().into();
        let query = Bytes::copy_from_slice(query);
        Place { location, host_len: host.len(), query, url, tags }
    }

    /// Adds the tags of a response. `None` if there are too many to be kept.
    pub fn with_tags(mut self, fields: &FieldBlock) -> Option<Place> {
        self.tags = tags(fields)?.into_iter().map(|tag| Subject::tag(&tag)).collect();
        Some(self)
    }

    /// Returns the subject of all queries of the path.
    pub fn path_subject(&self) -> Subject {
        Subject::path(self.host(), self.path())
    }

    /// Lets a purge of the path with any query concern the entry.
    pub fn for_any_query(mut self) -> Place {
        let path = self.path_subject();
        self.tags = self.tags.iter().copied().chain([path]).collect();
        self
    }

    /// Returns the host.
    pub fn host(&self) -> &[u8] {
        self.location.get(..self.host_len).unwrap_or_default()
    }

    /// Returns the decoded path.
    pub fn path(&self) -> &[u8] {
        self.location.get(self.host_len..).unwrap_or_default()
    }

    /// Returns the memory of the place in bytes.
    pub fn weight(&self) -> usize {
        self.location.len() + self.query.len() + size_of_val(&*self.tags)
    }
}

/// Returns the tags of a response or of a request to purge, each once. `None` if there are more
/// than [`MAX_TAGS`].
pub fn tags(fields: &FieldBlock) -> Option<Vec<Vec<u8>>> {
    let mut tags = Vec::new();
    for (name, has_commas) in TAG_FIELDS {
        for value in values(fields, name) {
            split_tags(value, has_commas, &mut tags);
        }
    }
    tags.sort_unstable();
    tags.dedup();
    (tags.len() <= MAX_TAGS).then_some(tags)
}

/// Splits a list of tags. A tag of LiteSpeed may say for whom it is: `public:tag`.
pub fn split_tags(value: &[u8], has_commas: bool, tags: &mut Vec<Vec<u8>>) {
    let is_separator = |byte: &u8| match byte {
        b' ' | b'\t' => true,
        b',' => has_commas,
        _ => false,
    };
    let found = value.split(is_separator).filter(|tag| !tag.is_empty());
    tags.extend(found.map(|tag| tag.strip_prefix(b"public:").unwrap_or(tag).to_vec()));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn tags_of_all_fields_are_found_once() {
        let mut fields = FieldBlock::default();
        fields.push("Cache-Tag", "post-1,post-2, post-1");
        fields.push("Surrogate-Key", "a b,c");
        fields.push("xkey", "x, y");
        fields.push("xkey", "z");
        fields.push("X-LiteSpeed-Tag", "public:l,m");
        let expected = ["a", "b,c", "l", "m", "post-1", "post-2", "x", "y", "z"];
        let found = tags(&fields).unwrap();
        assert_eq!(found, expected.map(|tag| tag.as_bytes().to_vec()));
    }

    #[test]
    fn too_many_tags_are_no_tags() {
        let many: Vec<_> = (0..=MAX_TAGS).map(|number| format!("t{number}")).collect();
        let mut fields = FieldBlock::default();
        fields.push("Cache-Tag", many.join(","));
        assert_eq!(tags(&fields), None);
    }

    #[test]
    fn subjects_of_different_kinds_differ() {
        let subjects = [
            Subject::all(),
            Subject::host(b"a"),
            Subject::tag(b"a"),
            Subject::url(b"a", b"", b""),
            Subject::url(b"", b"a", b""),
            Subject::tag_of_host(b"a", Subject::tag(b"a")),
        ];
        for (index, subject) in subjects.iter().enumerate() {
            assert!(!subjects[..index].contains(subject), "{index}");
        }
    }

    proptest! {
        #[test]
        fn tags_have_no_separators(value: Vec<u8>) {
            let mut found = Vec::new();
            split_tags(&value, true, &mut found);
            for tag in found {
                prop_assert!(!tag.iter().any(|byte| b" \t,".contains(byte)));
            }
        }
    }
}
