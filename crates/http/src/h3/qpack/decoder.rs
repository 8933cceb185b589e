//! Decoding field sections (RFC 9204, 4.5) of clients that must not use a dynamic table.

use super::integer::{Integer, Progress};
use super::table::STATIC;
use crate::streams::huffman::Huffman;

/// Size that a field counts in addition to its name and value (RFC 9114, 4.2.2).
const FIELD_OVERHEAD: usize = 32;

/// The fields of a section.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Section {
    /// All names and values, one after the other.
    text: Vec<u8>,
    /// End of each name and of each value in `text`.
    ends: Vec<(u32, u32)>,
}

impl Section {
    /// Iterates over the fields in the order sent.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
        let starts = std::iter::once(0).chain(self.ends.iter().map(|(_, end)| *end));
        starts.zip(&self.ends).map(|(start, (middle, end))| {
            let [start, middle, end] = [start, *middle, *end].map(|at| at as usize);
            let of = |range| self.text.get(range).unwrap_or_default();
            (of(start..middle), of(middle..end))
        })
    }

    /// Returns the number of fields.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns true if there is no field.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the number of bytes of all names and values.
    pub fn bytes(&self) -> usize {
        self.text.len()
    }
}

/// Reason why a section cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SectionError {
    /// It cannot be decoded: QPACK_DECOMPRESSION_FAILED.
    Invalid,
    /// It is longer than permitted.
    TooLong,
}

/// Decoder of one section.
#[derive(Debug)]
pub struct Decoder {
    step: Step,
    section: Section,
    /// Size that may still be added, as RFC 9114, 4.2.2 counts it.
    left: usize,
    huffman: Huffman,
}

/// Position in a section.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// At the Required Insert Count.
    Count,
    /// At the sign and the Delta Base.
    Base,
    /// At the first byte of a field line.
    Line,
    /// At the length of a value.
    ValueLength,
    /// Within an integer.
    Number { of: Number, integer: Integer },
    /// Within a string.
    Text { part: Part, huffman: bool, left: u64 },
}

/// Meaning of an integer.
#[derive(Debug, Clone, Copy)]
enum Number {
    Count,
    Base,
    /// Index of a field in the static table.
    Field,
    /// Index of a name in the static table.
    Name,
    /// Length of a string in bytes.
    Length {
        part: Part,
        huffman: bool,
    },
}

/// A string of a field line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Name,
    Value,
}

impl Decoder {
    /// Creates the decoder of a section of at most `max_size` bytes, with 32 for each field.
    pub fn new(max_size: usize) -> Self {
        let (step, section) = (Step::Count, Section::default());
        Decoder { step, section, left: max_size, huffman: Huffman::default() }
    }

    /// Decodes the next bytes. After an error the section cannot be read further.
    pub fn read(&mut self, mut bytes: &[u8]) -> Result<(), SectionError> {
        while let Some((&byte, rest)) = bytes.split_first() {
            if let Step::Text { part, huffman, left } = self.step {
                let length = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
                let (text, rest) = bytes.split_at(length);
                self.text(huffman, text)?;
                bytes = rest;
                match left - length as u64 {
                    0 => self.end_text(part, huffman)?,
                    left => self.step = Step::Text { part, huffman, left },
                }
                continue;
            }
            self.byte(byte)?;
            bytes = rest;
        }
        Ok(())
    }

    /// Ends the section.
    pub fn end(self) -> Result<Section, SectionError> {
        match self.step {
            Step::Line => Ok(self.section),
            _ => Err(SectionError::Invalid),
        }
    }

    fn byte(&mut self, byte: u8) -> Result<(), SectionError> {
        let (of, progress) = match self.step {
            Step::Number { of, integer } => (of, integer.push(byte)),
            Step::Count => (Number::Count, Integer::begin(byte, 8)),
            // With the sign, the base would be less than zero.
            Step::Base if byte & 0x80 != 0 => return Err(SectionError::Invalid),
            Step::Base => (Number::Base, Integer::begin(byte, 7)),
            Step::ValueLength => {
                let (part, huffman) = (Part::Value, byte & 0x80 != 0);
                (Number::Length { part, huffman }, Integer::begin(byte, 7))
            }
            Step::Line if byte & 0xc0 == 0xc0 => (Number::Field, Integer::begin(byte, 6)),
            Step::Line if byte & 0xd0 == 0x50 => (Number::Name, Integer::begin(byte, 4)),
            Step::Line if byte & 0xe0 == 0x20 => {
                let (part, huffman) = (Part::Name, byte & 0x08 != 0);
                (Number::Length { part, huffman }, Integer::begin(byte, 3))
            }
            // A reference to the dynamic table, which has no entries.
            Step::Line => return Err(SectionError::Invalid),
            Step::Text { .. } => return Ok(()), // handled by `read`
        };
        match progress {
            Progress::Value(value) => self.number(of, value),
            Progress::Open(integer) => {
                self.step = Step::Number { of, integer };
                Ok(())
            }
            Progress::TooLarge => Err(SectionError::Invalid),
        }
    }

    /// Handles a complete integer.
    fn number(&mut self, of: Number, value: u64) -> Result<(), SectionError> {
        let entry = || usize::try_from(value).ok().and_then(|index| STATIC.get(index));
        match of {
            Number::Count if value == 0 => self.step = Step::Base,
            Number::Count => return Err(SectionError::Invalid),
            Number::Base => self.step = Step::Line,
            Number::Field => {
                let (name, value) = entry().ok_or(SectionError::Invalid)?;
                self.take(name.len() + value.len())?;
                self.section.text.extend_from_slice(name.as_bytes());
                self.end_name()?;
                self.section.text.extend_from_slice(value.as_bytes());
                self.end_line();
            }
            Number::Name => {
                let (name, _) = entry().ok_or(SectionError::Invalid)?;
                self.take(name.len())?;
                self.section.text.extend_from_slice(name.as_bytes());
                self.end_name()?;
                self.step = Step::ValueLength;
            }
            Number::Length { huffman: false, .. } if value > self.left as u64 => {
                return Err(SectionError::TooLong);
            }
            Number::Length { part, huffman } if value == 0 => self.end_text(part, huffman)?,
            Number::Length { part, huffman } => {
                self.step = Step::Text { part, huffman, left: value };
            }
        }
        Ok(())
    }

    /// Takes bytes off the size that may be added.
    fn take(&mut self, bytes: usize) -> Result<(), SectionError> {
        self.left = self.left.checked_sub(bytes).ok_or(SectionError::TooLong)?;
        Ok(())
    }

    /// Handles a part of a string.
    fn text(&mut self, huffman: bool, text: &[u8]) -> Result<(), SectionError> {
        if !huffman {
            self.take(text.len())?;
            self.section.text.extend_from_slice(text);
            return Ok(());
        }
        let before = self.section.text.len();
        for byte in text {
            self.huffman.decode(*byte, |byte| self.section.text.push(byte));
            // A byte of input becomes at most two.
            if self.section.text.len() - before > self.left {
                return Err(SectionError::TooLong);
            }
        }
        self.take(self.section.text.len() - before)
    }

    fn end_text(&mut self, part: Part, huffman: bool) -> Result<(), SectionError> {
        if huffman {
            let before = self.section.text.len();
            if !self.huffman.end(|byte| self.section.text.push(byte)) {
                return Err(SectionError::Invalid);
            }
            self.take(self.section.text.len() - before)?;
        }
        match part {
            Part::Name => {
                self.end_name()?;
                self.step = Step::ValueLength;
            }
            Part::Value => self.end_line(),
        }
        Ok(())
    }

    fn end_name(&mut self) -> Result<(), SectionError> {
        self.take(FIELD_OVERHEAD)?;
        let end = self.section.text.len() as u32;
        self.section.ends.push((end, end));
        Ok(())
    }

    fn end_line(&mut self) {
        if let Some((_, end)) = self.section.ends.last_mut() {
            *end = self.section.text.len() as u32;
        }
        self.step = Step::Line;
    }
}

#[cfg(test)]
mod tests;
