//! Names and values: the content of the stream of parameters (FastCGI Specification, 3.4).

use crate::bytes::{Malformed, Take};

/// Appends a name and its value. Each may have up to 2 GiB; whoever calls has bounded them far
/// below.
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

/// Decodes names and values one by one. After an error there is nothing more.
#[derive(Debug, Clone)]
pub struct Pairs<'a>(Take<'a>);

impl<'a> Pairs<'a> {
    /// Of a complete stream.
    pub fn new(stream: &'a [u8]) -> Self {
        Pairs(Take(stream))
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
            self.0 = Take(&[]);
        }
        Some(pair)
    }
}
