//! Heads, cut at all places, compared with the results of httparse.

use proptest::prelude::*;

use super::*;
use crate::authority;
use crate::message::Version;

fn likely_head() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        8 => Just("\r\n"), 3 => Just("GET / HTTP/1.1\r\n"), 3 => Just("Host: a\r\n"),
        2 => Just("POST /a?b HTTP/1.0\r\n"), 2 => Just("Content-Length: 3\r\n"), 1 => Just(" "),
        2 => Just("Transfer-Encoding: chunked\r\n"), 1 => Just("GET"), 1 => Just("/%41/../"),
        2 => Just("A:\tb \r\n"), 1 => Just("Connection: close\r\n"), 1 => Just("\n"),
        1 => Just("\r"), 1 => Just("\0"), 1 => Just("\t"), 1 => Just(":"), 1 => Just("\u{e9}"),
        1 => Just("HTTP/1.1"), 1 => Just("http://b"), 1 => Just("Host: b:1\r\n"), 1 => Just("x"),
        1 => Just("X_Y: \u{7f}\r\n"), 1 => Just("Expect: 100-continue\r\n"), 1 => Just("#"),
        1 => Just("GET http://b:2/c?d HTTP/1.0\r\n"), 1 => Just("Host: a:b@c\r\n"),
    ];
    proptest::collection::vec(part, 0..12).prop_map(|parts| parts.concat().into_bytes())
}

fn any_head() -> impl Strategy<Value = Vec<u8>> {
    let framed = likely_head()
        .prop_map(|middle| [b"GET / HTTP/1.1\r\nHost: a\r\n", &middle[..], b"\r\n\r\n"].concat());
    prop_oneof![likely_head(), framed, proptest::collection::vec(any::<u8>(), 0..60)]
}

/// Result of parsing: end of the head and its content; `None` for an incomplete head.
type Outcome = Option<Result<(usize, String), ()>>;

fn at_once(input: &[u8], limits: &Limits) -> Outcome {
    match parse_head(input, limits) {
        Parse::Partial => None,
        Parse::Refused(_) => Some(Err(())),
        Parse::Complete(head, end) => Some(Ok((end, format!("{head:?}")))),
    }
}

fn in_pieces(input: &[u8], step: usize, limits: &Limits) -> Outcome {
    let mut scan = Scan::default();
    for end in (1..=input.len()).step_by(step).chain([input.len()]) {
        match scan.advance(&input[..end], limits) {
            Scanned::Partial => {}
            Scanned::Refused(_) => return Some(Err(())),
            Scanned::Complete(range) => {
                let bytes = Bytes::copy_from_slice(&input[range.clone()]);
                let head = Head::parse(bytes, limits).map_err(|_| ());
                return Some(head.map(|head| (range.end, format!("{head:?}"))));
            }
        }
    }
    None
}

proptest! {
    #[test]
    fn how_a_head_is_cut_makes_no_difference(
        input in any_head(),
        step in 1..20usize,
        strict: bool,
    ) {
        let few = Limits { max_head: 100, max_line: 50, max_fields: 5, ..Limits::default() };
        let limits = Limits { strict, ..few };
        let whole = at_once(&input, &limits);
        let pieces = in_pieces(&input, step, &limits);
        // An input that can never become a head may be refused before it is complete.
        if whole.is_some() || pieces != Some(Err(())) {
            prop_assert_eq!(whole, pieces);
        }
    }

    #[test]
    fn a_lenient_reading_is_the_strict_one_where_there_is_one(input in any_head()) {
        let lenient = Limits { strict: false, ..Limits::default() };
        if let Some(Ok(strict)) = at_once(&input, &Limits::default()) {
            prop_assert_eq!(at_once(&input, &lenient), Some(Ok(strict)));
        } else if let Some(Ok(_)) = at_once(&input, &lenient) {
            let Parse::Complete(head, _) = parse_head(&input, &lenient) else { return Ok(()) };
            prop_assert!(!head.target.iter().any(|byte| matches!(byte, 0..=b' ' | b'#' | 0x7f)));
            // Upstream servers read the same host.
            let sent_on = head.fields.get("host").unwrap_or_default();
            let read = authority::host(sent_on, false).map(|range| sent_on[range].to_ascii_lowercase());
            let expected = authority::encoded(&head.host).to_ascii_lowercase();
            prop_assert_eq!(read, Some(expected));
        }
    }

    #[test]
    fn httparse_reads_what_we_take_in_the_same_way(input in any_head()) {
        let limits = Limits { discard_unsafe_fields: false, ..Limits::default() };
        let Parse::Complete(head, end) = parse_head(&input, &limits) else { return Ok(()) };
        let mut fields = [httparse::EMPTY_HEADER; 100];
        let mut request = httparse::Request::new(&mut fields);
        prop_assert_eq!(request.parse(&input), Ok(httparse::Status::Complete(end)));
        prop_assert_eq!(request.method.map(str::as_bytes), Some(&head.method[..]));
        prop_assert_eq!(request.version, Some(u8::from(head.version == Version::Http11)));
        let target = request.path.unwrap().as_bytes();
        let absolute = target.starts_with(b"http://");
        if !absolute {
            prop_assert_eq!(target, &head.target[..]);
        }
        // An absolute target adds a `Host` field if there is none.
        let is_added = absolute
            && !request.headers.iter().any(|field| field.name.eq_ignore_ascii_case("host"));
        prop_assert_eq!(request.headers.len() + usize::from(is_added), head.fields.len());
        let ours = head.fields.iter().skip(usize::from(is_added));
        for (theirs, (name, value)) in request.headers.iter().zip(ours) {
            prop_assert_eq!(theirs.name.as_bytes(), name);
            if !(absolute && theirs.name.eq_ignore_ascii_case("host")) {
                prop_assert_eq!(theirs.value, value);
            }
        }
    }

    #[test]
    fn what_httparse_refuses_we_refuse(input in any_head()) {
        let mut fields = [httparse::EMPTY_HEADER; 100];
        let mut request = httparse::Request::new(&mut fields);
        if request.parse(&input).is_err() && input.is_ascii() {
            prop_assert!(!matches!(parse_head(&input, &Limits::default()), Parse::Complete(..)));
        }
    }
}
