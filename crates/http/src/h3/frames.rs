//! Splits the bytes of a stream into frames (RFC 9114, 7.1), independent of the sizes of reads. A
//! frame may have any length: its payload is passed on as it arrives.

use bytes::Bytes;

use super::varint::Varint;

/// Types of frames (RFC 9114, 7.2; RFC 9218, 7.2).
pub mod kind {
    #![allow(missing_docs)]
    pub const DATA: u64 = 0x0;
    pub const HEADERS: u64 = 0x1;
    pub const CANCEL_PUSH: u64 = 0x3;
    pub const SETTINGS: u64 = 0x4;
    pub const PUSH_PROMISE: u64 = 0x5;
    pub const GOAWAY: u64 = 0x7;
    pub const MAX_PUSH_ID: u64 = 0xd;
    pub const PRIORITY_UPDATE: u64 = 0xf0700;
    pub const PRIORITY_UPDATE_PUSH: u64 = 0xf0701;

    /// Returns true for types of HTTP/2 that HTTP/3 has no frame for, which are never ignored (RFC
    /// 9114, 7.2.8).
    pub fn is_of_http_2(kind: u64) -> bool {
        matches!(kind, 0x2 | 0x6 | 0x8 | 0x9)
    }
}

/// The head of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// Frame type.
    pub kind: u64,
    /// Length of the payload in bytes.
    pub length: u64,
}

/// A part of the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// The head of the next frame.
    Head(Frame),
    /// A part of the payload of that frame, not empty.
    Payload(Bytes),
}

/// Position in the sequence of frames.
#[derive(Debug, Default)]
pub struct Frames {
    number: Varint,
    /// Type of the frame whose length follows.
    kind: Option<u64>,
    /// Bytes of the payload before the next head.
    left: u64,
}

impl Frames {
    /// Takes the next piece off `input`. `None` if more bytes are needed.
    pub fn next(&mut self, input: &mut Bytes) -> Option<Piece> {
        if self.left > 0 && !input.is_empty() {
            let length = usize::try_from(self.left).unwrap_or(usize::MAX).min(input.len());
            self.left -= length as u64;
            return Some(Piece::Payload(input.split_to(length)));
        }
        for (at, byte) in input.iter().enumerate() {
            let Some(value) = self.number.push(*byte) else { continue };
            match self.kind.take() {
                None => self.kind = Some(value),
                Some(kind) => {
                    let _ = input.split_to(at + 1);
                    self.left = value;
                    return Some(Piece::Head(Frame { kind, length: value }));
                }
            }
        }
        input.clear();
        None
    }

    /// Returns the number of bytes of the current payload that were not returned yet.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Returns true if a stream must not end here: within a frame.
    pub fn is_open(&self) -> bool {
        self.left > 0 || self.kind.is_some() || self.number.is_open()
    }
}

/// Appends the head of a frame.
pub fn put_head(kind: u64, length: usize, out: &mut Vec<u8>) {
    super::varint::put(kind, out);
    super::varint::put(length as u64, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the frames in pieces of a stream, with their payloads, and whether the last one is
    /// incomplete.
    fn frames(bytes: &[u8], size: usize) -> (Vec<(Frame, Vec<u8>)>, bool) {
        let (mut frames, mut found) = (Frames::default(), Vec::<(Frame, Vec<u8>)>::new());
        for part in bytes.chunks(size) {
            let mut input = Bytes::copy_from_slice(part);
            while let Some(piece) = frames.next(&mut input) {
                match piece {
                    Piece::Head(frame) => found.push((frame, Vec::new())),
                    Piece::Payload(payload) => {
                        assert!(!payload.is_empty());
                        found.last_mut().expect("a head comes first").1.extend_from_slice(&payload);
                    }
                }
            }
            assert!(input.is_empty());
        }
        (found, frames.is_open())
    }

    #[test]
    fn frames_are_the_same_however_the_bytes_are_cut() {
        let mut bytes = Vec::new();
        let expected: Vec<_> = [(0, 3), (1, 0), (0x21 + 31 * 0x1f, 70), (0xf0700, 20_000), (4, 1)]
            .into_iter()
            .map(|(kind, length)| {
                put_head(kind, length, &mut bytes);
                bytes.resize(bytes.len() + length, kind as u8);
                (Frame { kind, length: length as u64 }, vec![kind as u8; length])
            })
            .collect();
        for size in (1..40).chain([bytes.len()]) {
            assert_eq!(frames(&bytes, size), (expected.clone(), false), "{size} bytes at a time");
        }
        let ends = [0, 5, 7];
        for end in 0..10 {
            assert_eq!(frames(&bytes[..end], 100).1, !ends.contains(&end), "{end} bytes");
        }
    }

    #[test]
    fn the_longest_frame_is_passed_on_in_parts() {
        let mut frames = Frames::default();
        let head = [&[0x00][..], &[0xff; 8]].concat();
        let mut input = Bytes::from([&head[..], b"abc"].concat());
        let length = (1 << 62) - 1;
        assert_eq!(frames.next(&mut input), Some(Piece::Head(Frame { kind: 0, length })));
        assert_eq!(frames.next(&mut input), Some(Piece::Payload("abc".into())));
        assert_eq!(frames.next(&mut input), None);
        assert_eq!(frames.left(), length - 3);
    }
}
