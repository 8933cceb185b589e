//! Names and values: the content of the parameter stream (FastCGI Specification, 3.4).

use super::records::{HEADER, Kind, MAX_CONTENT_BYTES, header, put_end_of_stream, put_stream};
use crate::bytes::{Decoder, Malformed};

/// Appends a name and its value, each shorter than 2 GiB.
pub fn put_pair(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    for part in [name, value] {
        match u8::try_from(part.len()) {
            Ok(len) if len < 0x80 => out.push(len),
            _ => {
                let len = u32::try_from(part.len()).unwrap_or(u32::MAX) | 0x8000_0000;
                out.extend_from_slice(&len.to_be_bytes());
            }
        }
    }
    out.extend_from_slice(name);
    out.extend_from_slice(value);
}

/// Appends a complete parameter stream. Records contain whole pairs, as PHP requires; only a pair
/// that is longer than a record is split.
pub fn put_params<'a>(
    id: u16,
    pairs: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    out: &mut Vec<u8>,
) {
    let mut start = out.len();
    for (name, value) in pairs {
        if out.len() == start {
            out.extend_from_slice(&header(Kind::Params, id, 0)); // its length follows
        }
        let before = out.len();
        put_pair(name, value, out);
        if out.len() - start > HEADER + MAX_CONTENT_BYTES {
            let pair = out.split_off(before);
            end_record(start, out);
            start = out.len();
            if pair.len() >= MAX_CONTENT_BYTES {
                put_stream(Kind::Params, id, &pair, out);
                start = out.len();
            } else {
                out.extend_from_slice(&header(Kind::Params, id, 0));
                out.extend_from_slice(&pair);
            }
        }
    }
    end_record(start, out);
    put_end_of_stream(Kind::Params, id, out);
}

/// Writes the length of the record that begins at `start` and has at most [`MAX_CONTENT_BYTES`]
/// bytes of content. Removes a record without content: it would end the stream.
fn end_record(start: usize, out: &mut Vec<u8>) {
    match u16::try_from(out.len().saturating_sub(start + HEADER)) {
        Ok(len) if len > 0 => {
            if let Some(length) = out.get_mut(start + 4..start + 6) {
                length.copy_from_slice(&len.to_be_bytes());
            }
        }
        _ => out.truncate(start),
    }
}

/// Iterator over the names and values of a stream. Ends after an error.
#[derive(Debug, Clone)]
pub struct Pairs<'a>(Decoder<'a>);

impl<'a> Pairs<'a> {
    /// Creates an iterator over a complete stream.
    pub fn new(stream: &'a [u8]) -> Self {
        Pairs(Decoder(stream))
    }

    fn pair(&mut self) -> Result<(&'a [u8], &'a [u8]), Malformed> {
        let (name, value) = (self.length()?, self.length()?);
        Ok((self.0.raw(name)?, self.0.raw(value)?))
    }

    fn length(&mut self) -> Result<usize, Malformed> {
        let first = self.0.u8()?;
        if first < 0x80 {
            return Ok(usize::from(first));
        }
        let [b, c, d] = self.0.raw(3)?.try_into().map_err(|_| Malformed)?;
        Ok(u32::from_be_bytes([first & 0x7f, b, c, d]) as usize)
    }
}

impl<'a> Iterator for Pairs<'a> {
    type Item = Result<(&'a [u8], &'a [u8]), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.0.is_empty() {
            return None;
        }
        let pair = self.pair();
        if pair.is_err() {
            self.0 = Decoder(&[]);
        }
        Some(pair)
    }
}
