//! Sections of every representation, cut at all places.

use proptest::prelude::*;

use super::*;
use crate::h3::qpack::{begin, integer, put_field, put_status};
use crate::streams::huffman;

type Lines = Vec<(Vec<u8>, Vec<u8>)>;

/// Decodes a section whose bytes arrive in pieces of this size.
fn decoded(bytes: &[u8], size: usize, max: usize) -> Result<Lines, SectionError> {
    let mut decoder = Decoder::new(max);
    for piece in bytes.chunks(size) {
        decoder.read(piece)?;
    }
    let section = decoder.end()?;
    let lines: Lines = section.iter().map(|(n, v)| (n.to_vec(), v.to_vec())).collect();
    assert_eq!(lines.len(), section.len());
    assert_eq!(lines.iter().map(|(n, v)| n.len() + v.len()).sum::<usize>(), section.bytes());
    Ok(lines)
}

fn whole(bytes: &[u8]) -> Result<Lines, SectionError> {
    decoded(bytes, usize::MAX, 1 << 16)
}

fn line(name: &str, value: &str) -> (Vec<u8>, Vec<u8>) {
    (name.into(), value.into())
}

#[test]
fn each_representation_is_read_however_it_is_cut() {
    // The example of RFC 9204, B.1, with each kind of line behind it.
    let mut bytes = vec![0, 0, 0x51, 11];
    bytes.extend_from_slice(b"/index.html");
    bytes.push(0xc0 | 17);
    bytes.extend_from_slice(&[0x77, 3, b'a', b' ', b'b']); // never indexed, name 7
    bytes.extend_from_slice(&[0x23, b'x', b'-', b'y', 0]);
    let (mut name, mut value) = (Vec::new(), Vec::new());
    huffman::encode(b"x-other-name", &mut name);
    huffman::encode(b"value", &mut value);
    integer::put(0x38, 3, name.len(), &mut bytes);
    bytes.extend_from_slice(&name);
    integer::put(0x80, 7, value.len(), &mut bytes);
    bytes.extend_from_slice(&value);
    integer::put(0xc0, 6, 98, &mut bytes);
    let expected = vec![
        line(":path", "/index.html"),
        line(":method", "GET"),
        line("etag", "a b"),
        line("x-y", ""),
        line("x-other-name", "value"),
        line("x-frame-options", "sameorigin"),
    ];
    for size in 1..=bytes.len() {
        assert_eq!(decoded(&bytes, size, 4096), Ok(expected.clone()), "{size} bytes at a time");
    }
    // Cut within a line, it is no section.
    let ends = [2, 15, 16, 21, 26, bytes.len() - 2];
    for end in 0..bytes.len() {
        assert_eq!(whole(&bytes[..end]).is_ok(), ends.contains(&end), "{end} bytes");
    }
}

#[test]
fn what_refers_to_a_dynamic_table_or_to_nothing_cannot_be_decoded() {
    for bytes in [
        &[][..],
        &[0],
        &[1, 0, 0xd1],             // an insert count
        &[0xff, 0, 0, 0xd1],       // a long one
        &[0, 0x80, 0xd1],          // a base below zero
        &[0, 0, 0x80],             // an indexed field of the dynamic table
        &[0, 0, 0x40, 0],          // a name of the dynamic table
        &[0, 0, 0x10],             // an indexed field behind the base
        &[0, 0, 0x00, 0],          // a name behind the base
        &[0, 0, 0xff, 99 - 63],    // index 99
        &[0, 0, 0x5f, 99 - 15, 0], // a name of index 99
        &[0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
        &[0, 0, 0xd1, 0x51],                         // cut before the value
        &[0, 0, 0x51, 5, b'/'],                      // cut within it
        &[0, 0, 0x51, 0x81, 0x00],                   // padding of zeros
        &[0, 0, 0x51, 0x82, 0x07, 0xff],             // padding of more than seven bits
        &[0, 0, 0x51, 0x84, 0xff, 0xff, 0xff, 0xff], // the code of the end
        &[0, 0, 0x2f, 0x01, 0xff],                   // a name with that padding
    ] {
        assert_eq!(whole(bytes), Err(SectionError::Invalid), "{bytes:x?}");
    }
    assert_eq!(whole(&[0, 0]), Ok(Vec::new()));
    // Any base will do if nothing refers to it.
    assert_eq!(whole(&[0, 0x7f, 0x80, 0x01, 0xd1]), Ok(vec![line(":method", "GET")]));
}

#[test]
fn a_section_is_refused_as_soon_as_it_is_too_long() {
    let mut bytes = Vec::new();
    begin(&mut bytes);
    put_field(b"x-a", b"1234", &mut bytes);
    put_field(b":method", b"GET", &mut bytes);
    let size = 2 * 32 + 3 + 4 + 7 + 3;
    assert!(decoded(&bytes, 1, size).is_ok());
    for max in 0..size {
        assert_eq!(decoded(&bytes, 1, max), Err(SectionError::TooLong), "{max}");
    }
    // The length of a string is enough for that.
    let announced = [&[0, 0, 0x51, 0x7f][..], &[0xff; 6], &[0x7f]].concat();
    assert_eq!(Decoder::new(1 << 20).read(&announced), Err(SectionError::TooLong));
    // One byte for each field.
    let bomb = [&[0, 0][..], &[0xd1; 5000]].concat();
    let mut decoder = Decoder::new(32 << 10);
    assert_eq!(decoder.read(&bomb), Err(SectionError::TooLong));
    assert!(decoder.section.len() <= 1000);
    // Codes of five bits.
    let mut coded = vec![0, 0, 0x51, 0xff, 0x81, 0x7f];
    coded.resize(10_000, 0);
    let mut decoder = Decoder::new(1000);
    assert_eq!(decoder.read(&coded), Err(SectionError::TooLong));
    assert!(decoder.section.bytes() <= 1002);
}

#[test]
fn a_response_is_written_shortly() {
    let mut bytes = Vec::new();
    begin(&mut bytes);
    put_status(200, &mut bytes);
    put_field(b"Content-Type", b"text/css", &mut bytes);
    assert_eq!(bytes, [0, 0, 0xd9, 0xf3]);
    put_status(418, &mut bytes);
    put_field(b"X-Powered-By", b"PHP", &mut bytes);
    let expected = vec![
        line(":status", "200"),
        line("content-type", "text/css"),
        line(":status", "418"),
        line("x-powered-by", "PHP"),
    ];
    assert_eq!(whole(&bytes), Ok(expected));
}

proptest! {
    #[test]
    fn what_was_written_is_read(
        fields in proptest::collection::vec((".{0,40}", "\\PC{0,200}"), 0..8),
        known in proptest::collection::vec((0usize..99, any::<bool>()), 0..4),
        size in 1usize..50,
    ) {
        let (mut bytes, mut expected) = (Vec::new(), Lines::new());
        begin(&mut bytes);
        for (name, value) in &fields {
            put_field(name.as_bytes(), value.as_bytes(), &mut bytes);
            expected.push((name.to_ascii_lowercase().into_bytes(), value.clone().into_bytes()));
        }
        for (index, is_other) in known {
            let (name, value) = crate::h3::qpack::table::STATIC[index];
            let value = if is_other { "other" } else { value };
            put_field(name.as_bytes(), value.as_bytes(), &mut bytes);
            expected.push(line(name, value));
        }
        prop_assert_eq!(decoded(&bytes, size, 1 << 20), Ok(expected));
    }

    #[test]
    fn any_bytes_give_the_same_however_they_are_cut(
        bytes in proptest::collection::vec(any::<u8>(), 0..80),
        size in 1usize..20,
    ) {
        let bytes = [&[0, 0][..], &bytes].concat();
        prop_assert_eq!(decoded(&bytes, size, 500), decoded(&bytes, usize::MAX, 500));
    }
}
