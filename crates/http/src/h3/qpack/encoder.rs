//! Writing field sections (RFC 9204, 4.5) that need no dynamic table.

use super::integer;
use super::table::{Found, find};
use crate::streams::huffman;

/// Begins a section: it refers to no entry of a dynamic table.
pub fn begin(out: &mut Vec<u8>) {
    out.extend_from_slice(&[0, 0]);
}

/// Appends `:status`.
pub fn put_status(status: u16, out: &mut Vec<u8>) {
    put_field(b":status", status.to_string().as_bytes(), out);
}

/// Appends a field; its name is written in lower case.
pub fn put_field(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    match find(name, value) {
        Found::Field(index) => return integer::put(0xc0, 6, index, out),
        Found::Name(index) => integer::put(0x50, 4, index, out),
        Found::Nothing if name.iter().any(u8::is_ascii_uppercase) => {
            put_text(0x20, 3, &name.to_ascii_lowercase(), out);
        }
        Found::Nothing => put_text(0x20, 3, name, out),
    }
    put_text(0, 7, value, out);
}

/// Appends a string with its length in a prefix of `bits` bits; the bit before the prefix tells that
/// the string is coded.
fn put_text(mark: u8, bits: u32, text: &[u8], out: &mut Vec<u8>) {
    let coded = huffman::encoded_len(text);
    if coded < text.len() {
        integer::put(mark | 1 << bits, bits, coded, out);
        huffman::encode(text, out);
    } else {
        integer::put(mark, bits, text.len(), out);
        out.extend_from_slice(text);
    }
}
