//! Lines that a log server, or the reader of a pipe, has not taken yet.
//!
//! The socket of a syslog daemon on Linux holds 10 datagrams by default, fewer than a busy thread
//! writes at once, and a daemon that is restarted takes none for a moment. The router waits for
//! neither: lines that cannot be sent stay in memory, up to a limit, and are sent a little later.
//! So do lines of a file whose disk is full.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Maximum number of bytes that wait for a server. At 2,000 requests a second, lines of 200 bytes
/// for ten seconds.
const MAX_BYTES: usize = 4 << 20;

/// Minimum time between two reports about lost lines.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// The content of one write: a datagram with a line, or whole lines.
#[derive(Debug, Clone, Copy)]
pub struct Piece<'l> {
    /// Its bytes.
    pub parts: [&'l [u8]; 3],
    /// Number of its lines.
    pub lines: u64,
}

/// Result of an attempt to write a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// The piece is done.
    All,
    /// This number of its first bytes; the rest waits.
    Bytes(usize),
    /// Nothing.
    Nothing,
}

/// Pieces in the order of their lines, and the number of lost lines.
#[derive(Debug, Default)]
pub struct Backlog {
    pieces: VecDeque<(Box<[u8]>, u64)>,
    bytes: usize,
    /// Lines that were lost since the last report.
    lost: u64,
    reported: Option<Instant>,
    /// The lines that are left at the end were reported.
    is_final: bool,
}

/// State of a backlog after an attempt to send it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// No bytes are left.
    All,
    /// The server has taken some of it.
    Some,
    /// The server has taken no bytes.
    Nothing,
}

impl Backlog {
    /// Returns true if no bytes wait.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Adds a piece, or counts its lines as lost if too many wait.
    pub fn push(&mut self, piece: Piece<'_>) {
        let bytes = piece.parts.concat();
        if self.bytes + bytes.len() > MAX_BYTES {
            return self.lose(piece.lines);
        }
        self.bytes += bytes.len();
        self.pieces.push_back((bytes.into(), piece.lines));
    }

    /// Counts lines as lost.
    pub fn lose(&mut self, lines: u64) {
        self.lost = self.lost.saturating_add(lines);
    }

    /// Returns the number of lines that are lost at the end of the router, once.
    pub fn left(&mut self) -> Option<u64> {
        let waiting = self.pieces.iter().map(|(_, lines)| lines).sum();
        let left = self.lost.saturating_add(waiting);
        (left > 0 && !std::mem::replace(&mut self.is_final, true)).then_some(left)
    }

    /// Sends the pieces in their order with `send`, until it does not take all of one.
    pub fn send(&mut self, mut send: impl FnMut(Piece<'_>) -> Taken) -> Sent {
        let before = (self.pieces.len(), self.bytes);
        while let Some((first, lines)) = self.pieces.front_mut() {
            match send(Piece { parts: [first, b"", b""], lines: *lines }) {
                Taken::All => {
                    self.bytes -= first.len();
                    self.pieces.pop_front();
                }
                Taken::Bytes(count) => {
                    let (written, rest) = first.split_at(count.min(first.len()));
                    *lines -= lines_in(written).min(*lines);
                    self.bytes -= written.len();
                    *first = rest.into();
                    break;
                }
                Taken::Nothing => break,
            }
        }
        match self.pieces.len() {
            0 => {
                self.pieces = VecDeque::new(); // its memory is rarely needed
                Sent::All
            }
            left if (left, self.bytes) < before => Sent::Some,
            _ => Sent::Nothing,
        }
    }

    /// Returns true if lost lines were not reported.
    pub fn has_lost(&self) -> bool {
        self.lost > 0
    }

    /// Returns the number of lost lines if it has to be reported now. The first loss is reported at
    /// once, further ones together.
    pub fn report(&mut self, now: Instant) -> Option<u64> {
        let is_due = self.reported.is_none_or(|last| now.duration_since(last) >= REPORT_INTERVAL);
        if self.lost == 0 || !is_due {
            return None;
        }
        self.reported = Some(now);
        Some(std::mem::take(&mut self.lost))
    }
}

/// Returns the number of lines that end in a text.
pub fn lines_in(text: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', text).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece<'l>(parts: [&'l [u8]; 3]) -> Piece<'l> {
        Piece { parts, lines: 1 }
    }

    #[test]
    fn pieces_are_sent_in_their_order_when_the_server_takes_them() {
        let mut backlog = Backlog::default();
        for line in [b"1", b"2", b"3"] {
            backlog.push(piece([b"<", line, b">"]));
        }
        assert_eq!(backlog.send(|_| Taken::Nothing), Sent::Nothing);
        let mut sent = Vec::new();
        let state = backlog.send(|piece| {
            sent.push(piece.parts.concat());
            if sent.len() < 3 { Taken::All } else { Taken::Nothing }
        });
        assert_eq!((state, &*sent.concat()), (Sent::Some, &b"<1><2><3>"[..]));
        let take = |piece: Piece<'_>| {
            if piece.parts.concat() == b"<3>" { Taken::All } else { Taken::Nothing }
        };
        assert_eq!(backlog.send(take), Sent::All);
        assert_eq!((backlog.is_empty(), backlog.bytes), (true, 0));
    }

    #[test]
    fn the_rest_of_a_piece_waits() {
        let mut backlog = Backlog::default();
        backlog.push(Piece { parts: [b"a\nb\nc\n", b"", b""], lines: 3 });
        assert_eq!(backlog.send(|_| Taken::Bytes(0)), Sent::Nothing);
        assert_eq!(backlog.send(|_| Taken::Bytes(4)), Sent::Some);
        assert_eq!(backlog.bytes, 2);
        let mut rest = None;
        let take = |piece: Piece<'_>| {
            rest = Some((piece.parts.concat(), piece.lines));
            Taken::All
        };
        assert_eq!(backlog.send(take), Sent::All);
        assert_eq!((rest, backlog.bytes), (Some((b"c\n".to_vec(), 1)), 0));
    }

    #[test]
    fn a_full_backlog_loses_new_lines_and_counts_them() {
        let (mut backlog, now) = (Backlog::default(), Instant::now());
        let line = vec![b'x'; MAX_BYTES / 4];
        (0..6).for_each(|_| backlog.push(piece([b"", &line, b""])));
        assert!(backlog.bytes <= MAX_BYTES && backlog.pieces.len() == 4);
        assert_eq!(backlog.report(now), Some(2));
        backlog.push(piece([b"", &line, b""]));
        assert_eq!(backlog.report(now + REPORT_INTERVAL / 2), None, "not so soon");
        backlog.push(piece([b"", &line, b""]));
        assert_eq!(backlog.report(now + REPORT_INTERVAL), Some(2));
        assert_eq!(backlog.report(now + 2 * REPORT_INTERVAL), None);
        assert_eq!((backlog.left(), backlog.left()), (Some(4), None), "each thread asks");
    }
}
