//! FastCGI records, in both directions and without I/O (FastCGI Specification, section 3 and 8).
//!
//! A connection is a sequence of records: eight bytes of header, up to 65,535 bytes of content, and
//! up to 255 bytes of padding. Records of one type form a stream (parameters, body, output), which
//! an empty record ends.
//!
//! Encoding splits content that is longer than a record, so a length never wraps (the bug behind
//! smuggled requests in other implementations). Decoding takes bytes as they arrive and returns
//! content without waiting for the rest of its record.

mod answers;
mod pairs;
mod records;
mod requests;

#[cfg(test)]
mod tests;

pub use self::answers::{Answer, Answers};
pub use self::pairs::{Pairs, put_pair, put_params};
pub use self::records::{
    End, HEADER, Kind, MAX_CONTENT_BYTES, Part, Protocol, Records, Role, header, put_begin,
    put_end_of_stream, put_stream,
};
pub use self::requests::{MAX_PARAMS, MAX_PARAMS_BYTES, Received, Reply, RequestHead, Requests};
