//! Splits the bytes of a client into frames (RFC 9113, 4.1), independent of the sizes of reads.

/// Length of the head of a frame in bytes.
const HEAD_LENGTH: usize = 9;

// Frame types and flags (RFC 9113, 6) that this module needs.
pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PUSH_PROMISE: u8 = 5;
pub(super) const CONTINUATION: u8 = 9;
pub(super) const END_HEADERS: u8 = 4;
pub(super) const PADDED: u8 = 8;
pub(super) const PRIORITY: u8 = 32;

/// The head of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// Frame type.
    pub kind: u8,
    /// Flags of the frame.
    pub flags: u8,
    /// Stream number, without the reserved bit.
    pub stream: u32,
    /// Length of the payload in bytes.
    pub length: u32,
}

/// A part of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// The head of the next frame.
    Head(Frame),
    /// A part of the payload of that frame, not empty.
    Payload(&'a [u8]),
}

/// Position in the sequence of frames.
#[derive(Debug)]
pub struct Frames {
    head: [u8; HEAD_LENGTH],
    /// Bytes of the head received.
    received: usize,
    /// Bytes before the next head.
    left: usize,
    /// The bytes before the next head are a payload, not the preface.
    is_payload: bool,
}

impl Frames {
    /// Creates the position before the first byte; `preface` is the number of bytes before the
    /// first frame.
    pub fn new(preface: usize) -> Self {
        Frames { head: [0; HEAD_LENGTH], received: 0, left: preface, is_payload: false }
    }

    /// Splits the next bytes; `take` gets each piece.
    pub fn read<'a>(&mut self, mut bytes: &'a [u8], mut take: impl FnMut(Piece<'a>)) {
        loop {
            let (payload, rest) = bytes.split_at(self.left.min(bytes.len()));
            self.left -= payload.len();
            if self.is_payload && !payload.is_empty() {
                take(Piece::Payload(payload));
            }
            let (part, rest) = rest.split_at((HEAD_LENGTH - self.received).min(rest.len()));
            self.head[self.received..][..part.len()].copy_from_slice(part);
            self.received += part.len();
            if self.received < HEAD_LENGTH {
                return;
            }
            let [a, b, c, kind, flags, s1, s2, s3, s4] = self.head;
            let length = u32::from_be_bytes([0, a, b, c]);
            let stream = u32::from_be_bytes([s1, s2, s3, s4]) & (u32::MAX >> 1);
            take(Piece::Head(Frame { kind, flags, stream, length }));
            (self.received, self.left, self.is_payload, bytes) = (0, length as usize, true, rest);
        }
    }
}
