//! The instructions of a client on its encoder and decoder streams (RFC 9204, 4.3 and 4.4).
//!
//! The server permits a dynamic table of no capacity and has none of its own, so nearly all of them
//! are errors. They are read nevertheless, as a client that sends them has lost track.

use super::integer::{Integer, Progress};
use crate::h3::error::{Code, ConnectionError};

/// A stream of instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// From the client's encoder.
    Encoder,
    /// From the client's decoder.
    Decoder,
}

/// Reader of the instructions of a stream.
#[derive(Debug)]
pub struct Instructions {
    kind: Kind,
    /// The integer of an instruction that is not complete.
    open: Option<Integer>,
}

impl Instructions {
    /// Creates the reader at the start of a stream.
    pub fn new(kind: Kind) -> Self {
        Instructions { kind, open: None }
    }

    /// Reads the next bytes.
    pub fn read(&mut self, bytes: &[u8]) -> Result<(), ConnectionError> {
        bytes.iter().try_for_each(|byte| self.byte(*byte))
    }

    fn byte(&mut self, byte: u8) -> Result<(), ConnectionError> {
        let progress = match (self.open.take(), self.kind) {
            (Some(integer), _) => integer.push(byte),
            // Set Dynamic Table Capacity; all others insert an entry.
            (None, Kind::Encoder) if byte & 0xe0 == 0x20 => Integer::begin(byte, 5),
            (None, Kind::Encoder) => return Err(self.error("an entry for a table of no capacity")),
            // Stream Cancellation; the server's sections need no acknowledgement, and it has
            // inserted no entry.
            (None, Kind::Decoder) if byte & 0xc0 == 0x40 => Integer::begin(byte, 6),
            (None, Kind::Decoder) => {
                return Err(self.error("an acknowledgement of entries that do not exist"));
            }
        };
        match (progress, self.kind) {
            (Progress::Open(integer), _) => self.open = Some(integer),
            (Progress::Value(0), _) | (Progress::Value(_), Kind::Decoder) => {}
            (Progress::Value(_), Kind::Encoder) => {
                return Err(self.error("a capacity above SETTINGS_QPACK_MAX_TABLE_CAPACITY"));
            }
            (Progress::TooLarge, _) => return Err(self.error("an integer of more than 62 bits")),
        }
        Ok(())
    }

    fn error(&self, reason: &'static str) -> ConnectionError {
        let code = match self.kind {
            Kind::Encoder => Code::QpackEncoderStreamError,
            Kind::Decoder => Code::QpackDecoderStreamError,
        };
        ConnectionError::new(code, reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(kind: Kind, bytes: &[u8]) -> Option<Code> {
        let at_once = Instructions::new(kind).read(bytes);
        let mut reader = Instructions::new(kind);
        let in_pieces = bytes.iter().try_for_each(|byte| reader.read(&[*byte]));
        assert_eq!(at_once, in_pieces);
        at_once.err().map(|error| error.code)
    }

    #[test]
    fn only_instructions_without_an_effect_are_accepted() {
        for (kind, bytes, expected) in [
            (Kind::Encoder, &[0x20, 0x20][..], None),
            (Kind::Encoder, &[0x3f], None),
            (Kind::Encoder, &[0x21], Some(Code::QpackEncoderStreamError)),
            (Kind::Encoder, &[0x3f, 0xe1, 0x1f], Some(Code::QpackEncoderStreamError)),
            (Kind::Encoder, &[0xc0, 0], Some(Code::QpackEncoderStreamError)), // with a name
            (Kind::Encoder, &[0x80, 0], Some(Code::QpackEncoderStreamError)),
            (Kind::Encoder, &[0x41, b'a', 0], Some(Code::QpackEncoderStreamError)),
            (Kind::Encoder, &[0x00], Some(Code::QpackEncoderStreamError)), // duplicate
            (Kind::Decoder, &[0x40, 0x44, 0x7f, 0x00], None),
            (Kind::Decoder, &[0x80], Some(Code::QpackDecoderStreamError)), // acknowledgement
            (Kind::Decoder, &[0x00], Some(Code::QpackDecoderStreamError)), // increment of 0
            (Kind::Decoder, &[0x01], Some(Code::QpackDecoderStreamError)),
        ] {
            assert_eq!(code(kind, bytes), expected, "{kind:?} {bytes:x?}");
        }
        let long = [&[0x7f][..], &[0xff; 10]].concat();
        assert_eq!(code(Kind::Decoder, &long), Some(Code::QpackDecoderStreamError));
    }
}
