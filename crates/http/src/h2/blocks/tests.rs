//! Header blocks in every representation, cut at all places; results are compared with those of
//! `h2`.

use std::collections::HashMap;

use proptest::prelude::*;
use tokio::io::AsyncWriteExt;

use super::super::frames::{DATA, Frames, SETTINGS};
use super::super::hpack::{Found, STATIC};
use super::super::io::PREFACE;
use super::*;
use crate::streams::huffman;

fn encoded(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    huffman::encode(text, &mut bytes);
    bytes
}

const END_STREAM: u8 = 1;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = (payload.len() as u32).to_be_bytes();
    [&[a, b, c, kind, flags][..], &stream.to_be_bytes(), payload].concat()
}

/// Returns the flaws found in frames that arrive in pieces of this size.
fn flaws(bytes: &[u8], size: usize) -> Vec<(u32, MalformedRequest)> {
    let flaws = Rc::new(Flaws::default());
    let (mut frames, mut blocks) = (Frames::new(0), Blocks::new(Rc::clone(&flaws)));
    for part in bytes.chunks(size) {
        frames.read(part, |piece| blocks.take(piece));
    }
    let found = flaws.0.borrow();
    found.iter().copied().collect()
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<_> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

#[test]
fn the_examples_of_the_rfc_leave_the_table_that_it_says() {
    // RFC 7541, C.3 and C.4: the same three requests, without and with Huffman's code.
    for blocks in [
        [
            "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
            "8286 84be 5808 6e6f 2d63 6163 6865",
            "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
        ],
        [
            "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
            "8286 84be 5886 a8eb 1064 9cbf",
            "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
        ],
    ] {
        let mut reader = Reader::default();
        for (block, size) in blocks.into_iter().zip([57, 110, 164]) {
            reader.read(&hex(block));
            assert_eq!(reader.end(), Found { pseudo: true, fragment: false });
            assert_eq!(reader.size(), size);
        }
    }
}

#[test]
fn a_fragment_and_a_pseudo_field_in_a_trailer_are_found_however_they_are_sent() {
    let all = END_HEADERS | END_STREAM;
    let head = |path: &[u8]| [&[0x82, 0x86, 0x41, 1, b'a'], path].concat();
    let hash = &b"\x04\x03/#x"[..];
    let mut bytes = Vec::new();
    // Stream 1: a new name and value, added to the dynamic table.
    bytes.extend(frame(HEADERS, all, 1, &head(b"\x40\x05:path\x03/#x")));
    bytes.extend(frame(HEADERS, all, 3, &[0x82, 0x86, 0xbf, 0x80 | 62]));
    // The name of that entry with another value, and then with one that has a fragment too.
    bytes.extend(frame(HEADERS, all, 5, &[&[0x82, 0x86, 0xbf, 15, 47, 1][..], b"/"].concat()));
    bytes.extend(frame(HEADERS, all, 7, &[&[0x82, 0x86, 0xbf, 15, 47, 2][..], b"/#"].concat()));
    // Huffman-coded, padded, with a priority, and in two frames.
    let code = encoded(b"/#");
    let coded = [&[0x82, 0x86, 0xbf, 4, 0x80 | code.len() as u8][..], &code].concat();
    let padded = [&[7, 0, 0, 0, 1, 9][..], &coded, b"\x04\x02/#\0\0\0"].concat();
    bytes.extend(frame(HEADERS, all | PADDED | PRIORITY, 9, &padded));
    bytes.extend(frame(HEADERS, END_STREAM, 11, &coded[..5]));
    bytes.extend(frame(CONTINUATION, 0, 11, b""));
    bytes.extend(frame(CONTINUATION, END_HEADERS, 11, &coded[5..]));
    // HEADERS of a stream that has had a head are a trailer.
    let with_body = head(b"\x04\x02/a");
    for (stream, trailer) in [
        (13, &b"\x00\x01x\x01#"[..]),
        (15, b"\x00\x05:path\x01/"),
        (17, &[0x82]),
        (19, &[0xbf]),
        (21, hash),
    ] {
        bytes.extend(frame(HEADERS, END_HEADERS, stream, &with_body));
        bytes.extend(frame(DATA, 0, stream, b"some body"));
        bytes.extend(frame(HEADERS, all, stream, trailer));
    }
    let expected: Vec<_> = [1, 3, 7, 9, 11]
        .map(|stream| (stream, MalformedRequest::Fragment))
        .into_iter()
        .chain([15, 17, 19, 21].map(|stream| (stream, MalformedRequest::PseudoInTrailer)))
        .collect();
    for size in 1..=bytes.len() {
        assert_eq!(flaws(&bytes, size), expected, "{size} bytes at a time");
    }
}

#[test]
fn what_ends_the_connection_is_not_read_on() {
    let flawed = frame(HEADERS, 5, 3, b"\x82\x86\x04\x02/#");
    for broken in [
        frame(HEADERS, 5, 1, &[0x80]),                            // entry 0
        frame(HEADERS, 5, 1, &[0xff, 0]),                         // an entry that is not there
        frame(HEADERS, 5, 1, &[0x3f, 0xe2, 0x1f]),                // too much room
        frame(HEADERS, 5, 1, &[0xff, 0x80, 0x80, 0x80, 0x80, 0]), // too long a number
        // Too long a number, with a value that would do.
        frame(
            HEADERS,
            5,
            1,
            &[&[0x04, 0x7f, 0x80, 0x80, 0x80, 0x80, 0][..], &[b'#'; 127]].concat(),
        ),
        frame(HEADERS, 5, 1, &[0x7e, 0x82]), // the name of an entry that is not there
        // An entry that a smaller table has evicted.
        frame(HEADERS, 5, 1, b"\x40\x01x\x01y\x20\xbe"),
        frame(HEADERS, 5, 1, &[0x04, 5, b'/']), // cut
        frame(HEADERS, 5 | PADDED, 1, &[]),     // no length of the padding
        [frame(HEADERS, 1 | PADDED, 1, &[]), frame(CONTINUATION, 4, 1, b"\x82\x86\x04\x02/#")]
            .concat(),
        frame(HEADERS, 1, 1, &[0x82]),      // no CONTINUATION
        frame(CONTINUATION, 5, 1, &[0x82]), // no HEADERS
        frame(PUSH_PROMISE, 5, 1, &[0, 0, 0, 2, 0x82]),
        // DATA within a header block.
        [
            frame(HEADERS, 1, 1, &[0x82, 0x86]),
            frame(0, 0, 1, &[]),
            frame(CONTINUATION, 4, 1, b"\x04\x02/#"),
        ]
        .concat(),
    ] {
        let bytes = [&broken[..], &flawed].concat();
        assert_eq!(flaws(&bytes, 7), [], "{broken:?}");
    }
    // `h2` does not decode the fields of a head that depends on itself, and neither does this
    // parser, so that both have the same table.
    let itself = frame(HEADERS, 5 | PRIORITY, 1, b"\0\0\0\x01\0\x40\x05:path\x02/#");
    let entry = frame(HEADERS, 5, 3, &[0x82, 0x86, 0x80 | 62]);
    assert_eq!(flaws(&[&itself[..], &entry].concat(), 5), []);
    assert_eq!(flaws(&[&itself[..], &flawed].concat(), 5), [(3, MalformedRequest::Fragment)]);
}

#[test]
fn padding_is_no_field_and_must_fit_the_frame() {
    let flawed = frame(HEADERS, 5, 3, b"\x82\x86\x04\x02/#");
    for (padding, expected) in [(4, &[(3, MalformedRequest::Fragment)][..]), (8, &[])] {
        let payload = [&[padding][..], b"\x82\x86\x84\x04\x02/#"].concat();
        let padded = frame(HEADERS, 5 | PADDED, 1, &payload);
        assert_eq!(flaws(&[padded, flawed.clone()].concat(), 5), expected, "{padding}");
    }
}

#[test]
fn the_table_has_the_newest_entries_that_fit() {
    // The size of an entry: its name and value, and 32 bytes.
    let entry = |value: usize| {
        let mut block = b"\x40\x01x".to_vec();
        Encoder::number(&mut block, 0, 7, value);
        [block, vec![b'y'; value]].concat()
    };
    let mut reader = Reader::default();
    let mut size_after = |block: &[u8]| {
        reader.read(block);
        reader.end();
        reader.size()
    };
    assert_eq!(size_after(&entry(4096 - 33)), 4096, "it fills the table");
    assert_eq!(size_after(&entry(0)), 33, "there is room for no other one");
    assert_eq!(size_after(&entry(4096 - 66)), 4096);
    assert_eq!(size_after(&entry(4096 - 32)), 0, "it is larger than the table");
    for _ in 0..1000 {
        assert!(size_after(&entry(100)) <= 4096);
    }
    assert_eq!(size_after(&[0x3f, 0x1f + 0x80, 1]), 133, "a table for 190 bytes");
    assert_eq!(size_after(&[0x20]), 0);
}

#[test]
fn the_frames_after_a_padded_one_have_no_padding() {
    // The padding fills the first frame: the length that is left for fields is zero.
    let head = [&[3][..], b"\0\0\0"].concat();
    let rest = b"\x82\x86\x04\x02/#";
    let bytes = [frame(HEADERS, 1 | PADDED, 1, &head), frame(CONTINUATION, 4, 1, rest)].concat();
    for size in 1..=bytes.len() {
        assert_eq!(
            flaws(&bytes, size),
            [(1, MalformedRequest::Fragment)],
            "{size} bytes at a time"
        );
    }
}

#[test]
fn flaws_of_streams_that_nobody_asks_for_take_bounded_memory() {
    let flaws = Flaws::default();
    (0..1000).for_each(|stream| flaws.add(stream, MalformedRequest::Fragment));
    assert_eq!(flaws.0.borrow().len(), MAX_FLAWS);
    assert!(
        flaws.has(999, MalformedRequest::Fragment)
            && !flaws.has(999, MalformedRequest::PseudoInTrailer)
    );
    flaws.forget(999);
    assert!(
        !flaws.has(999, MalformedRequest::Fragment) && flaws.has(998, MalformedRequest::Fragment)
    );
}

// -- beside h2 --

/// Encoder of a client with the whole dynamic table; `choices` select the representation of fields.
struct Encoder {
    table: VecDeque<(String, String)>,
    room: usize,
    choices: std::vec::IntoIter<u8>,
}

impl Encoder {
    fn choose(&mut self) -> u8 {
        self.choices.next().unwrap_or(0)
    }

    fn number(out: &mut Vec<u8>, first: u8, bits: u32, mut value: usize) {
        let most = (1 << bits) - 1;
        if value < most {
            return out.push(first | value as u8);
        }
        out.push(first | most as u8);
        value -= most;
        while value >= 128 {
            out.push(value as u8 | 0x80);
            value >>= 7;
        }
        out.push(value as u8);
    }

    fn text(&mut self, out: &mut Vec<u8>, text: &str) {
        let (first, bytes) = match self.choose() % 2 {
            0 => (0, text.as_bytes().to_vec()),
            _ => (0x80, encoded(text.as_bytes())),
        };
        Self::number(out, first, 7, bytes.len());
        out.extend_from_slice(&bytes);
    }

    /// Returns the indices of entries for which `is` returns true.
    fn find(&self, is: impl Fn(&str, Option<&str>) -> bool) -> Vec<usize> {
        let fixed = STATIC.iter().enumerate().filter(|(_, name)| is(name, None));
        let kept = self.table.iter().enumerate().filter(|(_, (name, value))| is(name, Some(value)));
        fixed.map(|(at, _)| at + 1).chain(kept.map(|(at, _)| at + 62)).collect()
    }

    fn shrink(&mut self, most: usize) {
        let size = |entry: &(String, String)| entry.0.len() + entry.1.len() + 32;
        while self.table.iter().map(size).sum::<usize>() > most {
            self.table.pop_back();
        }
    }

    fn resize(&mut self, out: &mut Vec<u8>) {
        let room = [0, 60, 200, 4096][usize::from(self.choose() % 4)];
        self.room = room;
        self.shrink(room);
        Self::number(out, 0x20, 5, room);
    }

    fn field(&mut self, out: &mut Vec<u8>, name: &str, value: &str) {
        let same = self.find(|other, found| other == name && found == Some(value));
        let named = self.find(|other, _| other == name);
        let choice = self.choose();
        if let (Some(at), true) =
            (same.get(usize::from(choice) % same.len().max(1)), choice & 1 == 0)
        {
            return Self::number(out, 0x80, 7, *at);
        }
        let (first, bits) = [(0x40, 6), (0x40, 6), (0, 4), (0x10, 4)][usize::from(choice / 2 % 4)];
        match named.get(usize::from(choice / 8) % (named.len() + 1)) {
            Some(at) => Self::number(out, first, bits, *at),
            None => {
                out.push(first);
                self.text(out, name);
            }
        }
        self.text(out, value);
        if first == 0x40 {
            let size = name.len() + value.len() + 32;
            self.shrink(self.room.saturating_sub(size));
            if size <= self.room {
                self.table.push_front((name.to_owned(), value.to_owned()));
            }
        }
    }
}

/// Names and values.
type Lines = Vec<(&'static str, String)>;

#[derive(Debug, Clone)]
struct Asked {
    path: &'static str,
    fields: Lines,
    /// Fields of a trailer, after a pseudo-header field if there is one.
    trailer: Option<(Option<&'static str>, Lines)>,
    resizes: bool,
    cut: Option<usize>,
}

fn asked() -> impl Strategy<Value = Asked> {
    let value = || prop_oneof!["[ -~]{0,20}", "#", "[a-z]{200}", Just("x".repeat(3000))];
    let name = prop::sample::select(vec!["x-a", "accept", "x-path", "cookie", "x-b#c", "etag"]);
    let fields = prop::collection::vec((name, value()), 0..4);
    let path =
        prop::sample::select(vec!["/", "/a", "/#", "/a?b", "/a?b#c", "/index.html", "/p#/../q"]);
    let pseudo = prop::sample::select(vec![":path", ":method", ":authority"]);
    let trailer = prop::option::of((prop::option::of(pseudo), fields.clone()));
    let cut = prop::option::of(0..200usize);
    (path, fields, trailer, any::<bool>(), cut).prop_map(|(path, fields, trailer, resizes, cut)| {
        // `h2` does not trim the blanks that HTTP trims.
        let trim = |fields: Lines| -> Lines {
            fields.into_iter().map(|(name, value)| (name, value.trim().to_owned())).collect()
        };
        let trailer = trailer.map(|(pseudo, fields)| (pseudo, trim(fields)));
        Asked { path, fields: trim(fields), trailer, resizes, cut }
    })
}

/// Writes a block as HEADERS and, if `cut` is set, CONTINUATION.
fn put(bytes: &mut Vec<u8>, stream: u32, flags: u8, block: &[u8], cut: Option<usize>) {
    match cut.filter(|cut| *cut < block.len()) {
        None => bytes.extend(frame(HEADERS, flags | END_HEADERS, stream, block)),
        Some(cut) => {
            bytes.extend(frame(HEADERS, flags, stream, &block[..cut]));
            bytes.extend(frame(CONTINUATION, END_HEADERS, stream, &block[cut..]));
        }
    }
}

/// Returns the paths that `h2` reads in `requests` requests, by stream.
fn seen_by_h2(bytes: &[u8], requests: usize) -> HashMap<u32, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (mut client, server) = tokio::io::duplex(1 << 20);
        let serve = async {
            let mut seen = HashMap::new();
            let mut connection = h2::server::handshake(server).await.unwrap();
            while seen.len() < requests
                && let Some(Ok((request, mut respond))) = connection.accept().await
            {
                let path = request.uri().path_and_query().unwrap().as_str().to_owned();
                seen.insert(respond.stream_id().into(), path);
                let _ = respond.send_response(http::Response::new(()), true);
            }
            seen
        };
        let send = async {
            client.write_all(PREFACE).await.unwrap();
            client.write_all(&frame(SETTINGS, 0, 0, b"")).await.unwrap();
            client.write_all(bytes).await.unwrap();
            client
        };
        tokio::join!(serve, send).0
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn flaws_are_found_in_what_h2_takes_and_only_there(
        requests in prop::collection::vec(asked(), 1..20),
        choices in prop::collection::vec(any::<u8>(), 400),
        size in 1..2000usize,
    ) {
        let choices = choices.into_iter();
        let mut encoder = Encoder { table: VecDeque::new(), room: 4096, choices };
        let (mut bytes, mut expected, mut paths) = (Vec::new(), Vec::new(), HashMap::new());
        for (number, request) in requests.iter().enumerate() {
            let stream = 2 * number as u32 + 1;
            let mut block = Vec::new();
            if request.resizes {
                encoder.resize(&mut block);
            }
            for (name, value) in [(":method", "POST"), (":scheme", "http"), (":authority", "a")] {
                encoder.field(&mut block, name, value);
            }
            encoder.field(&mut block, ":path", request.path);
            for (name, value) in &request.fields {
                encoder.field(&mut block, name, value);
            }
            let last = if request.trailer.is_some() { 0 } else { END_STREAM };
            put(&mut bytes, stream, last, &block, request.cut);
            if request.path.contains('#') {
                expected.push((stream, MalformedRequest::Fragment));
            }
            if let Some((pseudo, fields)) = &request.trailer {
                let mut block = Vec::new();
                if let Some(name) = pseudo {
                    encoder.field(&mut block, name, "GET");
                    expected.push((stream, MalformedRequest::PseudoInTrailer));
                }
                for (name, value) in fields {
                    encoder.field(&mut block, name, value);
                }
                bytes.extend(frame(DATA, 0, stream, b"body"));
                put(&mut bytes, stream, END_STREAM, &block, request.cut);
            }
            let path = request.path.split('#').next().unwrap_or_default();
            paths.insert(stream, path.to_owned());
        }
        prop_assert_eq!(flaws(&bytes, size), expected);
        prop_assert_eq!(seen_by_h2(&bytes, paths.len()), paths);
    }

    #[test]
    fn any_bytes_are_read_alike_however_they_are_cut(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        size in 1..20usize,
    ) {
        let framed = frame(HEADERS, 5, 1, &bytes);
        prop_assert_eq!(flaws(&framed, size), flaws(&framed, usize::MAX));
        prop_assert_eq!(flaws(&bytes, size), flaws(&bytes, usize::MAX));
    }
}
