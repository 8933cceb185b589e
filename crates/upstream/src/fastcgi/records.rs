//! Framing of a request's body for a FastCGI server: STDIN records.

use howdah_wire::fastcgi::{Kind, MAX_CONTENT_BYTES, header, put_end_of_stream};

use crate::transfer::upload::BodyFraming;

/// Request id on a connection, which has one request at a time.
pub const REQUEST_ID: u16 = 1;

/// Frames a body as records of the type STDIN.
#[derive(Debug)]
pub struct StdinRecords;

impl BodyFraming for StdinRecords {
    const MAX_PIECE: usize = MAX_CONTENT_BYTES;

    fn frame(&self, len: usize, trailer: Option<&[u8]>, before: &mut Vec<u8>, after: &mut Vec<u8>) {
        if let (1.., Ok(len)) = (len, u16::try_from(len)) {
            before.extend_from_slice(&header(Kind::Stdin, REQUEST_ID, len));
        }
        if trailer.is_some() {
            put_end_of_stream(Kind::Stdin, REQUEST_ID, after);
        }
    }
}
