//! Decoder of chunked bodies.
//!
//! A pure state machine over bytes. All that RFC 9112 does not allow is refused: every reading that
//! is more lenient than a proxy's is a way to smuggle a request past it.

use howdah_text::token::is_token_byte;

/// Decoder of a chunked body (RFC 9112, 7.1). Chunk extensions and trailer fields are checked,
/// counted and dropped; [`Chunked::with_trailer`] keeps the trailer.
#[derive(Debug, Clone)]
pub struct Chunked {
    state: State,
    /// Number of bytes left in the chunk; while the size line is read, the size so far.
    size: u64,
    /// Number of bytes that extensions and trailer may still have.
    extra: u32,
    /// Lines of the trailer so far, if they are kept.
    trailer: Option<Vec<u8>>,
}

/// Result of decoding the start of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decoded {
    /// All of the input is framing; more input is needed.
    NeedMore,
    /// `skip` bytes of framing, then `len` bytes of the body.
    Data {
        /// Bytes of framing before the data.
        skip: usize,
        /// Bytes of data, at least one.
        len: usize,
    },
    /// The body ends after this number of bytes of framing.
    End(usize),
}

/// The input is not a chunked body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Within the size, after this number of digits.
    Size(u8),
    /// White space after the size or within an extension: a `;` must follow.
    BeforeSemicolon,
    /// After a `;`: white space, then the extension's name.
    BeforeName,
    Name,
    /// White space after a name: `=` or `;` must follow.
    AfterName,
    /// After `=`: white space, then a token or a quoted string.
    BeforeValue,
    Value,
    Quoted,
    /// After a backslash in a quoted string.
    Escaped,
    /// After the closing quote.
    AfterQuoted,
    /// After the CR of a size line.
    SizeLf,
    Data,
    /// After a chunk's data.
    DataCr,
    DataLf,
    /// At the start of a line after the last chunk.
    TrailerStart,
    TrailerName,
    TrailerValue,
    TrailerLf,
    /// After the CR of the empty line that ends the body.
    EndLf,
    Done,
}

impl State {
    /// Returns true if the byte that led to this state belongs to a line of the trailer.
    fn is_in_trailer(self) -> bool {
        matches!(self, State::TrailerName | State::TrailerValue | State::TrailerLf)
    }
}

impl Chunked {
    /// Maximum number of bytes of the extensions and the trailer of a body.
    const MAX_EXTRA: u32 = 8 * 1024;
    /// Maximum number of digits of a size: those of a 64-bit number.
    const MAX_SIZE_DIGITS: u8 = 16;

    /// Creates a decoder at the start of a body.
    pub fn new() -> Self {
        Chunked { state: State::Size(0), size: 0, extra: Self::MAX_EXTRA, trailer: None }
    }

    /// Creates a decoder that keeps the trailer.
    pub fn with_trailer() -> Self {
        Chunked { trailer: Some(Vec::new()), ..Self::new() }
    }

    /// Returns the lines of the trailer, each with its line end.
    pub fn trailer(&self) -> &[u8] {
        self.trailer.as_deref().unwrap_or_default()
    }

    /// Returns true if the body has ended.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Decodes the start of the input. Before the next call the caller removes the decoded bytes:
    /// all of the input for [`Decoded::NeedMore`], `skip + len` bytes for data.
    pub fn decode(&mut self, input: &[u8]) -> Result<Decoded, Malformed> {
        if self.is_done() {
            return Ok(Decoded::End(0));
        }
        let mut at = 0;
        while let Some(&byte) = input.get(at) {
            if self.state == State::Data {
                let left = usize::try_from(self.size).unwrap_or(usize::MAX);
                let len = left.min(input.len() - at);
                self.size -= len as u64;
                if self.size == 0 {
                    self.state = State::DataCr;
                }
                return Ok(Decoded::Data { skip: at, len });
            }
            let ends_line = self.state == State::TrailerLf;
            self.step(byte)?;
            at += 1;
            if let Some(lines) = &mut self.trailer
                && (ends_line || self.state.is_in_trailer())
            {
                lines.push(byte);
            }
            if self.state == State::Done {
                return Ok(Decoded::End(at));
            }
        }
        Ok(Decoded::NeedMore)
    }

    fn step(&mut self, byte: u8) -> Result<(), Malformed> {
        use State::*;
        self.state = match (self.state, byte) {
            (Size(digits), _) if byte.is_ascii_hexdigit() && digits < Self::MAX_SIZE_DIGITS => {
                let digit = (byte as char).to_digit(16).unwrap_or(0);
                self.size = self.size << 4 | u64::from(digit);
                Size(digits + 1)
            }
            (Size(0), _) => return Err(Malformed),
            (Size(_), b'\r') => SizeLf,
            (Size(_), b';') => BeforeName,
            (Size(_), b' ' | b'\t') => BeforeSemicolon,
            (SizeLf, b'\n') if self.size == 0 => TrailerStart,
            (SizeLf, b'\n') => Data,
            (DataCr, b'\r') => DataLf,
            (DataLf, b'\n') => Size(0),
            (TrailerStart, b'\r') => EndLf,
            (EndLf, b'\n') => Done,
            _ => self.extra_step(byte)?,
        };
        Ok(())
    }

    /// Handles a byte of an extension or the trailer.
    fn extra_step(&mut self, byte: u8) -> Result<State, Malformed> {
        use State::*;
        self.extra = self.extra.checked_sub(1).ok_or(Malformed)?;
        let token = is_token_byte(byte);
        let text = matches!(byte, b'\t' | b' '..=0x7e | 0x80..);
        Ok(match (self.state, byte) {
            (BeforeSemicolon | AfterName, b' ' | b'\t') => self.state,
            (BeforeSemicolon | Name | AfterName | Value | AfterQuoted, b';') => BeforeName,
            (Name | Value | AfterQuoted, b'\r') => SizeLf,
            (BeforeName | BeforeValue, b' ' | b'\t') => self.state,
            (BeforeName | Name, _) if token => Name,
            (Name, b' ' | b'\t') => AfterName,
            (Name | AfterName, b'=') => BeforeValue,
            (BeforeValue, b'"') => Quoted,
            (BeforeValue | Value, _) if token => Value,
            (Value | AfterQuoted, b' ' | b'\t') => BeforeSemicolon,
            (Quoted, b'"') => AfterQuoted,
            (Quoted, b'\\') => Escaped,
            (Quoted | Escaped, _) if text => Quoted,
            (TrailerStart | TrailerName, _) if token => TrailerName,
            (TrailerName, b':') => TrailerValue,
            (TrailerValue, b'\r') => TrailerLf,
            (TrailerValue, _) if text => TrailerValue,
            (TrailerLf, b'\n') => TrailerStart,
            _ => return Err(Malformed),
        })
    }
}

impl Default for Chunked {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests;
