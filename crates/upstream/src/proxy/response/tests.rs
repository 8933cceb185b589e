use super::*;

fn read(text: &str) -> Result<Head, Malformed> {
    parse(text.as_bytes(), false)
}

fn length(text: &str, is_head: bool) -> Length {
    parse(text.as_bytes(), is_head).expect(text).length
}

#[test]
fn a_head_is_read() {
    let head = read(
        "HTTP/1.1 404 Gone fishing\r\nServer: x\r\nDate: now\r\nX-A:  b \r\nx-a:\r\n\
         Content-Length: 3\r\nConnection: x-hop, set-cookie\r\nX-Hop: 1\r\nSet-Cookie: a=b\r\n\r\n",
    );
    let fields = b"Date: now\r\nX-A: b\r\nx-a: \r\nSet-Cookie: a=b\r\n";
    assert_eq!(
        head,
        Ok(Head {
            status: 404,
            reason: Some(Bytes::from_static(b"Gone fishing")),
            fields: FieldBlock::from_lines(Bytes::from_static(fields)),
            has_date: true,
            upgrade: None,
            length: Length::Known(3),
            keep_alive: true,
        })
    );
}

#[test]
fn a_reason_phrase_may_be_registered_or_missing() {
    for line in ["HTTP/1.1 200 OK", "HTTP/1.1 200 ", "HTTP/1.1 200"] {
        assert_eq!(read(&format!("{line}\r\n\r\n")).expect(line).reason, None);
    }
}

#[test]
fn the_end_of_a_head_is_found_however_it_is_cut() {
    for text in ["HTTP/1.1 200 OK\r\nA: b\r\n\r\nbody", "HTTP/1.1 200 OK\nA: b\n\nbody\n\n"] {
        let mut scan = Scan::default();
        let end = text.len() - text.trim_start_matches(|c| c != 'b').len();
        let end = end + text[end..].find("\nbody").map_or(0, |at| at + 1);
        for cut in 1..end {
            assert_eq!(scan.advance(&text.as_bytes()[..cut]), Ok(None), "{cut}");
        }
        assert_eq!(scan.advance(text.as_bytes()), Ok(Some(end)));
        assert_eq!(Scan::default().advance(text.as_bytes()), Ok(Some(end)));
    }
}

#[test]
fn what_is_not_http_is_refused_at_once() {
    for text in ["SSH-2.0", "\r\nHTTP/1.1 200 OK", "HTTP/2", "<html>", "\0"] {
        assert!(Scan::default().advance(text.as_bytes()).is_err(), "{text}");
    }
}

#[test]
fn a_head_without_end_is_refused() {
    let long = format!("HTTP/1.1 200 OK\r\nA: {}", "x".repeat(MAX_HEAD_BYTES));
    assert!(Scan::default().advance(long.as_bytes()).is_err());
    assert!(Scan::default().advance(format!("{long}\r\n\r\n").as_bytes()).is_err());
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: b\r\n".repeat(MAX_FIELDS + 1));
    assert!(read(&many).is_err());
    assert!(read("HTTP/1.1 200 OK\r\nA: b\r\n").is_err());
}

#[test]
fn the_length_of_a_body_is_known_in_one_way() {
    for (text, expected) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n", Length::Known(7)),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n", Length::Chunked),
        ("HTTP/1.1 200 OK\r\n\r\n", Length::Close),
        ("HTTP/1.0 200 OK\nContent-Length: 0\n\n", Length::Known(0)),
        ("HTTP/1.1 204 No Content\r\nContent-Length: 7\r\n\r\n", Length::None(Some(7))),
        ("HTTP/1.1 304 Not Modified\r\n\r\n", Length::None(None)),
        ("HTTP/1.1 103 Early Hints\r\n\r\n", Length::None(None)),
    ] {
        assert_eq!(length(text, false), expected, "{text}");
    }
    assert_eq!(length("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n", true), Length::None(Some(7)));
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(length(chunked, true), Length::None(None));
}

#[test]
fn a_connection_is_kept_only_if_nothing_speaks_against_it() {
    for (text, kept) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", true),
        ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: x, Close\r\n\r\n", false),
        ("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", false),
        ("HTTP/1.0 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n", true),
        ("HTTP/1.1 200 OK\r\n\r\n", false),
        ("HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", true),
        ("HTTP/1.1 204 No Content\r\n\r\n", true),
        // A body may follow all the same.
        ("HTTP/1.1 204 No Content\r\nContent-Length: 9\r\n\r\n", false),
        ("HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n", false),
    ] {
        assert_eq!(read(text).expect(text).keep_alive, kept, "{text}");
    }
}

#[test]
fn a_head_that_could_be_read_in_two_ways_is_refused() {
    for lines in [
        "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length: 3\r\nContent-Length: 3\r\n",
        "Content-Length: 3, 3\r\n",
        "Content-Length: +3\r\n",
        "Content-Length: 0x3\r\n",
        "Content-Length: -1\r\n",
        "Content-Length:\r\n",
        "Content-Length: 18446744073709551616\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding: chunked\n",
        "Transfer-Encoding : chunked\r\n",
        " folded: a\r\n",
        "A: b\r\n folded\r\n",
        "A\r\n",
        ": b\r\n",
        "A b: c\r\n",
        "A: b\rSet-Cookie: c=d\r\n",
        "A: b\r\r\n",
        "A: \0\r\n",
        "\rA: b\r\n",
        "A\u{e9}: b\r\n",
    ] {
        let text = format!("HTTP/1.1 200 OK\r\n{lines}\r\n");
        assert!(read(&text).is_err(), "{text:?}");
    }
    let old = "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert!(read(old).is_err());
}

#[test]
fn a_status_line_is_exact() {
    for line in [
        "HTTP/1.1 20 OK",
        "HTTP/1.1 2000 OK",
        "HTTP/1.1 099 No",
        "HTTP/1.1 600 No",
        "HTTP/1.2 200 OK",
        "HTTP/1.1  200 OK",
        "HTTP/1.1 200\tOK",
        "HTTP/1.1 200 O\rK",
        "HTTP/1.1 2x0 OK",
        "HTTP/1.1",
    ] {
        assert!(read(&format!("{line}\r\n\r\n")).is_err(), "{line:?}");
    }
}

#[test]
fn a_protocol_that_follows_is_named_once_and_as_an_option_of_the_connection() {
    let protocol = |fields: &str| {
        let head = read(&format!("HTTP/1.1 101 Switching Protocols\r\n{fields}\r\n\r\n"))?;
        assert_eq!((head.length, head.fields.get("upgrade")), (Length::None(None), None));
        Ok(head.upgrade)
    };
    let websocket = Some(Bytes::from_static(b"WebSocket"));
    assert_eq!(protocol("Upgrade: WebSocket\r\nConnection: Upgrade"), Ok(websocket));
    assert_eq!(protocol("Upgrade: WebSocket"), Ok(None));
    assert_eq!(protocol("Connection: Upgrade"), Ok(None));
    let twice = "Upgrade: websocket\r\nUpgrade: x\r\nConnection: upgrade";
    assert_eq!(protocol(twice), Err(Malformed("two fields Upgrade")));
    let other = "HTTP/1.1 200 OK\r\nUpgrade: h2\r\nConnection: upgrade\r\n\r\n";
    assert_eq!(read(other).map(|head| head.upgrade), Ok(None));
}
