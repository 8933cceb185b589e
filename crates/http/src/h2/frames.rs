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

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the heads in pieces of a connection, and the payload of each.
    fn frames(bytes: &[u8], preface: usize, size: usize) -> Vec<(Frame, Vec<u8>)> {
        let (mut frames, mut found) = (Frames::new(preface), Vec::<(Frame, Vec<u8>)>::new());
        for part in bytes.chunks(size) {
            frames.read(part, |piece| match piece {
                Piece::Head(frame) => found.push((frame, Vec::new())),
                Piece::Payload(payload) => {
                    assert!(!payload.is_empty());
                    found.last_mut().expect("a head comes first").1.extend_from_slice(payload);
                }
            });
        }
        found
    }

    #[test]
    fn frames_are_the_same_however_the_bytes_are_cut() {
        let bytes = b"preface\
            \x00\x00\x03\x00\x01\x00\x00\x00\x01abc\
            \x00\x00\x00\x04\x01\x00\x00\x00\x00\
            \x00\x01\x02\x09\x04\xff\x02\x03\x04";
        let large = [&bytes[..], &[b'x'; 0x102], b"\0\0\x05\x01"].concat();
        let frame = |kind, flags, stream, length| Frame { kind, flags, stream, length };
        let expected = [
            (frame(DATA, 1, 1, 3), b"abc".to_vec()),
            (frame(SETTINGS, 1, 0, 0), Vec::new()),
            // The reserved bit of the stream number is ignored.
            (frame(CONTINUATION, 4, 0x7f02_0304, 0x102), vec![b'x'; 0x102]),
        ];
        for size in 1..=large.len() {
            assert_eq!(frames(&large, 7, size), expected, "{size} bytes at a time");
        }
    }
}
