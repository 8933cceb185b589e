//! The file of a store: where its parts are, its header, and its table.
//!
//! ```text
//! header   one page: version, size, the boot of the machine in which it was written
//! journal  two halves: purges, see `journal`
//! table    64 bytes for each chunk: the object that it belongs to
//! chunks   8 KiB each: only bytes of objects, so no content can pretend to be a part of the table
//! ```
//!
//! Everything that is read is untrusted: it may be cut, old, or from another program.

use std::hash::Hasher;

/// Bytes of a chunk.
pub const CHUNK: u64 = 8 << 10;

/// Bytes of a line of the table.
pub const LINE: u64 = 64;

/// Bytes of the header, and the alignment of all parts.
pub const PAGE: u64 = 4096;

/// Changes whenever another version could misread the file.
const VERSION: u32 = 1;

const MAGIC: [u8; 8] = *b"HOWDAHCA";

/// Places of the parts of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Size of the file in bytes.
    pub size: u64,
    /// Bytes of a half of the journal.
    pub journal: u64,
    /// Number of chunks.
    pub chunks: u32,
}

impl Geometry {
    /// Returns the parts of a file of at most `size` bytes.
    pub fn of(size: u64) -> Geometry {
        let journal = (size / 256).clamp(256 << 10, 4 << 20) / PAGE * PAGE;
        let rest = size.saturating_sub(2 * PAGE + 2 * journal);
        let chunks = u32::try_from(rest / (CHUNK + LINE)).unwrap_or(u32::MAX);
        Geometry { size, journal, chunks }
    }

    /// Returns the beginning of a half of the journal.
    pub fn half(&self, half: usize) -> u64 {
        PAGE + if half == 0 { 0 } else { self.journal }
    }

    /// Returns the place of a line of the table.
    pub fn line(&self, chunk: u32) -> u64 {
        PAGE + 2 * self.journal + u64::from(chunk) * LINE
    }

    /// Returns the place of a chunk.
    pub fn chunk(&self, chunk: u32) -> u64 {
        let table = self.line(self.chunks);
        table.div_ceil(PAGE) * PAGE + u64::from(chunk) * CHUNK
    }
}

/// The header of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Size of the file.
    pub size: u64,
    /// The boot of the machine in which it was last written to.
    pub boot: u64,
    /// The file was closed, and its whole content is on the disk: another boot may use it.
    pub is_closed: bool,
}

impl Header {
    /// Returns its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&u32::from(self.is_closed).to_le_bytes());
        bytes.extend_from_slice(&self.size.to_le_bytes());
        bytes.extend_from_slice(&self.boot.to_le_bytes());
        let sum = sum(&[&bytes]);
        bytes.extend_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads a header. `None` if it is not one of this version, or is damaged. The sum also tells
    /// whether hashes are computed as they were when the file was written.
    pub fn decode(bytes: &[u8]) -> Option<Header> {
        let (fields, rest) = bytes.split_at_checked(32)?;
        let mut reader = Reader(fields);
        let is_known = reader.take(8)? == MAGIC && reader.u32()? == VERSION;
        let is_closed = reader.u32()?;
        let (size, boot) = (reader.u64()?, reader.u64()?);
        let is_whole = Reader(rest).u64()? == sum(&[fields]);
        (is_known && is_whole && is_closed <= 1).then_some(Header {
            size,
            boot,
            is_closed: is_closed == 1,
        })
    }
}

/// A line of the table: the content of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line {
    /// Number of the object, never 0.
    pub id: u64,
    /// Index of the chunk in the object.
    pub index: u32,
    /// Number of chunks of the object.
    pub count: u32,
    /// Hash of its key.
    pub key: u128,
    /// Hash of the name of its owner.
    pub owner: u64,
    /// Number of purges before the request that it answers.
    pub epoch: u64,
    /// Hash of the fields that select it.
    pub variant: u64,
}

impl Line {
    /// Returns the bytes for a chunk.
    pub fn encode(&self, chunk: u32) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(LINE as usize);
        bytes.extend_from_slice(&self.id.to_le_bytes());
        bytes.extend_from_slice(&self.index.to_le_bytes());
        bytes.extend_from_slice(&self.count.to_le_bytes());
        bytes.extend_from_slice(&self.key.to_le_bytes());
        bytes.extend_from_slice(&self.owner.to_le_bytes());
        bytes.extend_from_slice(&self.epoch.to_le_bytes());
        bytes.extend_from_slice(&self.variant.to_le_bytes());
        let sum = sum(&[&chunk.to_le_bytes(), &bytes]);
        bytes.extend_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads the line of a chunk. `None` if the chunk is empty, or the line is damaged.
    pub fn decode(bytes: &[u8], chunk: u32) -> Option<Line> {
        let (fields, rest) = bytes.split_at_checked(56)?;
        let mut reader = Reader(fields);
        let line = Line {
            id: reader.u64()?,
            index: reader.u32()?,
            count: reader.u32()?,
            key: u128::from_le_bytes(reader.take(16)?.try_into().ok()?),
            owner: reader.u64()?,
            epoch: reader.u64()?,
            variant: reader.u64()?,
        };
        let is_whole = Reader(rest).u64()? == sum(&[&chunk.to_le_bytes(), fields]);
        (is_whole && line.id != 0 && line.index < line.count).then_some(line)
    }
}

/// Returns the checksum of bytes in parts.
pub fn sum(parts: &[&[u8]]) -> u64 {
    let mut hasher = Sum::default();
    parts.iter().for_each(|part| hasher.add(part));
    hasher.finish()
}

/// A checksum that is computed part by part.
#[derive(Debug, Default)]
pub struct Sum(std::hash::DefaultHasher);

impl Sum {
    /// Adds bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    /// Returns the checksum.
    pub fn finish(&self) -> u64 {
        self.0.finish()
    }
}

/// Returns the hash of a key. Two keys with one hash do no harm: the key itself is compared when an
/// object is read.
pub fn hash_of_key(key: &[u8]) -> u128 {
    u128::from(sum(&[b"a", key])) << 64 | u128::from(sum(&[b"b", key]))
}

/// Reads numbers and texts.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'b>(pub &'b [u8]);

impl<'b> Reader<'b> {
    /// Takes bytes.
    pub fn take(&mut self, count: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    /// Takes a number of one byte.
    pub fn u8(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    /// Takes a number of two bytes.
    pub fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.take(2)?.try_into().ok()?))
    }

    /// Takes a number of four bytes.
    pub fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    /// Takes a number of eight bytes.
    pub fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    /// Takes a text with its length before it.
    pub fn text(&mut self) -> Option<&'b [u8]> {
        let length = usize::try_from(self.u32()?).ok()?;
        self.take(length)
    }

    /// Takes a text that may be absent.
    pub fn optional(&mut self) -> Option<Option<&'b [u8]>> {
        match self.u8()? {
            0 => Some(None),
            1 => Some(Some(self.text()?)),
            _ => None,
        }
    }
}

/// Appends a text with its length before it. Returns false if it is too long for that.
pub fn put_text(bytes: &mut Vec<u8>, text: &[u8]) -> bool {
    let Ok(length) = u32::try_from(text.len()) else { return false };
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(text);
    true
}

/// Appends a text that may be absent.
pub fn put_optional(bytes: &mut Vec<u8>, text: Option<&[u8]>) -> bool {
    bytes.push(u8::from(text.is_some()));
    text.is_none_or(|text| put_text(bytes, text))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn all_parts_fit_into_the_size_and_use_almost_all_of_it() {
        for size in [16 << 20, 100_000_000, 1 << 30, 1 << 40] {
            let geometry = Geometry::of(size);
            let end = geometry.chunk(geometry.chunks);
            assert!(end <= size, "{size}");
            let content = u64::from(geometry.chunks) * CHUNK;
            assert!(content >= size / 100 * 95, "{size} {content}");
            assert!(geometry.half(1) >= geometry.half(0) + geometry.journal);
        }
        assert_eq!(Geometry::of(0).chunks, 0);
    }

    fn line() -> Line {
        Line { id: 7, index: 1, count: 3, key: 1 << 100, owner: 5, epoch: 9, variant: 11 }
    }

    #[test]
    fn a_line_is_for_its_chunk_only() {
        let bytes = line().encode(4);
        assert_eq!(bytes.len() as u64, LINE);
        assert_eq!(Line::decode(&bytes, 4), Some(line()));
        assert_eq!(Line::decode(&bytes, 5), None);
        assert_eq!(Line::decode(&[0; LINE as usize], 4), None);
    }

    proptest! {
        #[test]
        fn a_changed_or_cut_byte_is_noticed(at in 0usize..64, change in 1u8..) {
            let mut bytes = line().encode(4);
            prop_assert_eq!(Line::decode(&bytes[..at], 4), None);
            bytes[at] ^= change;
            prop_assert_eq!(Line::decode(&bytes, 4), None);
            let header = Header { size: 1 << 24, boot: 3, is_closed: true };
            let mut bytes = header.encode();
            prop_assert_eq!(Header::decode(&bytes), Some(header));
            let at = at % bytes.len();
            prop_assert_eq!(Header::decode(&bytes[..at]), None);
            bytes[at] ^= change;
            prop_assert_eq!(Header::decode(&bytes), None);
        }

        #[test]
        fn any_bytes_are_read(bytes: Vec<u8>) {
            prop_assert_eq!(Header::decode(&bytes), None);
            prop_assert_eq!(Line::decode(&bytes, 0), None);
        }
    }
}
