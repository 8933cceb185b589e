//! Header fields: of a request as slices of its buffer, of a response as a block of lines.

use bytes::Bytes;

/// Header fields of a request: slices of the buffer that the head was received in.
#[derive(Debug, Clone, Default)]
pub struct Fields {
    buffer: Bytes,
    spans: Vec<FieldSpan>,
}

#[derive(Debug, Clone, Copy)]
struct FieldSpan {
    name: (u32, u32),
    value: (u32, u32),
}

impl Fields {
    /// Creates an empty list. The names and values to be pushed are ranges of `buffer`.
    pub fn new(buffer: Bytes, capacity: usize) -> Self {
        Fields { buffer, spans: Vec::with_capacity(capacity) }
    }

    /// Builds fields from pairs of name and value, for which it makes a buffer.
    pub fn from_pairs<'a>(pairs: impl IntoIterator<Item = (&'a [u8], &'a [u8])>) -> Self {
        let mut buffer = Vec::new();
        let mut spans = Vec::new();
        for (name, value) in pairs {
            let start = buffer.len();
            buffer.extend_from_slice(name);
            let middle = buffer.len();
            buffer.extend_from_slice(value);
            spans.push(FieldSpan {
                name: (start as u32, middle as u32),
                value: (middle as u32, buffer.len() as u32),
            });
        }
        Fields { buffer: buffer.into(), spans }
    }

    /// Appends a field by its ranges in the buffer.
    ///
    /// # Panics
    /// If a range is not within the buffer.
    pub fn push(&mut self, name: std::ops::Range<usize>, value: std::ops::Range<usize>) {
        assert!(name.end <= self.buffer.len() && value.end <= self.buffer.len());
        self.spans.push(FieldSpan {
            name: (name.start as u32, name.end as u32),
            value: (value.start as u32, value.end as u32),
        });
    }

    /// Iterates over all fields in the order received.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
        self.spans.iter().map(|span| (self.slice(span.name), self.slice(span.value)))
    }

    /// Returns the value of the first field with this name, compared without regard to ASCII case.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.iter().find(|(n, _)| n.eq_ignore_ascii_case(name.as_bytes())).map(|(_, v)| v)
    }

    /// Iterates over the values of all fields with this name.
    pub fn get_all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> + Clone {
        self.iter().filter(move |(n, _)| n.eq_ignore_ascii_case(name.as_bytes())).map(|(_, v)| v)
    }

    /// Removes the fields whose names `accepts` rejects.
    pub fn retain(&mut self, accepts: impl Fn(&[u8]) -> bool) {
        let mut spans = std::mem::take(&mut self.spans);
        spans.retain(|span| accepts(self.slice(span.name)));
        self.spans = spans;
    }

    /// Returns the number of fields.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Returns true if there is no field.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    fn slice(&self, (start, end): (u32, u32)) -> &[u8] {
        &self.buffer[start as usize..end as usize]
    }
}

/// Header fields of a response, as the lines of HTTP/1.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldBlock(Bytes);

impl FieldBlock {
    /// Wraps lines, which must be well formed.
    pub fn from_lines(lines: Bytes) -> Self {
        debug_assert!(lines.is_empty() || lines.ends_with(b"\r\n"));
        FieldBlock(lines)
    }

    /// Appends a field. CR, LF and NUL are removed from the value, so that it cannot add a field.
    pub fn push(&mut self, name: &str, value: impl AsRef<[u8]>) {
        let value = value.as_ref();
        let mut lines = Vec::with_capacity(self.0.len() + name.len() + value.len() + 4);
        lines.extend_from_slice(&self.0);
        lines.extend_from_slice(name.as_bytes());
        lines.extend_from_slice(b": ");
        lines.extend(value.iter().filter(|b| !matches!(b, b'\r' | b'\n' | 0)));
        lines.extend_from_slice(b"\r\n");
        self.0 = lines.into();
    }

    /// Returns the lines.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Iterates over the fields in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.0.split(|b| *b == b'\n').filter_map(|line| {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let colon = memchr::memchr(b':', line)?;
            Some((&line[..colon], line[colon + 1..].trim_ascii()))
        })
    }

    /// Returns the value of the first field with this name, compared without regard to ASCII case.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.iter().find(|(n, _)| n.eq_ignore_ascii_case(name.as_bytes())).map(|(_, v)| v)
    }
}

/// Returns true for fields by which upstream servers control this server (`X-Accel-*`,
/// `X-Sendfile*`). Clients neither get them nor may send them.
pub fn is_internal_field(name: &[u8]) -> bool {
    let starts =
        |with: &[u8]| name.get(..with.len()).is_some_and(|start| start.eq_ignore_ascii_case(with));
    starts(b"x-accel-") || starts(b"x-sendfile")
}
