//! Request heads, parsed in two steps.
//!
//! 1. [`Scan`] finds the end of the head, independent of the sizes of reads, and searches each byte
//!    only once. It immediately refuses bytes that cannot become a head, so that a client of
//!    another protocol gets an answer.
//! 2. [`Head::parse`] reads the complete head: request line, target, fields, and the fields about
//!    framing and persistence. Names and values are slices of the buffer.
//!
//! As RFC 9112 requires, names are tokens directly before the colon, values have one line and no
//! control byte. A line may end in LF alone, as 2.2 permits and nginx and Unit accept, unless the
//! body is chunked: a proxy that reads such a line as part of the previous one would allow request
//! smuggling.
//!
//! Unless [`Limits::strict`] is set, a request needs no host, its host may have any characters, and
//! its target may have spaces and a fragment. A lenient request is made valid here: spaces are
//! encoded, the fragment is cut off, the host is percent-encoded. So scripts and upstream servers
//! read the same target and host as the routes.
//!
//! This module reads no clock and no socket.

mod fields;
mod lines;
mod parse;
mod scan;
mod target;

#[cfg(test)]
mod tests;

use bytes::Bytes;

use crate::limits::Limits;

pub use crate::refusal::Refusal;

pub use self::parse::Head;
pub use self::scan::{Scan, Scanned};

/// Result of [`parse_head`].
#[derive(Debug)]
pub enum Parse {
    /// The head is incomplete.
    Partial,
    /// The input is not a valid head.
    Refused(Refusal),
    /// The head, and the number of bytes up to its end.
    Complete(Box<Head>, usize),
}

/// Parses the head at the start of `input`, like a connection that receives it in one read.
pub fn parse_head(input: &[u8], limits: &Limits) -> Parse {
    match Scan::default().advance(input, limits) {
        Scanned::Partial => Parse::Partial,
        Scanned::Refused(refusal) => Parse::Refused(refusal),
        Scanned::Complete(range) => {
            let end = range.end;
            let head = input.get(range).map(Bytes::copy_from_slice).unwrap_or_default();
            match Head::parse(head, limits) {
                Ok(head) => Parse::Complete(Box::new(head), end),
                Err(refusal) => Parse::Refused(refusal),
            }
        }
    }
}
