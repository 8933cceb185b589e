//! Request heads, targets, hosts and the framing of bodies.

use howdah_http::authority::{self, encoded, to_valid_authority};
use howdah_http::body_length::{self, BodyLength};
use howdah_http::chunked::{Chunked, Decoded};
use howdah_http::h1::head::{Head, Parse, Scan, Scanned, parse_head};
use howdah_http::limits::Limits;
use howdah_http::message::Version;
use howdah_http::target::{Path, Target};
use howdah_http::trace_context::{MAX_STATE_BYTES, Parent, join_state};
use howdah_text::token::is_token_byte;

/// A head is read alike however it was cut, says what its bytes say, reads back, and, if it was
/// read strictly, is one for httparse too, the parser under hyper. A head that is accepted strictly
/// is accepted leniently, with the same result; one that is accepted leniently is passed on in a
/// form that a strict reader accepts.
pub fn head(input: &[u8]) {
    let all = Limits { discard_unsafe_fields: false, ..Limits::default() };
    let lenient = Limits { strict: false, ..all.clone() };
    for limits in [&all, &Limits::default(), &lenient] {
        let parsed = parse_head(input, limits);
        cut(input, limits, &parsed);
        let Parse::Complete(head, end) = parsed else { continue };
        sound(&head, limits);
        read_back(&head, limits);
        if std::ptr::eq(limits, &all) {
            agrees_with_httparse(input, &head, end);
            let Parse::Complete(again, _) = parse_head(input, &lenient) else {
                panic!("strictly a head, leniently none");
            };
            assert_eq!(format!("{again:?}"), format!("{head:?}"));
        }
    }
}

/// Feeds the input byte by byte.
fn cut(input: &[u8], limits: &Limits, whole: &Parse) {
    let mut scan = Scan::default();
    let found = (1..=input.len())
        .map(|end| scan.advance(&input[..end], limits))
        .find(|found| *found != Scanned::Partial);
    match (found, whole) {
        (None, Parse::Partial) => {}
        (Some(Scanned::Complete(range)), Parse::Complete(_, end)) => assert_eq!(range.end, *end),
        // A head can be seen to be none early or late; which it is must not differ.
        (Some(_), Parse::Refused(_)) => {}
        (found, whole) => panic!("in pieces {found:?}, at once {whole:?}"),
    }
}

fn sound(head: &Head, limits: &Limits) {
    assert!(!head.method.is_empty() && head.method.iter().all(|byte| is_token_byte(*byte)));
    assert!(head.fields.len() <= limits.max_fields);
    normal(&head.path);
    assert!(!head.target.iter().any(|byte| matches!(byte, 0..=b' ' | b'#' | 0x7f)));
    let (_, query) = cut_target(&head.target);
    assert_eq!(&head.query[..], query.unwrap_or_default());
    let beyond = |byte: &u8| !limits.strict && *byte >= 0x80;
    assert!(head.host.iter().all(|byte| byte.is_ascii_graphic() || beyond(byte)));
    assert!(!head.host.iter().any(u8::is_ascii_uppercase));
    let mut hosts = 0;
    let mut framing = Vec::new();
    for (name, value) in head.fields.iter() {
        assert!(!name.is_empty() && name.iter().all(|byte| is_token_byte(*byte)));
        assert!(!value.iter().any(|byte| matches!(byte, 0..=8 | 10..=31 | 0x7f)));
        assert_eq!(value, trim(value));
        hosts += usize::from(name.eq_ignore_ascii_case(b"host"));
        let frames: [&[u8]; 2] = [b"content-length", b"transfer-encoding"];
        if frames.iter().any(|frame| name.eq_ignore_ascii_case(frame)) {
            framing.push((name.len() == 17, value));
        }
    }
    assert!(hosts <= 1 && (hosts == 1 || head.version == Version::Http10 || !limits.strict));
    match (head.body, &framing[..]) {
        (BodyLength::Known(0), []) => {}
        (BodyLength::Known(length), [(false, value)]) => {
            let digits = std::str::from_utf8(value).expect("digits are text");
            assert!(digits.bytes().all(|byte| byte.is_ascii_digit()));
            assert_eq!(digits.parse(), Ok(length));
        }
        (BodyLength::Chunked, [(true, value)]) => {
            assert!(value.eq_ignore_ascii_case(b"chunked"));
            assert_eq!(head.version, Version::Http11);
        }
        other => panic!("{other:?}"),
    }
}

/// Writes the head anew, in origin form, and reads that.
fn read_back(head: &Head, limits: &Limits) {
    let mut text = Vec::new();
    for part in [&head.method, &b" "[..], &head.target, b" ", head.version.as_str().as_bytes()] {
        text.extend_from_slice(part);
    }
    for (name, value) in head.fields.iter() {
        for part in [b"\r\n", name, b": ", value] {
            text.extend_from_slice(part);
        }
    }
    text.extend_from_slice(b"\r\n\r\n");
    let line = text.split(|byte| *byte == b'\r').next().unwrap_or_default();
    if text.len() > limits.max_head || line.len() >= limits.max_line {
        return; // the spaces that were added or escaped made it too long
    }
    let Parse::Complete(again, end) = parse_head(&text, limits) else {
        panic!("{} does not read back", text.escape_ascii());
    };
    assert_eq!(end, text.len());
    assert_eq!(again.method, head.method);
    assert_eq!((&again.target, &again.path, &again.query), (&head.target, &head.path, &head.query));
    assert_eq!((again.version, again.body), (head.version, head.body));
    assert_eq!(again.keep_alive, head.keep_alive);
    assert_eq!(again.expects_continue, head.expects_continue);
    // A host that only a lenient reading takes is passed on percent-encoded, which is lenient
    // again.
    let legal = encoded(&head.host).to_ascii_lowercase();
    assert_eq!(again.host, legal);
    assert!(head.host != legal || again.fields.iter().eq(head.fields.iter()));
}

fn agrees_with_httparse(input: &[u8], head: &Head, end: usize) {
    let mut fields = vec![httparse::EMPTY_HEADER; Limits::default().max_fields];
    let mut theirs = httparse::Request::new(&mut fields);
    let status = theirs.parse(input);
    if status == Err(httparse::Error::Token) && std::str::from_utf8(&head.target).is_err() {
        return; // as nginx, we take bytes above ASCII as they come
    }
    assert_eq!(status, Ok(httparse::Status::Complete(end)), "httparse refuses what we take");
    assert_eq!(theirs.method.map(str::as_bytes), Some(&head.method[..]));
    let version = if head.version == Version::Http11 { 1 } else { 0 };
    assert_eq!(theirs.version, Some(version));
    // An absolute target is taken apart by us and its authority takes the place of the host.
    let target = theirs.path.unwrap_or_default().as_bytes();
    let absolute = !matches!(target, [b'/' | b'*', ..]);
    assert!(target == &head.target[..] || absolute && target.ends_with(&head.target[1..]));
    // If there is no field of the host, there is one now.
    let is_host = |name: &str| name.eq_ignore_ascii_case("host");
    let added = usize::from(absolute && !theirs.headers.iter().any(|field| is_host(field.name)));
    assert_eq!(theirs.headers.len() + added, head.fields.len());
    for (theirs, (name, value)) in theirs.headers.iter().zip(head.fields.iter().skip(added)) {
        assert_eq!(theirs.name.as_bytes(), name);
        let replaced = absolute && name.eq_ignore_ascii_case(b"host");
        assert!(replaced || trim(theirs.value) == value);
    }
}

/// Without the white space that HTTP knows.
fn trim(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

/// A path that nothing can read in two ways.
fn normal(path: &[u8]) {
    assert_eq!(path.first(), Some(&b'/'));
    assert!(!path.contains(&0));
    let mut segments = path[1..].split(|byte| *byte == b'/').rev();
    let last = segments.next().unwrap_or_default();
    assert!(!matches!(last, b"." | b".."));
    assert!(segments.all(|segment| !matches!(segment, b"" | b"." | b"..")));
}

/// A target's path is the result of a plain reading segment by segment, and reading it once more
/// changes nothing.
pub fn target(input: &[u8]) {
    let parsed = Target::parse(input);
    let expected = plain_target(input);
    let Ok(target) = parsed else {
        assert_eq!(expected, None, "{parsed:?}");
        return;
    };
    let path = target.path(input);
    assert_eq!(Some(path), expected.as_deref());
    normal(path);
    let (sent, query) = cut_target(input);
    if let Path::AsSent(end) = target.path {
        assert_eq!(end, sent.len());
    }
    assert_eq!(&input[target.query.clone()], query.unwrap_or_default());

    let mut encoded = Vec::new();
    for &byte in path {
        match byte {
            b'/' | b'a'..=b'z' => encoded.push(byte),
            _ => encoded.extend_from_slice(format!("%{byte:02X}").as_bytes()),
        }
    }
    let again = Target::parse(&encoded).expect("a normal path is a target");
    assert_eq!(again.path(&encoded), path);
}

/// Path and query of a target, without its fragment.
fn cut_target(target: &[u8]) -> (&[u8], Option<&[u8]>) {
    let target = target.split(|byte| *byte == b'#').next().unwrap_or_default();
    match target.iter().position(|byte| *byte == b'?') {
        Some(at) => (&target[..at], Some(&target[at + 1..])),
        None => (target, None),
    }
}

/// The path of a target, decoded first and taken apart then.
fn plain_target(target: &[u8]) -> Option<Vec<u8>> {
    if target.iter().any(|byte| *byte <= b' ' || *byte == 0x7f) {
        return None;
    }
    let (path, _) = cut_target(target);
    let mut decoded = Vec::new();
    let mut parts = path.split(|byte| *byte == b'%');
    decoded.extend_from_slice(parts.next()?);
    for part in parts {
        let digits = part.get(..2).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
        let byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        if byte == 0 {
            return None;
        }
        decoded.push(byte);
        decoded.extend_from_slice(&part[2..]);
    }
    if path.first() != Some(&b'/') {
        return None;
    }
    let mut kept: Vec<&[u8]> = Vec::new();
    let mut directory = true;
    for segment in decoded.split(|byte| *byte == b'/') {
        directory = matches!(segment, b"" | b"." | b"..");
        match segment {
            b"" | b"." => {}
            b".." => drop(kept.pop()?),
            segment => kept.push(segment),
        }
    }
    let mut normal = b"/".to_vec();
    normal.extend_from_slice(&kept.join(&b'/'));
    if directory && normal.len() > 1 {
        normal.push(b'/');
    }
    Some(normal)
}

/// A length consists of digits and is the number that the standard library reads; other text is
/// refused.
pub fn content_length(input: &[u8]) {
    let digits = !input.is_empty() && input.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(input).ok().filter(|_| digits);
    assert_eq!(body_length::content_length(input), text.and_then(|text| text.parse().ok()));
}

/// A host that is taken is one for hyper's crate of HTTP types too, holds nothing that is read in
/// two ways, and is its own host. One that is taken only leniently cannot lead elsewhere, and is
/// passed on as a host and a port that nothing can read in two ways.
pub fn authority(input: &[u8]) {
    let host = |input: &[u8]| authority::host(input, true);
    let lenient = authority::host(input, false);
    assert_eq!(to_valid_authority(input).is_some(), lenient.is_some() && host(input).is_none());
    if let (Some(passed_on), Some(range)) = (to_valid_authority(input), lenient.clone()) {
        let port = passed_on.iter().rposition(|byte| matches!(byte, b':' | b']'));
        let port = port.filter(|at| passed_on[*at] == b':').unwrap_or(passed_on.len());
        let (name, port) = passed_on.split_at(port);
        assert!(port.iter().skip(1).all(u8::is_ascii_digit));
        match host(name) {
            Some(all) => assert_eq!((all.end, name), (name.len(), &input[range])),
            None => {
                let mut parts = name.split(|byte| *byte == b'%');
                let mut decoded = parts.next().unwrap_or_default().to_vec();
                for part in parts {
                    let digits = std::str::from_utf8(&part[..2]).expect("digits are text");
                    decoded.push(u8::from_str_radix(digits, 16).expect("an escape"));
                    decoded.extend_from_slice(&part[2..]);
                }
                assert_eq!(decoded, &input[range]);
                assert!(!name.iter().any(|byte| b"@/\\?#<>\"^`{|}[]:".contains(byte)));
            }
        }
    }
    let Some(range) = host(input) else {
        let found = lenient.map(|range| &input[range]).unwrap_or_default();
        assert!(!found.iter().any(|byte| *byte <= b' ' || matches!(byte, b'/' | 0x7f)));
        assert!(!matches!(found, b"." | b"..") && !found.windows(2).any(|pair| pair == b".."));
        return;
    };
    assert_eq!(lenient, Some(range.clone()));
    let (found, rest) = input.split_at(range.end);
    assert_eq!(range.start, 0);
    let rest = rest.strip_prefix(b".").unwrap_or(rest);
    if let [first, digits @ ..] = rest {
        assert!(*first == b':' && digits.iter().all(u8::is_ascii_digit));
        let port = std::str::from_utf8(digits).expect("digits are text");
        // There may be zeros in front, or nothing.
        assert!(format!("0{port}").parse::<u16>().is_ok());
    }
    assert!(found.iter().all(|byte| byte.is_ascii_graphic()));
    assert!(!found.iter().any(|byte| b"@/\\?#%<>\"^`{|}".contains(byte)));
    assert_eq!(host(found), Some(0..found.len()));
    if !input.is_empty() {
        let theirs = http::uri::Authority::try_from(input).expect("http refuses what we take");
        assert_eq!(theirs.host().trim_end_matches('.').as_bytes(), found);
    }
}

/// A chunked body is the result of a reading line by line, independent of the pieces in which it
/// arrives. The first byte of the input is the length of the pieces.
pub fn chunked(input: &[u8]) {
    let Some((step, input)) = input.split_first() else { return };
    // Above this, extensions and trailers could come to more than is taken.
    if input.len() > 8 * 1024 {
        return;
    }
    let whole = decode(input, usize::MAX);
    assert_eq!(decode(input, usize::from(*step).max(1)), whole);
    match (plain_chunked(input), whole) {
        (Plain::Body(body, end), Ok((decoded, Some(decoded_end)))) => {
            assert_eq!((body, end), (decoded, decoded_end));
        }
        (Plain::Malformed, Err(())) => {}
        // The decoder looks at each byte, the other reading at lines: it may know earlier.
        (Plain::Cut, Err(()) | Ok((_, None))) => {}
        (plain, whole) => panic!("plainly {plain:?}, decoded {whole:?}"),
    }
}

/// Decodes pieces of `step` bytes: the body, and where it ended if it did.
fn decode(input: &[u8], step: usize) -> Result<(Vec<u8>, Option<usize>), ()> {
    let mut decoder = Chunked::new();
    let mut body = Vec::new();
    let mut passed = 0;
    for piece in input.chunks(step.min(input.len().max(1))) {
        let mut rest = piece;
        loop {
            match decoder.decode(rest).map_err(|_| ())? {
                Decoded::NeedMore => {
                    passed += rest.len();
                    break;
                }
                Decoded::Data { skip, len } => {
                    assert!(len > 0);
                    body.extend_from_slice(&rest[skip..skip + len]);
                    passed += skip + len;
                    rest = &rest[skip + len..];
                }
                Decoded::End(len) => {
                    assert!(decoder.is_done());
                    return Ok((body, Some(passed + len)));
                }
            }
        }
    }
    Ok((body, None))
}

#[derive(Debug)]
enum Plain {
    /// A body and where it ends.
    Body(Vec<u8>, usize),
    Malformed,
    /// The input ends within the body.
    Cut,
}

fn plain_chunked(input: &[u8]) -> Plain {
    let mut body = Vec::new();
    let mut at = 0;
    loop {
        let Some(line) = line(input, at) else { return Plain::Cut };
        at += line.len() + 1;
        let Some(line) = line.strip_suffix(b"\r") else { return Plain::Malformed };
        let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        let size = std::str::from_utf8(&line[..digits]).expect("digits are text");
        let (1..=16, Ok(size)) = (digits, u64::from_str_radix(size, 16)) else {
            return Plain::Malformed;
        };
        if !extensions(&line[digits..]) {
            return Plain::Malformed;
        }
        if size == 0 {
            break;
        }
        let data = &input[at..];
        let Some(data) = usize::try_from(size).ok().and_then(|size| data.get(..size)) else {
            return Plain::Cut;
        };
        body.extend_from_slice(data);
        at += data.len();
        match input.get(at..at + 2) {
            Some(b"\r\n") => at += 2,
            Some(_) => return Plain::Malformed,
            None => return Plain::Cut,
        }
    }
    loop {
        let Some(line) = line(input, at) else { return Plain::Cut };
        at += line.len() + 1;
        match line.strip_suffix(b"\r") {
            Some(b"") => return Plain::Body(body, at),
            Some(trailer) if is_trailer(trailer) => {}
            _ => return Plain::Malformed,
        }
    }
}

/// The line that starts at `at`, without its line feed.
fn line(input: &[u8], at: usize) -> Option<&[u8]> {
    let rest = &input[at..];
    rest.iter().position(|byte| *byte == b'\n').map(|end| &rest[..end])
}

fn is_text(byte: &u8) -> bool {
    !matches!(byte, 0..=8 | 10..=31 | 0x7f)
}

fn is_trailer(line: &[u8]) -> bool {
    let name = line.iter().take_while(|byte| is_token_byte(**byte)).count();
    name > 0 && line.get(name) == Some(&b':') && line[name..].iter().all(is_text)
}

/// `*( BWS ";" BWS name [ BWS "=" BWS value ] )` (RFC 9112, 7.1.1).
fn extensions(mut rest: &[u8]) -> bool {
    let blank = |mut rest: &[u8]| -> usize {
        let before = rest.len();
        while let [b' ' | b'\t', after @ ..] = rest {
            rest = after;
        }
        before - rest.len()
    };
    let token = |rest: &[u8]| rest.iter().take_while(|byte| is_token_byte(**byte)).count();
    while !rest.is_empty() {
        rest = &rest[blank(rest)..];
        let Some(after) = rest.strip_prefix(b";") else { return false };
        rest = &after[blank(after)..];
        let name = token(rest);
        if name == 0 {
            return false;
        }
        rest = &rest[name..];
        let Some(value) = rest[blank(rest)..].strip_prefix(b"=") else { continue };
        rest = &value[blank(value)..];
        let length = match rest.first() {
            Some(b'"') => quoted(rest),
            _ => Some(token(rest)).filter(|length| *length > 0),
        };
        let Some(length) = length else { return false };
        rest = &rest[length..];
    }
    true
}

/// Length of the quoted string that the text starts with, quotes included.
fn quoted(text: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        match text.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => {
                text.get(at + 1).filter(|byte| is_text(byte))?;
                at += 2;
            }
            byte if is_text(byte) => at += 1,
            _ => return None,
        }
    }
}

/// Reads a `traceparent`, the first line, and a `tracestate`, the others. A parent must be read
/// back from its parts, and a state that is passed on must be bounded and stay as it is.
pub fn trace_context(input: &[u8]) {
    let mut lines = input.split(|byte| *byte == b'\n');
    if let Some(text) = lines.next()
        && let Some(parent) = Parent::parse(text)
    {
        let Parent { id, span, flags } = parent;
        let written = format!("00-{id}-{span}-{flags:02x}");
        assert!(text.get(2..52) == written.as_bytes().get(2..52));
        assert_eq!(Parent::parse(written.as_bytes()), Some(parent));
    }
    if let Some(joined) = join_state(lines) {
        assert!(joined.len() <= MAX_STATE_BYTES && joined.is_ascii());
        assert_eq!(join_state([&joined[..]].into_iter()), Some(joined.clone()));
    }
}
