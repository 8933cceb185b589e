//! Responses of upstreams.

use howdah_upstream::proxy::response::{Head, Length, MAX_HEAD_BYTES, Scan, parse};

/// The start of an upstream's response to GET and to HEAD. Its end is found independent of the
/// pieces in which it arrives; an accepted head reads the same to `httparse`, frames the body in
/// one way, and its fields do not frame a message.
pub fn response(input: &[u8]) {
    let whole = Scan::default().advance(input);
    let mut scan = Scan::default();
    let mut bytewise = Ok(None);
    for len in 1..=input.len().min(4096) {
        bytewise = scan.advance(&input[..len]);
        if bytewise != Ok(None) {
            break;
        }
    }
    if let Ok(Some(end)) = whole
        && end <= 4096
    {
        assert_eq!(bytewise, whole);
    }
    let Ok(Some(end)) = whole else { return };
    assert!(end <= MAX_HEAD_BYTES && input[..end].ends_with(b"\n"));
    let head = &input[..end];
    if let Ok(read) = parse(head, false) {
        check(head, &read);
    }
    if let Ok(read) = parse(head, true) {
        assert!(matches!(read.length, Length::None(_)));
        check(head, &read);
    }
}

fn check(head: &[u8], read: &Head) {
    assert!((100..=599).contains(&read.status));
    let mut own = vec![httparse::EMPTY_HEADER; 1000];
    let mut theirs = httparse::Response::new(&mut own);
    assert_eq!(theirs.parse(head), Ok(httparse::Status::Complete(head.len())));
    assert_eq!(theirs.code, Some(read.status));
    let is = |name: &str, other: &str| name.eq_ignore_ascii_case(other);
    let values = |wanted: &str| -> Vec<&[u8]> {
        theirs.headers.iter().filter(|f| is(f.name, wanted)).map(|f| f.value).collect()
    };
    let (lengths, codings) = (values("content-length"), values("transfer-encoding"));
    assert!(lengths.len() + codings.len() <= 1, "the body could be framed in two ways");
    match read.length {
        Length::Known(length) => {
            let text = std::str::from_utf8(lengths[0]).expect("digits");
            assert_eq!(text.parse(), Ok(length));
        }
        Length::Chunked => assert!(codings[0].eq_ignore_ascii_case(b"chunked")),
        Length::Close => assert!(lengths.is_empty() && codings.is_empty() && !read.keep_alive),
        Length::None(_) => {}
    }
    // Some of the fields are passed on, in their order.
    let mut rest = theirs.headers.iter();
    for (name, value) in read.fields.iter() {
        let framing: [&[u8]; 5] =
            [b"connection", b"content-length", b"server", b"transfer-encoding", b"upgrade"];
        assert!(!framing.iter().any(|other| name.eq_ignore_ascii_case(other)));
        assert!(!value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)));
        let same =
            |f: &&httparse::Header<'_>| f.name.as_bytes() == name && f.value.trim_ascii() == value;
        assert!(rest.any(|field| same(&field)), "nobody sent this field");
    }
    let lines = read.fields.as_bytes();
    assert!(lines.is_empty() || lines.ends_with(b"\r\n"));
    if let Some(reason) = &read.reason {
        assert!(!reason.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)));
    }
}
