//! An object of the file: a stored response with its key, as bytes.
//!
//! ```text
//! id of the object, length of the description, length of the content, checksum of the content,
//! checksum of all of these and of the description; the description; the content
//! ```

use std::sync::atomic::AtomicU64;

use bytes::Bytes;
use howdah_http::message::FieldBlock;

use crate::entry::{Charge, Content, Copies, Entry, Terms};
use crate::freshness::Source;
use crate::place::{MAX_TAGS, Place, Subject};
use crate::space::layout::{Reader, put_optional, put_text, sum};
use crate::vary::Selection;

/// Bytes before the description.
pub const PREFIX: usize = 36;

/// Greatest length of a description.
const MAX_DESCRIPTION: usize = 1 << 20;

/// Sources of a lifetime, by their numbers.
const SOURCES: [Source; 6] = [
    Source::Targeted,
    Source::SharedMaxAge,
    Source::MaxAge,
    Source::Expires,
    Source::Configured,
    Source::Heuristic,
];

/// The part of an object before the description.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefix {
    /// Number of the object.
    pub id: u64,
    /// Length of the description.
    pub description: usize,
    /// Length of the content.
    pub content: u64,
    /// Checksum of the content.
    pub content_sum: u64,
    sum: u64,
}

impl Prefix {
    /// Reads the prefix. `None` if the bytes are no prefix.
    pub fn decode(bytes: &[u8]) -> Option<Prefix> {
        let mut reader = Reader(bytes);
        let id = reader.u64()?;
        let description = usize::try_from(reader.u32()?).ok()?;
        let (content, content_sum, sum) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let is_possible = description <= MAX_DESCRIPTION;
        is_possible.then_some(Prefix { id, description, content, content_sum, sum })
    }

    /// Returns true if it belongs to this description.
    pub fn is_of(&self, bytes: &[u8], description: &[u8]) -> bool {
        bytes.get(..PREFIX - 8).is_some_and(|start| sum(&[start, description]) == self.sum)
    }

    /// Returns the number of bytes before the content.
    pub fn head(&self) -> u64 {
        (PREFIX + self.description) as u64
    }

    /// Returns the number of bytes of the object; `None` if no file can have it.
    pub fn total(&self) -> Option<u64> {
        self.head().checked_add(self.content)
    }
}

/// Returns the bytes before the content of an object. `None` if the description is too long.
pub fn encode(
    id: u64,
    key: &[u8],
    owner: &[u8],
    entry: &Entry,
    content_sum: u64,
) -> Option<Vec<u8>> {
    let description = describe(key, owner, entry)?;
    let mut bytes = id.to_le_bytes().to_vec();
    bytes.extend_from_slice(&u32::try_from(description.len()).ok()?.to_le_bytes());
    bytes.extend_from_slice(&entry.body.len().to_le_bytes());
    bytes.extend_from_slice(&content_sum.to_le_bytes());
    let sum = sum(&[&bytes, &description]);
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes.extend_from_slice(&description);
    Some(bytes)
}

fn describe(key: &[u8], owner: &[u8], entry: &Entry) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(1024);
    let (terms, place) = (&entry.terms, &entry.place);
    let mut fits = put_text(&mut bytes, key) && put_text(&mut bytes, owner);
    bytes.extend_from_slice(&entry.status.to_le_bytes());
    fits &= put_optional(&mut bytes, entry.reason.as_deref());
    fits &= put_text(&mut bytes, entry.fields.as_bytes());
    fits &= put_optional(&mut bytes, entry.etag.as_deref());
    fits &= put_optional(&mut bytes, entry.last_modified.as_deref());
    let source = terms.source.and_then(|source| SOURCES.iter().position(|one| *one == source));
    let source = source.map_or(u8::MAX, |at| u8::try_from(at).unwrap_or(u8::MAX));
    bytes.extend_from_slice(&[source, u8::from(terms.no_cache), u8::from(terms.may_be_stale)]);
    for number in [
        terms.initial_age,
        terms.received,
        terms.lifetime,
        terms.stale_while_revalidate,
        terms.stale_if_error,
        entry.epoch,
    ] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes.extend_from_slice(&u32::try_from(entry.selection.len()).ok()?.to_le_bytes());
    for (name, value) in &entry.selection {
        fits &= put_text(&mut bytes, name) && put_optional(&mut bytes, value.as_deref());
    }
    fits &= put_text(&mut bytes, place.host())
        && put_text(&mut bytes, place.path())
        && put_text(&mut bytes, &place.query);
    bytes.extend_from_slice(&u32::try_from(place.tags.len()).ok()?.to_le_bytes());
    place.tags.iter().for_each(|tag| bytes.extend_from_slice(&tag.number().to_le_bytes()));
    (fits && bytes.len() <= MAX_DESCRIPTION).then_some(bytes)
}

/// An object as it is read: key, name of the owner, response.
#[derive(Debug)]
pub struct Stored {
    /// The key.
    pub key: Bytes,
    /// The owner.
    pub owner: Bytes,
    /// The response, with this content.
    pub entry: Entry,
}

/// Reads a description. `None` if it is malformed.
pub fn decode(description: &[u8], content: Content) -> Option<Stored> {
    let mut reader = Reader(description);
    let bytes = Bytes::copy_from_slice;
    let (key, owner) = (bytes(reader.text()?), bytes(reader.text()?));
    let status = reader.u16().filter(|status| (200..600).contains(status))?;
    let reason = reader.optional()?.map(bytes);
    let fields = fields(reader.text()?)?;
    let (etag, last_modified) = (reader.optional()?.map(bytes), reader.optional()?.map(bytes));
    let source = match reader.u8()? {
        u8::MAX => None,
        at => Some(*SOURCES.get(usize::from(at))?),
    };
    let (no_cache, may_be_stale) = (reader.u8()? != 0, reader.u8()? != 0);
    let terms = Terms {
        initial_age: reader.u64()?,
        received: reader.u64()?,
        lifetime: reader.u64()?,
        source,
        no_cache,
        stale_while_revalidate: reader.u64()?,
        stale_if_error: reader.u64()?,
        may_be_stale,
    };
    let epoch = reader.u64()?;
    let mut selection = Selection::new();
    for _ in 0..reader.u32()? {
        selection.push((reader.text()?.into(), reader.optional()?.map(Into::into)));
    }
    let (host, path, query) = (reader.text()?, reader.text()?, reader.text()?);
    // A tag for all queries comes on top.
    let count = usize::try_from(reader.u32()?).ok().filter(|count| *count <= MAX_TAGS + 1)?;
    let tags: Option<Box<[Subject]>> =
        (0..count).map(|_| reader.u64().map(Subject::of_number)).collect();
    let place = Place::restored(host, path, query, tags?);
    let entry = Entry {
        status,
        reason,
        fields,
        body: content,
        terms,
        etag,
        last_modified,
        selection,
        place,
        epoch,
        checked: AtomicU64::new(epoch),
        uses: AtomicU64::new(0),
        copies: Copies::default(),
        charge: Charge::default(),
    };
    reader.0.is_empty().then_some(Stored { key, owner, entry })
}

/// Returns fields, if each line is one: the bytes of the file may add no line to a response.
fn fields(lines: &[u8]) -> Option<FieldBlock> {
    let is_field = |line: &[u8]| {
        line.strip_suffix(b"\r\n").is_some_and(|line| {
            let has_name = memchr::memchr(b':', line).is_some_and(|at| at > 0);
            has_name && !line.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0))
        })
    };
    let all_are = lines.split_inclusive(|byte| *byte == b'\n').all(is_field);
    all_are.then(|| FieldBlock::from_lines(Bytes::copy_from_slice(lines)))
}

/// Returns the hash of the request fields that select a response.
pub fn variant_of(entry: &Entry) -> u64 {
    let mut bytes = Vec::new();
    for (name, value) in &entry.selection {
        put_text(&mut bytes, name);
        put_optional(&mut bytes, value.as_deref());
    }
    sum(&[&bytes])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::entry_for;

    fn object() -> (Vec<u8>, Entry) {
        let fields = [("ETag", "\"a\""), ("Vary", "Foo, Bar"), ("Cache-Tag", "x,y"), ("A", "b")];
        let entry = entry_for("/a?b=c", &[("Foo", "1")], &fields, "content", 5);
        (encode(9, b"key", b"owner", &entry, 77).unwrap(), entry)
    }

    #[test]
    fn what_is_read_is_what_was_written() {
        let (bytes, entry) = object();
        let prefix = Prefix::decode(&bytes).unwrap();
        let description = &bytes[PREFIX..];
        assert!(prefix.is_of(&bytes, description));
        assert_eq!((prefix.id, prefix.content, prefix.content_sum), (9, 7, 77));
        let read = decode(description, entry.body.clone()).unwrap();
        assert_eq!((&*read.key, &*read.owner), (&b"key"[..], &b"owner"[..]));
        let expected = format!("{entry:?}");
        assert_eq!(format!("{:?}", read.entry), expected);
        assert_eq!(variant_of(&read.entry), variant_of(&entry));
    }

    #[test]
    fn lines_that_are_no_fields_are_refused() {
        for lines in [
            "a",
            "a: b",
            "a: b\n",
            ": b\r\n",
            "a: b\r\n\r\nc: d\r\n",
            "a: b\nc: d\r\n",
            "a: \r\r\n",
        ] {
            assert_eq!(fields(lines.as_bytes()), None, "{lines:?}");
        }
        assert!(fields(b"a: b\r\nc: \r\n").is_some() && fields(b"").is_some());
    }

    proptest! {
        #[test]
        fn a_change_or_cut_is_noticed(at: prop::sample::Index, change in 1u8..) {
            let (mut bytes, _) = object();
            let at = at.index(bytes.len());
            let is_whole = |bytes: &[u8]| {
                let found = Prefix::decode(bytes);
                let description = bytes.get(PREFIX..).unwrap_or_default();
                found.is_some_and(|prefix| {
                    prefix.description == description.len() && prefix.is_of(bytes, description)
                })
            };
            prop_assert!(is_whole(&bytes) && !is_whole(&bytes[..at]));
            bytes[at] ^= change;
            prop_assert!(!is_whole(&bytes));
        }

        #[test]
        fn any_description_is_read_without_harm(bytes: Vec<u8>, cut: prop::sample::Index) {
            let _ = decode(&bytes, Content::default());
            let (object, _) = object();
            let description = &object[PREFIX..];
            let cut = &description[..cut.index(description.len())];
            prop_assert!(decode(cut, Content::default()).is_none());
        }
    }
}
