//! Cost of the frames of a client.

use super::frames::{CONTINUATION, DATA, Frame, HEADERS, PADDED, SETTINGS};
use crate::streams::{BYTES_PER_CREDIT, Budget};

/// Names of the frame types 0 to 9; the last is for all others.
pub(super) const TYPE_NAMES: [&str; 11] = [
    "DATA",
    "HEADERS",
    "PRIORITY",
    "RST_STREAM",
    "SETTINGS",
    "PUSH_PROMISE",
    "PING",
    "GOAWAY",
    "WINDOW_UPDATE",
    "CONTINUATION",
    "extension",
];

/// Subtracts the cost of a frame.
pub(super) fn spend(budget: &Budget, frame: Frame) {
    budget.spend(usize::from(frame.kind), cost_of(frame.kind, frame.flags, frame.length));
}

fn cost_of(kind: u8, flags: u8, length: u32) -> u32 {
    let fixed = match kind {
        // `h2` itself bounds short DATA frames that were not read yet.
        DATA if length > 0 && flags & PADDED == 0 => return 0,
        DATA => return 1,
        HEADERS | CONTINUATION => 5,
        SETTINGS => 10,
        _ => 1,
    };
    fixed + length / BYTES_PER_CREDIT as u32
}

#[cfg(test)]
mod tests {
    use super::super::frames::{Frames, Piece};
    use super::*;

    const PING: u8 = 6;

    fn frame(kind: u8, flags: u8, length: usize) -> Vec<u8> {
        let [.., a, b, c] = length.to_be_bytes();
        let mut bytes = vec![a, b, c, kind, flags, 0, 0, 0, 1];
        bytes.resize(9 + length, 0xff);
        bytes
    }

    #[test]
    fn frames_are_counted_wherever_the_reads_cut_them() {
        let mut bytes = vec![0xff; 24];
        let frames = [
            (6, 0, 8),
            (DATA, 0, 1),
            (DATA, 0, 0),
            (DATA, PADDED, 9),
            (HEADERS, 4, 640),
            (99, 0, 0),
        ];
        frames.iter().for_each(|(kind, flags, length)| bytes.extend(frame(*kind, *flags, *length)));
        for size in 1..=bytes.len() {
            let (mut frames, mut cost, mut payload) = (Frames::new(24), 0, 0);
            for part in bytes.chunks(size) {
                frames.read(part, |piece| match piece {
                    Piece::Head(frame) => cost += cost_of(frame.kind, frame.flags, frame.length),
                    Piece::Payload(bytes) => payload += bytes.len(),
                });
            }
            assert_eq!(cost, 1 + 1 + 1 + 15 + 1, "{size} bytes at a time");
            assert_eq!(payload, 8 + 1 + 9 + 640, "{size} bytes at a time");
        }
    }

    #[test]
    fn each_type_of_frame_has_its_cost() {
        for (kind, flags, length, cost) in [
            (DATA, 0, 0, 1),
            (DATA, 0, 640, 0),
            (DATA, 1, 640, 0),
            (DATA, PADDED, 0, 1),
            (DATA, PADDED, 640, 1),
            (HEADERS, 0, 63, 5),
            (HEADERS, 0, 640, 15),
            (CONTINUATION, 0, 64, 6),
            (SETTINGS, 0, 0, 10),
            (PING, 0, 8, 1),
            (99, 0, 128, 3),
        ] {
            assert_eq!(cost_of(kind, flags, length), cost, "{kind} {flags} {length}");
        }
    }
}
