//! Header blocks (RFC 7541), followed as far as is needed to see what `h2` passes over in silence: a
//! fragment in `:path`, which its URI type cuts off, and pseudo-header fields in a trailer, which it
//! drops.
//!
//! The dynamic table is kept without the texts: of each entry the kind of field and the sizes that
//! decide how long the entry stays. What is no header block ends the connection, for which `h2`
//! cares; nothing is read after it.

use std::collections::VecDeque;

use super::huffman::Huffman;

/// What header fields have that `h2` passes over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Found {
    /// A pseudo-header field, wherever it stands.
    pub pseudo: bool,
    /// A `:path` with a fragment.
    pub fragment: bool,
}

/// Reads the header blocks of a connection, one after the other.
#[derive(Debug, Default)]
pub struct Reader {
    table: Table,
    step: Step,
    line: Line,
    huffman: Huffman,
    found: Found,
    is_broken: bool,
}

/// The place in a block.
#[derive(Debug, Clone, Copy, Default)]
enum Step {
    /// Before a field line.
    #[default]
    Start,
    /// Before a string.
    Length(Part),
    /// Within a number that does not fit into its first byte.
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

/// A number, and what it says.
#[derive(Debug, Clone, Copy)]
enum Number {
    /// The field is this entry.
    Entry,
    /// The field has the name of this entry, or a name of its own.
    Name,
    /// So much room the table has from now on.
    Room,
    /// So many bytes the string has.
    Length { part: Part, huffman: bool },
}

/// A field line that is being read.
#[derive(Debug, Default)]
struct Line {
    /// It becomes an entry of the table.
    is_kept: bool,
    kind: Kind,
    /// The first bytes of a name, as many as tell its kind.
    start: [u8; 3],
    name: usize,
    value: usize,
    has_hash: bool,
}

/// What kind of field a line is of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Regular,
    Pseudo,
    Path,
    PathWithFragment,
}

impl Kind {
    /// By the start of a name. Of pseudo-header fields those that there are, as `h2` knows no others.
    fn of(name: &[u8]) -> Kind {
        match name {
            [b':', b'p', b'a', ..] => Kind::Path,
            [b':', ..] => Kind::Pseudo,
            _ => Kind::Regular,
        }
    }
}

impl Reader {
    /// Takes the next bytes of a block.
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

    /// At the end of a block: what its fields have.
    pub fn end(&mut self) -> Found {
        self.is_broken |= !matches!(self.step, Step::Start);
        let found = std::mem::take(&mut self.found);
        if self.is_broken { Found::default() } else { found }
    }

    /// Bytes that the entries of the dynamic table count for.
    #[cfg(test)]
    pub fn size(&self) -> usize {
        self.table.size
    }

    /// Reads no more. What a client sends from here on is not looked at.
    pub fn give_up(&mut self) {
        self.is_broken = true;
    }

    fn byte(&mut self, byte: u8) {
        let (of, bits) = match self.step {
            Step::Start if byte & 0x80 != 0 => (Number::Entry, 7),
            Step::Start if byte & 0x40 != 0 => (Number::Name, 6),
            Step::Start if byte & 0x20 != 0 => (Number::Room, 5),
            Step::Start => (Number::Name, 4),
            Step::Length(part) => (Number::Length { part, huffman: byte & 0x80 != 0 }, 7),
            Step::Number { of, value, shift } => {
                let value = value + (usize::from(byte & 0x7f) << shift);
                return match (byte & 0x80 != 0, shift + 7) {
                    (false, _) => self.number(of, value),
                    // As many bytes as `h2` takes.
                    (true, 28..) => self.give_up(),
                    (true, shift) => self.step = Step::Number { of, value, shift },
                };
            }
            Step::Text { .. } => return, // not here
        };
        if let Step::Start = self.step {
            self.line = Line { is_kept: byte & 0xc0 == 0x40, ..Line::default() };
        }
        let most = (1 << bits) - 1;
        match usize::from(byte) & most {
            value if value == most => self.step = Step::Number { of, value, shift: 0 },
            value => self.number(of, value),
        }
    }

    /// Takes a number that has come in full.
    fn number(&mut self, of: Number, value: usize) {
        self.step = Step::Start;
        match of {
            Number::Entry => match self.table.get(value) {
                Some((kind, _)) => self.finish(kind),
                None => self.give_up(),
            },
            Number::Name if value == 0 => self.step = Step::Length(Part::Name),
            Number::Name => match self.table.get(value) {
                Some((kind, name)) => {
                    // The entry's own value does not count.
                    let kind = if kind == Kind::PathWithFragment { Kind::Path } else { kind };
                    (self.line.kind, self.line.name) = (kind, name);
                    self.step = Step::Length(Part::Value);
                }
                None => self.give_up(),
            },
            Number::Room if value > ROOM => self.give_up(),
            Number::Room => self.table.resize(value),
            Number::Length { part, huffman } => match value {
                0 => self.end_text(part),
                left => self.step = Step::Text { part, huffman, left },
            },
        }
    }

    /// Takes a piece of a string, and decodes it if it matters.
    fn text(&mut self, part: Part, huffman: bool, text: &[u8]) {
        let line = &mut self.line;
        if part == Part::Value && !line.is_kept && line.kind != Kind::Path {
            return;
        }
        for &byte in text {
            match huffman {
                true => self.huffman.decode(byte, |byte| line.take(part, byte)),
                false => line.take(part, byte),
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
        if line.is_kept {
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

/// Bytes that the entries of the dynamic table may have; we ask for no other size.
const ROOM: usize = 4096;

/// What an entry counts for beside its texts (RFC 7541, 4.1).
const OVERHEAD: usize = 32;

/// The static table, and the dynamic one without its texts.
#[derive(Debug)]
struct Table {
    /// The newest first.
    entries: VecDeque<Entry>,
    size: usize,
    room: usize,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    kind: Kind,
    /// Bytes of its name, and of its name and value: no more than there is room for.
    name: u16,
    size: u16,
}

impl Default for Table {
    fn default() -> Self {
        Table { entries: VecDeque::new(), size: 0, room: ROOM }
    }
}

impl Table {
    /// The kind of an entry, and the length of its name.
    fn get(&self, index: usize) -> Option<(Kind, usize)> {
        let index = index.checked_sub(1)?;
        if let Some(name) = STATIC.get(index) {
            return Some((Kind::of(name.as_bytes()), name.len()));
        }
        let entry = self.entries.get(index - STATIC.len())?;
        Some((entry.kind, usize::from(entry.name)))
    }

    fn insert(&mut self, kind: Kind, name: usize, value: usize) {
        let size = name.saturating_add(value).saturating_add(OVERHEAD);
        self.shrink(self.room.saturating_sub(size));
        if size <= self.room
            && let (Ok(name), Ok(size)) = (u16::try_from(name), u16::try_from(size))
        {
            self.size += usize::from(size);
            self.entries.push_front(Entry { kind, name, size });
        }
    }

    fn resize(&mut self, room: usize) {
        self.room = room;
        self.shrink(room);
    }

    /// Forgets the oldest entries until all have this size at most.
    fn shrink(&mut self, most: usize) {
        while self.size > most
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
