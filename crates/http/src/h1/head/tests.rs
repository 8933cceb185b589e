//! Heads, cut at all places, compared with the results of httparse.

use proptest::prelude::*;

use super::*;
use crate::authority;
use crate::error_status::RequestError;
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
            let read = authority::host(sent_on, false)
                .map(|range| sent_on[range].to_ascii_lowercase());
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

fn refusal(input: &[u8], limits: &Limits) -> Option<Refusal> {
    match parse_head(input, limits) {
        Parse::Refused(refusal) => Some(refusal),
        Parse::Partial | Parse::Complete(..) => None,
    }
}

fn head(input: &str) -> Result<Head, Refusal> {
    Head::parse(Bytes::copy_from_slice(input.as_bytes()), &Limits::default())
}

#[test]
fn a_head_has_a_length_up_to_its_limit() {
    let whole = b"\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n";
    // The empty line before it does not count.
    let length = whole.len() - 2;
    for (input, length) in [(&whole[..], length), (&whole[..length + 1], length - 1)] {
        for (max_head, expected) in [(length, None), (length - 1, Some(Refusal::HeadTooLong))] {
            let limits = Limits { max_head, ..Limits::default() };
            assert_eq!(refusal(input, &limits), expected, "{max_head}");
        }
    }
}

#[test]
fn a_request_line_is_shorter_than_its_limit() {
    use Refusal::RequestLineTooLong;
    let too_long = |input: &[u8], max_line: usize| {
        refusal(input, &Limits { max_line, max_head: 16, ..Limits::default() })
    };
    assert_eq!(too_long(b"GET /", 5), None, "the line end may follow");
    assert_eq!(too_long(b"GET /a", 5), Some(RequestLineTooLong));
    let (line, head) = (b"GET / HTTP/1.1\n", b"GET / HTTP/1.1\nA: b\n");
    assert_eq!((too_long(line, 15), too_long(line, 14)), (None, Some(RequestLineTooLong)));
    assert_eq!(too_long(head, 15), Some(Refusal::HeadTooLong));
    assert_eq!(too_long(head, 14), Some(RequestLineTooLong));
}

#[test]
fn a_head_starts_after_the_empty_lines() {
    let mut scan = Scan::default();
    assert_eq!(scan.advance(b"\r\n\nGET", &Limits::default()), Scanned::Partial);
    assert_eq!(scan.start(), 3);
}

#[test]
fn what_cannot_become_a_head_is_refused_before_its_end() {
    let limits = Limits { max_line: 20, ..Limits::default() };
    for start in ["\x16", " ", "\n\n\n", "GET /\r\n", "GET / HTTP/2.0\r\n", "G(T / HTTP/1.1\r\n"] {
        assert!(refusal(start.as_bytes(), &limits).is_some(), "{start:?}");
    }
    for start in ["\r", "\r\n\r\n", "G", "GET / HTTP/1.1\r\nA: b"] {
        assert_eq!(refusal(start.as_bytes(), &limits), None, "{start:?}");
    }
}

#[test]
fn a_line_feed_alone_ends_a_line_unless_the_body_is_chunked() {
    let post = "POST / HTTP/1.1\nHost: a\r\n";
    assert!(head(&format!("{post}\r\n")).is_ok());
    let chunked = head(&format!("{post}Transfer-Encoding: chunked\r\n\r\n"));
    assert_eq!(chunked.unwrap_err(), Refusal::LineEnd);
}

#[test]
fn spaces_around_a_target_are_no_part_of_it() {
    let lenient = Limits { strict: false, ..Limits::default() };
    let head = Head::parse(Bytes::from_static(b"GET   /a b   HTTP/1.1\r\n\r\n"), &lenient).unwrap();
    assert_eq!((&head.method[..], &head.target[..]), (&b"GET"[..], &b"/a%20b"[..]));
}

/// Scenario: a condition on `POST`, and an application that takes `post` for it.
#[test]
fn a_method_has_capital_letters() {
    for (method, expected) in [
        ("post", Some(Refusal::Method)),
        ("Post", Some(Refusal::Method)),
        ("GET1", Some(Refusal::Method)),
        ("GET!", Some(Refusal::Method)),
        ("M-SEARCH", None),
        ("X_Y", None),
        ("PURGE", None),
        ("", Some(Refusal::RequestLine)),
        ("G/T", Some(Refusal::RequestLine)),
    ] {
        let head = head(&format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(head.err(), expected, "{method}");
    }
    let lenient = Limits { strict: false, ..Limits::default() };
    let input = b"get / HTTP/1.1\r\nHost: a\r\n\r\n";
    assert_eq!(refusal(input, &lenient), Some(Refusal::Method));
}

#[test]
fn a_version_has_two_digits() {
    for (version, expected) in [
        ("HTTP/1.2", Refusal::Version),
        ("HTTP/0.9", Refusal::Version),
        ("HTTP/1.x", Refusal::RequestLine),
        ("HTTP/x.1", Refusal::RequestLine),
    ] {
        let head = head(&format!("GET / {version}\r\nHost: a\r\n\r\n"));
        assert_eq!(head.unwrap_err(), expected, "{version}");
    }
}

#[test]
fn a_body_has_a_length_up_to_its_limit() {
    let limits = Limits { max_body: 10, ..Limits::default() };
    for (length, expected) in [(9, None), (10, None), (11, Some(Refusal::BodyTooLong))] {
        let head = format!("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n");
        assert_eq!(refusal(head.as_bytes(), &limits), expected, "{length}");
    }
}

#[test]
fn an_expectation_counts_from_http_1_1_on() {
    let expects = |version: &str, value: &str| {
        head(&format!("GET / HTTP/{version}\r\nHost: a\r\nExpect: {value}\r\n\r\n"))
            .map(|head| head.expects_continue)
    };
    assert_eq!(expects("1.1", "100-Continue"), Ok(true));
    assert_eq!(expects("1.0", "100-continue"), Ok(false));
    assert_eq!(expects("1.1", "x\r\nExpect: 100-continue"), Err(Refusal::Expectation));
    assert_eq!(expects("1.1", "100-continue\r\nExpect: x"), Err(Refusal::Expectation));
    assert_eq!(expects("1.0", "x"), Ok(false));
}

#[test]
fn a_connection_is_kept_unless_one_option_is_to_close_it() {
    let kept = |version: &str, fields: &str| {
        head(&format!("GET / HTTP/{version}\r\nHost: a\r\n{fields}\r\n")).unwrap().keep_alive
    };
    let (keep, close) = ("Connection: x, Keep-Alive\r\n", "Connection: Close ,x\r\n");
    for (version, expected) in [("1.1", [true, true, false]), ("1.0", [false, true, false])] {
        assert_eq!(["", keep, close].map(|fields| kept(version, fields)), expected, "{version}");
        for both in [[keep, close].concat(), [close, keep].concat()] {
            assert!(!kept(version, &both), "{version}");
        }
    }
}

#[test]
fn each_refusal_has_a_status_and_a_reason_of_its_own() {
    use Refusal::*;
    let with_400 = [
        ContentLengthConflict,
        ContentLengthInvalid,
        Field,
        Fragment,
        Host,
        Incomplete,
        LineEnd,
        PlainOnTls,
        RequestLine,
        TransferEncoding,
    ];
    let others = [
        (Connect, 405),
        (HeadTimeout, 408),
        (IdleTimeout, 408),
        (LengthRequired, 411),
        (BodyTooLong, 413),
        (RequestLineTooLong, 414),
        (Expectation, 417),
        (FieldTooLong, 431),
        (HeadTooLong, 431),
        (TooManyFields, 431),
        (UnknownCoding, 501),
        (Protocol, 501),
        (Version, 505),
    ];
    let all: Vec<_> = with_400.map(|refusal| (refusal, 400)).into_iter().chain(others).collect();
    for (refusal, status) in &all {
        assert_eq!(RequestError::Head(*refusal).status(), *status, "{refusal:?}");
    }
    let reasons: std::collections::HashSet<_> =
        all.iter().map(|(refusal, _)| refusal.reason()).collect();
    assert_eq!(reasons.len(), all.len());
}

#[test]
fn fields_that_contradict_each_other_or_the_version_are_refused() {
    let refused = |version: &str, fields: &str| {
        head(&format!("POST / HTTP/{version}\r\n{fields}\r\n\r\n")).unwrap_err()
    };
    let coded = "Host: a\r\nTransfer-Encoding: chunked";
    assert_eq!(refused("1.1", "A: b"), Refusal::Host);
    assert_eq!(refused("1.1", "Host: a\r\nHost: a"), Refusal::Host);
    assert_eq!(refused("1.0", coded), Refusal::TransferEncoding);
    assert_eq!(refused("1.1", &format!("{coded}, chunked")), Refusal::UnknownCoding);
    let forbidden = Limits { chunked_bodies: false, ..Limits::default() };
    let chunked = format!("POST / HTTP/1.1\r\n{coded}\r\n\r\n");
    assert_eq!(refusal(chunked.as_bytes(), &forbidden), Some(Refusal::LengthRequired));
    assert!(head("GET / HTTP/1.0\r\nA: b\r\n\r\n").is_ok());
}

#[test]
fn fields_have_a_number_up_to_their_limit_and_are_shorter_than_theirs() {
    let limits = Limits { max_fields: 2, max_line: 20, ..Limits::default() };
    let (short, long) = ("x".repeat(19), "x".repeat(20));
    for (field, expected) in [
        ("A: b".to_owned(), None),
        ("A: b\r\nC: d".to_owned(), Some(Refusal::TooManyFields)),
        (format!("{short}: b"), None),
        (format!("{long}: b"), Some(Refusal::FieldTooLong)),
        (format!("A: {short} "), None),
        (format!("A: {long}"), Some(Refusal::FieldTooLong)),
    ] {
        let head = format!("GET / HTTP/1.1\r\nHost: a\r\n{field}\r\n\r\n");
        assert_eq!(refusal(head.as_bytes(), &limits), expected, "{field}");
    }
}

#[test]
fn fields_with_unsafe_names_are_dropped_if_that_is_wanted() {
    for (discard_unsafe_fields, expected) in [(true, "Host X-1 "), (false, "Host X_1 X-1 X.1 ")] {
        let limits = Limits { discard_unsafe_fields, ..Limits::default() };
        let text = b"GET / HTTP/1.1\r\nHost: a\r\nX_1: b\r\nX-1: c\r\nX.1: d\r\n\r\n";
        let head = Head::parse(Bytes::from_static(text), &limits).unwrap();
        let names = head.fields.iter().map(|(name, _)| String::from_utf8_lossy(name) + " ");
        assert_eq!(names.collect::<String>(), expected);
    }
}

#[test]
fn a_valid_host_comes_first_if_it_is_not_the_field_that_was_sent() {
    let lenient = Limits { strict: false, ..Limits::default() };
    for (text, expected) in [
        ("GET / HTTP/1.1\r\nA: b\r\nHost: C\r\n", "A=b Host=C "),
        ("GET / HTTP/1.1\r\nA: b\r\nHost: C@d\r\n", "Host=C%40d A=b "),
        ("GET / HTTP/1.0\r\nA: b\r\n", "A=b "),
        ("GET http://C/ HTTP/1.0\r\nA: b\r\n", "Host=C A=b "),
        ("GET http://C/ HTTP/1.0\r\nA: b\r\nHost: d\r\n", "A=b Host=C "),
    ] {
        let head = Head::parse(Bytes::from(format!("{text}\r\n")), &lenient).unwrap();
        let fields = head.fields.iter().map(|(name, value)| {
            format!("{}={} ", String::from_utf8_lossy(name), String::from_utf8_lossy(value))
        });
        assert_eq!(fields.collect::<String>(), expected, "{text:?}");
    }
}

#[test]
fn a_target_is_converted_to_origin_form() {
    let read = |line: &str| {
        let head = head(&format!("{line} HTTP/1.1\r\nHost: a\r\n\r\n"))?;
        let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
        Ok([&head.target, &head.path, &head.query, &head.host].map(text).join(" "))
    };
    for (line, expected) in [
        ("GET /b?c", "/b?c /b c a"),
        ("GET http://D:1/b?c", "/b?c /b c d"),
        ("GET HTTPS://d?c", "/?c / c d"),
        ("OPTIONS *", "* /  a"),
    ] {
        assert_eq!(read(line).as_deref(), Ok(expected), "{line}");
    }
    let form = Refusal::Target(crate::target::TargetError::Form);
    for (line, expected) in [
        ("CONNECT /", Refusal::Connect),
        ("GET *", form),
        ("OPTIONS b", form),
        ("GET http:///b", Refusal::Host),
        ("GET http://c@d/b", Refusal::Host),
        ("GET /b#c", Refusal::Fragment),
    ] {
        assert_eq!(read(line), Err(expected), "{line}");
    }
}
