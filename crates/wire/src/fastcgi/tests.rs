use proptest::prelude::*;

use super::*;
use crate::bytes::Malformed;

/// Returns the records in their order: type, request id, content.
fn records(bytes: &[u8], cut: usize) -> Result<Vec<(u8, u16, Vec<u8>)>, Malformed> {
    let (mut reader, mut all, mut content) = (Records::default(), Vec::new(), Vec::new());
    for mut input in bytes.chunks(cut.max(1)) {
        while let Some((kind, id, part)) = reader.next(&mut input)? {
            match part {
                Part::Content(bytes) => content.extend_from_slice(bytes),
                Part::End(len) => {
                    assert_eq!(content.len(), usize::from(len));
                    all.push((kind, id, std::mem::take(&mut content)));
                }
            }
        }
        assert!(input.is_empty());
    }
    Ok(all)
}

/// Response, log output, and the end.
type Whole = (Vec<u8>, Vec<u8>, Option<End>);

fn answers(bytes: &[u8], cut: usize) -> Result<Whole, Malformed> {
    let (mut reader, mut out, mut err, mut end) = (Answers::new(1), Vec::new(), Vec::new(), None);
    for mut input in bytes.chunks(cut.max(1)) {
        while let Some(answer) = reader.next(&mut input)? {
            match answer {
                Answer::Stdout(bytes) => out.extend_from_slice(bytes),
                Answer::Stderr(bytes) => err.extend_from_slice(bytes),
                Answer::End(over) => end = Some(over),
            }
        }
    }
    Ok((out, err, end))
}

#[test]
fn a_request_has_the_bytes_of_the_specification() {
    let mut out = Vec::new();
    put_begin(Role::Responder, true, 1, &mut out);
    let mut params = Vec::new();
    put_pair(b"A", b"b", &mut params);
    put_stream(Kind::Params, 1, &params, &mut out);
    put_end_of_stream(Kind::Params, 1, &mut out);
    let expected = b"\x01\x01\0\x01\0\x08\0\0\0\x01\x01\0\0\0\0\0\
        \x01\x04\0\x01\0\x04\0\0\x01\x01Ab\x01\x04\0\x01\0\0\0\0";
    assert_eq!(out, expected);
}

#[test]
fn an_answer_is_read_whatever_the_cut() {
    let mut bytes = b"\x01\x06\0\x01\0\x03\x05\0abcPADDI".to_vec();
    bytes.extend_from_slice(b"\x01\x07\0\x01\0\x02\0\0!!\x01\x06\0\x01\0\0\0\0");
    End { status: 7, protocol: Protocol::RequestComplete }.put(1, &mut bytes);
    for cut in 1..bytes.len() {
        let (out, err, end) = answers(&bytes, cut).unwrap();
        assert_eq!((out.as_slice(), err.as_slice()), (&b"abc"[..], &b"!!"[..]));
        assert_eq!(end, Some(End { status: 7, protocol: Protocol::RequestComplete }));
    }
}

#[test]
fn an_answer_to_somebody_else_is_refused() {
    assert_eq!(answers(b"\x01\x06\0\x02\0\x01\0\0a", 99), Err(Malformed));
    assert_eq!(answers(b"\x01\x0a\0\x01\0\0\0\0", 99), Err(Malformed), "a result unasked for");
    assert_eq!(answers(b"\x02\x06\0\x01\0\x01\0\0a", 99), Err(Malformed), "another version");
    assert_eq!(answers(b"\x01\x03\0\x01\0\x07\0\0\0\0\0\0\0\0\0", 99), Err(Malformed), "short end");
    assert_eq!(answers(b"\x01\x03\0\x01\0\x09\0\0\0\0\0\0\0\0\0\0\0", 99), Err(Malformed));
    assert_eq!(answers(b"\x01\x03\0\x01\0\x08\0\0\0\0\0\0\x09\0\0\0", 99), Err(Malformed));
}

#[test]
fn each_record_type_has_its_number() {
    for byte in 0..=u8::MAX {
        let expected = (1..=11).contains(&byte).then_some(byte);
        assert_eq!(Kind::from_byte(byte).map(|kind| kind as u8), expected);
    }
}

#[test]
fn each_protocol_status_is_read_back() {
    let all = [
        Protocol::RequestComplete,
        Protocol::CannotMultiplex,
        Protocol::Overloaded,
        Protocol::UnknownRole,
    ];
    for protocol in all {
        let (end, mut bytes) = (End { status: 0x0102_0304, protocol }, Vec::new());
        end.put(7, &mut bytes);
        assert_eq!(End::decode(bytes[HEADER..].try_into().unwrap()), Ok(end));
    }
    assert_eq!(End::decode([0, 0, 0, 0, 4, 0, 0, 0]), Err(Malformed));
}

#[test]
fn a_record_is_complete_with_the_last_byte_of_its_padding() {
    for record in [&b"\x01\x06\0\x01\0\x02\x03\0abPAD"[..], b"\x01\x06\0\x01\0\x02\0\0ab"] {
        for cut in 0..=record.len() {
            let (mut records, mut reader) = (Records::default(), Answers::new(1));
            let mut input = &record[..cut];
            while records.next(&mut input).unwrap().is_some() {}
            assert!(input.is_empty());
            input = &record[..cut];
            while reader.next(&mut input).unwrap().is_some() {}
            let is_whole = cut == 0 || cut == record.len();
            assert_eq!(
                (records.is_record_complete(), reader.is_record_complete()),
                (is_whole, is_whole),
                "{cut}"
            );
        }
    }
}

#[test]
fn every_empty_record_is_returned_to_who_counts_them() {
    let mut reader = Answers::new(1);
    let mut input = &b"\x01\x06\0\x01\0\0\0\0\x01\x07\0\x01\0\0\x01\0P"[..];
    assert_eq!(reader.next(&mut input), Ok(Some(Answer::Stdout(&[]))));
    assert_eq!(reader.next(&mut input), Ok(Some(Answer::Stdout(&[]))));
    assert_eq!(reader.next(&mut input), Ok(None));
}

#[test]
fn pairs_share_records_as_far_as_they_fit() {
    let lengths = |values: &[usize]| {
        let values: Vec<_> = values.iter().map(|len| vec![b'v'; *len]).collect();
        let mut out = Vec::new();
        put_params(1, values.iter().map(|value| (&b"N"[..], &value[..])), &mut out);
        let records = records(&out, 4096).unwrap();
        records.iter().map(|(_, _, content)| content.len()).collect::<Vec<_>>()
    };
    let fits = MAX_CONTENT_BYTES - 6;
    assert_eq!(lengths(&[fits]), [MAX_CONTENT_BYTES, 0]);
    assert_eq!(lengths(&[fits + 1]), [MAX_CONTENT_BYTES, 1, 0]);
    assert_eq!(lengths(&[1, fits, 1]), [4, MAX_CONTENT_BYTES, 4, 0]);
    assert_eq!(lengths(&[fits - 4, 1]), [MAX_CONTENT_BYTES, 0]);
    assert_eq!(lengths(&[fits - 3, 1, 40_000]), [MAX_CONTENT_BYTES - 3, 40_010, 0]);
    assert_eq!(lengths(&[fits + 1, 1, 1]), [MAX_CONTENT_BYTES, 1, 8, 0]);
}

#[test]
fn no_length_makes_a_body_into_records_of_its_own() {
    let mut forged = Vec::new();
    put_begin(Role::Responder, false, 1, &mut forged);
    put_pair(b"PHP_VALUE", b"auto_prepend_file=php://input", &mut forged);
    for len in [0, 1, 65_534, 65_535, 65_536, 99_000, 131_070, 200_000] {
        let body: Vec<u8> = forged.iter().copied().cycle().take(len).collect();
        for kind in [Kind::Stdin, Kind::Params] {
            let mut out = Vec::new();
            put_stream(kind, 1, &body, &mut out);
            put_end_of_stream(kind, 1, &mut out);
            let records = records(&out, 4096).unwrap();
            assert!(records.iter().all(|(k, id, _)| (*k, *id) == (kind as u8, 1)));
            let (last, parts) = records.split_last().unwrap();
            assert!(last.2.is_empty() && parts.iter().all(|(_, _, part)| !part.is_empty()));
            let whole: Vec<u8> = parts.iter().flat_map(|(_, _, part)| part).copied().collect();
            assert_eq!(whole, body);
        }
    }
}

#[test]
fn records_of_parameters_have_whole_pairs_that_fit_into_one() {
    let values = [0, 1, 30_000, 30_000, 65_000, 65_529, 65_530, 65_531, 70_000, 5, 140_000, 2]
        .map(|len| vec![b'v'; len]);
    for count in 0..=values.len() {
        let pairs = || values[..count].iter().map(|value| (&b"N"[..], &value[..]));
        let mut out = Vec::new();
        put_params(1, pairs(), &mut out);
        let records = records(&out, 4096).unwrap();
        let (last, parts) = records.split_last().unwrap();
        assert!(last.2.is_empty() && parts.iter().all(|(_, _, part)| !part.is_empty()));
        assert!(records.iter().all(|(kind, id, _)| (*kind, *id) == (Kind::Params as u8, 1)));
        let whole: Vec<u8> = parts.iter().flat_map(|(_, _, part)| part).copied().collect();
        let read: Result<Vec<_>, _> = Pairs::new(&whole).collect();
        assert_eq!(read, Ok(pairs().collect()));
        let cut = parts.iter().filter(|(_, _, part)| Pairs::new(part).any(|pair| pair.is_err()));
        let long = values[..count].iter().filter(|value| value.len() > MAX_CONTENT_BYTES - 6);
        assert!(long.count() > 0 || cut.count() == 0);
    }
}

#[test]
fn a_length_beyond_the_stream_is_an_error() {
    for bytes in [
        &b"\x01"[..],
        b"\x05\x01A",
        b"\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x80\0\0\x02\x00A",
        b"\x01\x80\0\0",
    ] {
        assert_eq!(Pairs::new(bytes).collect::<Vec<_>>(), [Err(Malformed)], "{bytes:?}");
    }
}

proptest! {
    #[test]
    fn pairs_are_read_as_they_were_written(
        pairs in proptest::collection::vec((
            proptest::collection::vec(any::<u8>(), 0..300),
            proptest::collection::vec(any::<u8>(), 0..300),
        ), 0..20),
    ) {
        let mut stream = Vec::new();
        for (name, value) in &pairs {
            put_pair(name, value, &mut stream);
        }
        let read: Result<Vec<_>, _> = Pairs::new(&stream).collect();
        let read = read.unwrap();
        prop_assert_eq!(read.len(), pairs.len());
        for ((name, value), (n, v)) in read.iter().zip(&pairs) {
            prop_assert_eq!((*name, *value), (n.as_slice(), v.as_slice()));
        }
    }

    #[test]
    fn any_bytes_are_read_alike_whatever_the_cut(
        bytes in proptest::collection::vec(0u8..8, 0..200), cut in 1usize..20,
    ) {
        prop_assert_eq!(records(&bytes, cut), records(&bytes, 1000));
        prop_assert_eq!(answers(&bytes, cut).is_ok(), answers(&bytes, 1000).is_ok());
    }
}
