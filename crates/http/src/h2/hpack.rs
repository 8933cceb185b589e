//! Header blocks (RFC 7541), parsed as far as is needed to find two kinds of malformed requests
//! that `h2` 0.4 accepts: a fragment in `:path`, which its URI type cuts off, and pseudo-header
//! fields in a trailer, which it drops.
//!
//! The dynamic table holds no texts: of each entry the kind of field, and the sizes that decide
//! when the entry is evicted. It must have the entries that the table of `h2` has, so errors and
//! limits are those of `h2`. An invalid block makes `h2` end the connection; the blocks after it
//! are not parsed.

use std::collections::VecDeque;

use crate::streams::huffman::Huffman;

/// Properties of a header block that `h2` does not report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Found {
    /// The block has a pseudo-header field, at any position.
    pub pseudo: bool,
    /// The block has a `:path` with a fragment.
    pub fragment: bool,
}

/// Parser of the header blocks of one connection, in the order sent.
#[derive(Debug, Default)]
pub struct Reader {
    table: Table,
    step: Step,
    line: Line,
    huffman: Huffman,
    found: Found,
    is_broken: bool,
}

/// Position in a block.
#[derive(Debug, Clone, Copy, Default)]
enum Step {
    /// At the first byte of a field line or a table size update.
    #[default]
    Start,
    /// At the length of a string.
    Length(Part),
    /// Within an integer that continues after its prefix (5.1).
    Number { of: Number, value: usize, shift: u32 },
    /// Within a string.
    Text { part: Part, huffman: bool, left: usize },
}

/// A string of a field line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Name,
    Value,
}

/// Meaning of an integer.
#[derive(Debug, Clone, Copy)]
enum Number {
    /// Index of a field.
    Field,
    /// Index of a name; zero if the name follows as a string.
    Name,
    /// New maximum size of the dynamic table, in bytes.
    TableSize,
    /// Length of a string, in bytes.
    Length { part: Part, huffman: bool },
}

/// State of a field line that is being parsed.
#[derive(Debug, Default)]
struct Line {
    /// The field is added to the dynamic table.
    is_indexed: bool,
    kind: Kind,
    /// First bytes of the name, which tell its kind.
    start: [u8; 3],
    /// Decoded length of the name so far, in bytes.
    name: usize,
    /// Decoded length of the value so far, in bytes.
    value: usize,
    /// The value has a `#`.
    has_hash: bool,
}

/// Kind of a header field.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Regular,
    Pseudo,
    Path,
    PathWithFragment,
}

impl Kind {
    /// Returns the kind of a field by its name or the first three bytes of it. `h2` rejects unknown
    /// pseudo-header fields, so `:pa` is `:path`.
    fn of(name: &[u8]) -> Kind {
        match name {
            [b':', b'p', b'a', ..] => Kind::Path,
            [b':', ..] => Kind::Pseudo,
            _ => Kind::Regular,
        }
    }
}

impl Reader {
    /// Parses the next bytes of a block.
    pub fn read(&mut self, mut bytes: &[u8]) {
        while let Some((&byte, rest)) = bytes.split_first() {
            if self.is_broken {
                return;
            }
            if let Step::Text { part, huffman, left } = self.step {
                let (text, rest) = bytes.split_at(left.min(bytes.len()));
                self.text(part, huffman, text);
                bytes = rest;
                match left - text.len() {
                    0 => self.end_text(part),
                    left => self.step = Step::Text { part, huffman, left },
                }
                continue;
            }
            self.byte(byte);
            bytes = rest;
        }
    }

    /// Ends a block and returns its properties; none if the block was invalid.
    pub fn end(&mut self) -> Found {
        self.is_broken |= !matches!(self.step, Step::Start);
        let found = std::mem::take(&mut self.found);
        if self.is_broken { Found::default() } else { found }
    }

    /// Returns the size of the dynamic table.
    #[cfg(test)]
    pub fn size(&self) -> usize {
        self.table.size
    }

    /// Stops parsing for the rest of the connection.
    pub fn give_up(&mut self) {
        self.is_broken = true;
    }

    fn byte(&mut self, byte: u8) {
        let (of, bits) = match self.step {
            Step::Start if byte & 0x80 != 0 => (Number::Field, 7),
            Step::Start if byte & 0x40 != 0 => (Number::Name, 6),
            Step::Start if byte & 0x20 != 0 => (Number::TableSize, 5),
            Step::Start => (Number::Name, 4),
            Step::Length(part) => (Number::Length { part, huffman: byte & 0x80 != 0 }, 7),
            Step::Number { of, value, shift } => {
                let value = value + (usize::from(byte & 0x7f) << shift);
                return match (byte & 0x80 != 0, shift + 7) {
                    (false, _) => self.number(of, value),
                    // The limit of `h2`: four bytes after the prefix.
                    (true, 28..) => self.give_up(),
                    (true, shift) => self.step = Step::Number { of, value, shift },
                };
            }
            Step::Text { .. } => return, // handled by `read`
        };
        if let Step::Start = self.step {
            self.line = Line { is_indexed: byte & 0xc0 == 0x40, ..Line::default() };
        }
        let max = (1 << bits) - 1;
        match usize::from(byte) & max {
            value if value == max => self.step = Step::Number { of, value, shift: 0 },
            value => self.number(of, value),
        }
    }

    /// Handles a complete integer.
    fn number(&mut self, of: Number, value: usize) {
        self.step = Step::Start;
        match of {
            Number::Field => match self.table.get(value) {
                Some((kind, _)) => self.finish(kind),
                None => self.give_up(),
            },
            Number::Name if value == 0 => self.step = Step::Length(Part::Name),
            Number::Name => match self.table.get(value) {
                Some((kind, name)) => {
                    // Only the name of the entry is used.
                    let kind = if kind == Kind::PathWithFragment { Kind::Path } else { kind };
                    (self.line.kind, self.line.name) = (kind, name);
                    self.step = Step::Length(Part::Value);
                }
                None => self.give_up(),
            },
            Number::TableSize if value > MAX_TABLE_SIZE => self.give_up(),
            Number::TableSize => self.table.resize(value),
            Number::Length { part, huffman } => match value {
                0 => self.end_text(part),
                left => self.step = Step::Text { part, huffman, left },
            },
        }
    }

    /// Handles a part of a string. The value of a field that is not indexed matters only for
    /// `:path`.
    fn text(&mut self, part: Part, huffman: bool, text: &[u8]) {
        let line = &mut self.line;
        if part == Part::Value && !line.is_indexed && line.kind != Kind::Path {
            return;
        }
        for &byte in text {
            if huffman {
                self.huffman.decode(byte, |byte| line.take(part, byte))
            } else {
                line.take(part, byte)
            }
        }
    }

    fn end_text(&mut self, part: Part) {
        let line = &mut self.line;
        self.huffman.end(|byte| line.take(part, byte));
        if part == Part::Name {
            line.kind = Kind::of(line.start.get(..line.name.min(3)).unwrap_or_default());
            self.step = Step::Length(Part::Value);
            return;
        }
        self.step = Step::Start;
        if line.kind == Kind::Path && line.has_hash {
            line.kind = Kind::PathWithFragment;
        }
        let kind = line.kind;
        if line.is_indexed {
            self.table.insert(kind, line.name, line.value);
        }
        self.finish(kind);
    }

    fn finish(&mut self, kind: Kind) {
        self.found.pseudo |= kind != Kind::Regular;
        self.found.fragment |= kind == Kind::PathWithFragment;
    }
}

impl Line {
    fn take(&mut self, part: Part, byte: u8) {
        match part {
            Part::Name => {
                if let Some(place) = self.start.get_mut(self.name) {
                    *place = byte;
                }
                self.name += 1;
            }
            Part::Value => {
                self.has_hash |= byte == b'#';
                self.value += 1;
            }
        }
    }
}

/// Maximum size of the dynamic table in bytes: the default of SETTINGS_HEADER_TABLE_SIZE.
const MAX_TABLE_SIZE: usize = 4096;

/// Bytes that an entry counts in addition to its name and value (RFC 7541, 4.1).
const ENTRY_OVERHEAD: usize = 32;

/// The static table, and the dynamic table without its texts.
#[derive(Debug)]
struct Table {
    /// Newest entry first.
    entries: VecDeque<Entry>,
    /// Sum of the sizes of all entries.
    size: usize,
    max_size: usize,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    kind: Kind,
    /// Length of the name in bytes.
    name: u16,
    /// Size as RFC 7541, 4.1 counts it; at most [`MAX_TABLE_SIZE`].
    size: u16,
}

impl Default for Table {
    fn default() -> Self {
        Table { entries: VecDeque::new(), size: 0, max_size: MAX_TABLE_SIZE }
    }
}

impl Table {
    /// Returns the kind of an entry and the length of its name.
    fn get(&self, index: usize) -> Option<(Kind, usize)> {
        let index = index.checked_sub(1)?;
        if let Some(name) = STATIC.get(index) {
            return Some((Kind::of(name.as_bytes()), name.len()));
        }
        let entry = self.entries.get(index - STATIC.len())?;
        Some((entry.kind, usize::from(entry.name)))
    }

    fn insert(&mut self, kind: Kind, name: usize, value: usize) {
        let size = name.saturating_add(value).saturating_add(ENTRY_OVERHEAD);
        self.evict_to(self.max_size.saturating_sub(size));
        if size <= self.max_size
            && let (Ok(name), Ok(size)) = (u16::try_from(name), u16::try_from(size))
        {
            self.size += usize::from(size);
            self.entries.push_front(Entry { kind, name, size });
        }
    }

    fn resize(&mut self, max_size: usize) {
        self.max_size = max_size;
        self.evict_to(max_size);
    }

    /// Evicts the oldest entries until the size is at most `limit`.
    fn evict_to(&mut self, limit: usize) {
        while self.size > limit
            && let Some(entry) = self.entries.pop_back()
        {
            self.size -= usize::from(entry.size);
        }
    }
}

/// Names of the static table (RFC 7541, Appendix A). None of its values matters here.
pub const STATIC: [&str; 61] = [
    ":authority",
    ":method",
    ":method",
    ":path",
    ":path",
    ":scheme",
    ":scheme",
    ":status",
    ":status",
    ":status",
    ":status",
    ":status",
    ":status",
    ":status",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "accept-ranges",
    "accept",
    "access-control-allow-origin",
    "age",
    "allow",
    "authorization",
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-length",
    "content-location",
    "content-range",
    "content-type",
    "cookie",
    "date",
    "etag",
    "expect",
    "expires",
    "from",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "last-modified",
    "link",
    "location",
    "max-forwards",
    "proxy-authenticate",
    "proxy-authorization",
    "range",
    "referer",
    "refresh",
    "retry-after",
    "server",
    "set-cookie",
    "strict-transport-security",
    "transfer-encoding",
    "user-agent",
    "vary",
    "via",
    "www-authenticate",
];
