//! Chunked bodies, cut at all places.

use proptest::prelude::*;

use super::*;

/// Decodes `input` cut at `cuts`. Returns the body and the number of bytes consumed; `None` if more
/// input is needed.
fn decode(input: &[u8], cuts: &[usize]) -> Result<Option<(Vec<u8>, usize)>, Malformed> {
    let mut chunked = Chunked::new();
    let (mut body, mut used) = (Vec::new(), 0);
    let ends = cuts.iter().map(|cut| cut % (input.len() + 1)).chain([input.len()]);
    let mut ends: Vec<_> = ends.collect();
    ends.sort_unstable();
    for end in ends {
        while used < end {
            match chunked.decode(&input[used..end])? {
                Decoded::NeedMore => used = end,
                Decoded::Data { skip, len } => {
                    assert!(len > 0 && used + skip + len <= end);
                    body.extend_from_slice(&input[used + skip..used + skip + len]);
                    used += skip + len;
                }
                Decoded::End(len) => {
                    assert!(chunked.is_done());
                    assert_eq!(chunked.decode(b"more"), Ok(Decoded::End(0)));
                    return Ok(Some((body, used + len)));
                }
            }
        }
    }
    Ok(None)
}

#[test]
fn a_chunk_may_be_as_long_as_a_64_bit_number_can_tell() {
    let mut chunked = Chunked::new();
    assert_eq!(chunked.decode(b"ffffffffffffffff\r\nab"), Ok(Decoded::Data { skip: 18, len: 2 }));
    assert_eq!(Chunked::new().decode(b"0ffffffffffffffff"), Err(Malformed));
}

#[test]
fn what_is_no_chunked_body_is_refused() {
    for (start, wrong) in [
        ("", "\r\ng; "),
        ("1", "\n=g"),
        ("1\r", "\r"),
        ("1 ", "\ra="),
        ("1;", "\r=;"),
        ("1;a", "\n\""),
        ("1;a ", "\rb"),
        ("1;a=", "\r;="),
        ("1;a=b", "\n=\""),
        ("1;a=b ", "\rc="),
        ("1;a=\"", "\r\0\u{7f}"),
        ("1;a=\"\\", "\r\0\u{7f}"),
        ("1;a=\"b\"", "\nc=\""),
        ("1\r\na", "b\n"),
        ("1\r\na\r", "\r"),
        ("0\r\n", "\n :"),
        ("0\r\n\r", "\r"),
        ("0\r\na", "\r \""),
        ("0\r\na:", "\n\0\u{7f}"),
        ("0\r\na:b\r", "\r"),
    ] {
        assert_eq!(decode(start.as_bytes(), &[]), Ok(None), "{start:?}");
        for byte in wrong.chars() {
            let body = format!("{start}{byte}");
            assert_eq!(decode(body.as_bytes(), &[]), Err(Malformed), "{body:?}");
        }
    }
}

#[test]
fn extensions_have_blanks_where_the_rfc_allows_them() {
    for extension in "\t ;a|;\t a|;a\t ;b|;a\t =b|;a= \tb|;a=b\t ;c|;a=\"\"\t ;c".split('|') {
        let body = format!("0{extension}\r\n\r\n");
        assert_eq!(decode(body.as_bytes(), &[]), Ok(Some((vec![], body.len()))), "{extension:?}");
    }
}

#[test]
fn extensions_and_trailer_have_8_kib_altogether() {
    for (length, is_good) in [(8186, true), (8187, false)] {
        let body = format!("0;a\r\nb:{}\r\n\r\n", "c".repeat(length));
        assert_eq!(decode(body.as_bytes(), &[]).is_ok(), is_good, "{length}");
    }
}

fn likely_body() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        8 => Just("\r\n"), 3 => Just("0\r\n\r\n"), 3 => Just("3\r\nabc\r\n"), 2 => Just("1"),
        2 => Just("a"), 1 => Just("0"), 1 => Just(";x"), 1 => Just("=y"), 1 => Just("=\"z\\\"\""),
        1 => Just(" "), 1 => Just("\n"), 1 => Just("\r"), 1 => Just("A: b"), 1 => Just("\0"),
        1 => Just(":"),
    ];
    proptest::collection::vec(part, 0..12).prop_map(|parts| parts.concat().into_bytes())
}

proptest! {
    #[test]
    fn how_a_body_is_cut_makes_no_difference(
        input in prop_oneof![likely_body(), proptest::collection::vec(any::<u8>(), 0..40)],
        cuts in proptest::collection::vec(any::<usize>(), 0..8),
    ) {
        let every: Vec<usize> = (0..input.len()).collect();
        let whole = decode(&input, &[]);
        prop_assert_eq!(&whole, &decode(&input, &cuts));
        prop_assert_eq!(&whole, &decode(&input, &every));
    }

    #[test]
    fn what_was_encoded_comes_out(
        chunks in proptest::collection::vec(
            (proptest::collection::vec(any::<u8>(), 1..50), 0..4usize), 0..8),
        trailers in 0..3usize,
        cuts in proptest::collection::vec(any::<usize>(), 0..8),
    ) {
        let mut input = Vec::new();
        for (chunk, extension) in &chunks {
            let extension = ["", ";a", " ;a = b", "; a=\"b;\\\"c\";d"][*extension];
            input.extend_from_slice(format!("{:X}{extension}\r\n", chunk.len()).as_bytes());
            input.extend_from_slice(chunk);
            input.extend_from_slice(b"\r\n");
        }
        input.extend_from_slice(b"0\r\n");
        input.extend_from_slice("X-Trailer: value\r\n".repeat(trailers).as_bytes());
        input.extend_from_slice(b"\r\n");
        let len = input.len();
        input.extend_from_slice(b"GET / HTTP/1.1\r\n");
        let body: Vec<u8> = chunks.into_iter().flat_map(|(chunk, _)| chunk).collect();
        prop_assert_eq!(decode(&input, &cuts), Ok(Some((body, len))));
    }
}

#[test]
fn the_lines_of_a_trailer_are_kept_if_they_are_asked_for() {
    let body = b"3;a=b\r\nabc\r\n0;c\r\nX-Sum: 1\r\nX-Empty:\r\n\r\nGET /";
    for step in 1..=body.len() {
        let (mut kept, mut dropped) = (Chunked::with_trailer(), Chunked::new());
        for chunked in [&mut kept, &mut dropped] {
            let (mut at, mut given) = (0, 0);
            while !chunked.is_done() {
                given = (given + step).min(body.len());
                loop {
                    match chunked.decode(&body[at..given]).unwrap() {
                        Decoded::Data { skip, len } => at += skip + len,
                        Decoded::NeedMore => break at = given,
                        Decoded::End(len) => break at += len,
                    }
                }
            }
            assert_eq!(&body[at..], b"GET /");
        }
        assert_eq!(kept.trailer(), b"X-Sum: 1\r\nX-Empty:\r\n");
        assert_eq!(dropped.trailer(), b"");
    }
}
