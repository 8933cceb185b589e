use std::io::{Read, Write};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use proptest::prelude::*;

use super::*;
use crate::body::{BodyStream, Piece};
use crate::fixture::request;

const ALL: &str = r#"{"compressors": [{"encoding": "zstd"}, {"encoding": "br"},
    {"encoding": "gzip", "min_length": 10}, {"encoding": "deflate"}]}"#;

fn compression(text: &str) -> Compression {
    let document = format!(r#"{{"settings": {{"http": {{"compression": {text}}}}}}}"#);
    let config = howdah_config::parse(document.as_bytes()).unwrap();
    let settings = config.settings.http.compression.unwrap();
    let compressors = settings.compressors.iter().map(|compressor| Compressor {
        encoding: Encoding::named(compressor.encoding).unwrap(),
        level: compressor.level,
        min_length: compressor.min_length,
    });
    Compression { types: settings.types, compressors: compressors.collect() }
}

fn text() -> Vec<u8> {
    b"<p>Words that come again and again.</p>\n".repeat(200)
}

fn html(body: impl Into<Body>) -> Response {
    Response::new(200, body.into())
        .with("Content-Type", "text/html; charset=UTF-8")
        .with("ETag", "\"a-1\"")
        .with("Accept-Ranges", "bytes")
}

fn page() -> Response {
    html(Bytes::from(text()))
}

fn compressed(settings: &str, accept: &str, mut response: Response) -> Response {
    let request = request("/", &[("Accept-Encoding", accept)]);
    apply(&compression(settings), &request, &mut response);
    response
}

fn encoding(response: &Response) -> &str {
    std::str::from_utf8(response.fields.get("content-encoding").unwrap_or_default()).unwrap()
}

/// Returns all bytes of a body.
fn collect(body: Body) -> std::io::Result<Vec<u8>> {
    let mut cx = Context::from_waker(Waker::noop());
    match body {
        Body::Bytes(bytes) => Ok(bytes.to_vec()),
        Body::Stream(mut stream) => {
            let mut all = Vec::new();
            loop {
                match stream.poll_next(&mut cx) {
                    Poll::Ready(Some(bytes)) => {
                        let bytes = bytes?;
                        assert!(!bytes.is_empty());
                        all.extend_from_slice(&bytes);
                    }
                    Poll::Ready(None) => return Ok(all),
                    Poll::Pending => {}
                }
            }
        }
        other => panic!("{other:?}"),
    }
}

fn decoded(encoding: &str, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    match encoding {
        "br" => brotli::Decompressor::new(bytes, 4096).read_to_end(&mut out).unwrap(),
        "deflate" => flate2::read::ZlibDecoder::new(bytes).read_to_end(&mut out).unwrap(),
        "gzip" => flate2::read::GzDecoder::new(bytes).read_to_end(&mut out).unwrap(),
        "zstd" => zstd::stream::read::Decoder::new(bytes).unwrap().read_to_end(&mut out).unwrap(),
        other => panic!("{other}"),
    };
    out
}

/// Pieces that arrive one by one; after each, the stream is pending for two polls.
struct Slow(Vec<Bytes>, u32, Option<u64>);

impl BodyStream for Slow {
    fn poll_next(&mut self, _: &mut Context<'_>) -> Poll<Option<std::io::Result<Bytes>>> {
        self.1 += 1;
        match self.1 % 3 {
            1 if self.0.is_empty() => Poll::Ready(None),
            1 => Poll::Ready(Some(Ok(self.0.remove(0)))),
            _ => Poll::Pending,
        }
    }

    fn len(&self) -> Option<u64> {
        self.2
    }
}

fn stream(pieces: &[&'static str], len: Option<u64>) -> Body {
    let pieces = pieces.iter().map(|piece| Bytes::from_static(piece.as_bytes())).collect();
    Body::Stream(Box::new(Slow(pieces, 0, len)))
}

#[test]
fn a_page_is_compressed_as_the_client_likes_it() {
    for (accept, expected) in [
        ("gzip", "gzip"),
        ("gzip, deflate, br, zstd", "zstd"),
        ("gzip;q=0.9, br;q=0.5", "gzip"),
        ("deflate", "deflate"),
        ("*", "zstd"),
        ("*, zstd;q=0", "br"),
        ("", ""),
        ("identity", ""),
        ("gzip;q=0", ""),
        ("identity;q=1, gzip;q=0.1", ""),
        ("lzma", ""),
    ] {
        let response = compressed(ALL, accept, page());
        assert_eq!(encoding(&response), expected, "{accept}");
        assert_eq!(response.fields.get("vary"), Some(&b"Accept-Encoding"[..]));
        if !expected.is_empty() {
            assert!(response.body.len().unwrap() < 500, "the length is known");
            assert_eq!(decoded(expected, &collect(response.body).unwrap()), text());
        }
    }
}

#[test]
fn fields_describe_the_compressed_content() {
    let response = compressed(ALL, "gzip", page().with("Vary", "Cookie"));
    assert_eq!(response.fields.get("etag"), Some(&b"W/\"a-1\""[..]));
    assert_eq!(response.fields.get("accept-ranges"), None);
    let vary: Vec<_> = response.fields.iter().filter(|(name, _)| *name == b"Vary").collect();
    assert_eq!(vary.len(), 2);
    let response = compressed(ALL, "gzip", page().with("Vary", "Cookie, accept-encoding"));
    assert_eq!(response.fields.iter().filter(|(name, _)| *name == b"Vary").count(), 1);
    let plain = compressed(ALL, "", page());
    assert_eq!(plain.fields.get("etag"), Some(&b"\"a-1\""[..]));
    assert_eq!(plain.fields.get("accept-ranges"), Some(&b"bytes"[..]));
}

#[test]
fn marked_responses_are_not_compressed() {
    for (name, value) in [
        ("Content-Encoding", "gzip"),
        ("Content-Encoding", "identity"),
        ("Cache-Control", "private, No-Transform"),
        ("Content-Range", "bytes 0-1/2"),
        ("Content-Digest", "sha-256=:x:"),
    ] {
        let response = compressed(ALL, "gzip", page().with(name, value));
        assert_eq!(response.body.len(), Some(text().len() as u64), "{name}: {value}");
        assert_ne!(response.fields.get("content-encoding"), Some(&b"identity"[..]));
    }
}

#[test]
fn statuses_without_whole_content_are_left_alone() {
    for status in [100, 204, 205, 206, 304] {
        let mut response = page();
        response.status = status;
        assert_eq!(encoding(&compressed(ALL, "gzip", response)), "", "{status}");
    }
    for status in [200, 201, 403, 404, 500] {
        let mut response = page();
        response.status = status;
        assert_eq!(encoding(&compressed(ALL, "gzip", response)), "gzip", "{status}");
    }
    assert_eq!(encoding(&compressed(ALL, "gzip", html(""))), "");
}

#[test]
fn a_client_with_a_compressed_copy_gets_its_tag_back() {
    let answer = |tag: &str| {
        let request = request("/", &[("If-None-Match", tag)]);
        let mut response = Response::new(304, Body::Empty).with("ETag", "\"a-1\"");
        apply(&compression(ALL), &request, &mut response);
        response.fields.get("etag").map(<[u8]>::to_vec).unwrap()
    };
    assert_eq!(answer("W/\"a-1\""), b"W/\"a-1\"");
    assert_eq!(answer("\"a-1\""), b"\"a-1\"");
}

#[test]
fn types_and_lengths_decide() {
    let of_type = |settings: &str, media_type: &str| {
        let response = Response::new(200, Bytes::from(text()).into());
        let response = response.with("Content-Type", media_type);
        encoding(&compressed(settings, "gzip", response)).to_owned()
    };
    let css = r#"{"types": ["text/*", "!text/plain"], "compressors": {"encoding": "gzip"}}"#;
    assert_eq!(of_type(css, "Text/CSS;charset=x"), "gzip");
    assert_eq!(of_type(css, "text/plain; charset=x"), "");
    assert_eq!(of_type(css, "application/json"), "");
    for dense in ["image/png", "video/mp4", "application/zip", "font/woff2", "Image/JPEG"] {
        assert_eq!(of_type(ALL, dense), "", "{dense}");
    }
    assert_eq!(of_type(ALL, "image/svg+xml"), "gzip");
    let untyped = Response::new(200, Bytes::from(text()).into());
    assert_eq!(encoding(&compressed(ALL, "gzip", untyped)), "");

    let long = r#"{"compressors": [{"encoding": "br", "min_length": 9000}, {"encoding": "gzip"}]}"#;
    assert_eq!(encoding(&compressed(long, "br, gzip", page())), "gzip");
    assert_eq!(encoding(&compressed(long, "br", page())), "");
    let unknown = html(stream(&["a"], None));
    assert_eq!(encoding(&compressed(long, "br", unknown)), "br");
    let short = compressed(ALL, "br", html("ab"));
    assert_eq!((encoding(&short), short.body.len()), ("", Some(2)), "it would become longer");
}

#[test]
fn what_a_script_has_sent_arrives_while_the_script_waits() {
    for accept in ["gzip", "br", "zstd", "deflate"] {
        let response = compressed(ALL, accept, html(stream(&["data: 1\n\n", "data: 2\n\n"], None)));
        let Body::Stream(mut stream) = response.body else { panic!() };
        let mut cx = Context::from_waker(Waker::noop());
        let mut sent = Vec::new();
        while let Poll::Ready(part) = stream.poll_next(&mut cx) {
            sent.extend_from_slice(&part.unwrap().unwrap());
        }
        assert_eq!(start(accept, &sent), b"data: 1\n\n", "{accept}");
        sent.extend(collect(Body::Stream(stream)).unwrap());
        assert_eq!(decoded(accept, &sent), b"data: 1\n\ndata: 2\n\n");
    }
}

/// Decodes the start of incomplete content.
fn start(encoding: &str, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    // The writers keep the output decoded so far if the end is missing.
    match encoding {
        "br" => drop(brotli::DecompressorWriter::new(&mut out, 4096).write_all(bytes)),
        "gzip" => {
            let mut decoder = flate2::write::GzDecoder::new(&mut out);
            decoder.write_all(bytes).unwrap();
            decoder.flush().unwrap();
        }
        "deflate" => {
            let mut decoder = flate2::write::ZlibDecoder::new(&mut out);
            decoder.write_all(bytes).unwrap();
            decoder.flush().unwrap();
        }
        _ => {
            let mut decoder = zstd::stream::write::Decoder::new(&mut out).unwrap();
            decoder.write_all(bytes).unwrap();
            decoder.flush().unwrap();
        }
    }
    out
}

#[test]
fn a_part_is_never_taken_for_the_whole() {
    let short = compressed(ALL, "gzip", html(stream(&["abc"], Some(10))));
    assert!(collect(short.body).is_err());
    let long = compressed(ALL, "gzip", html(stream(&["abcdefgh", "ijklmnop"], Some(10))));
    assert_eq!(decoded("gzip", &collect(long.body).unwrap()), b"abcdefghij");

    let file = tempfile::tempfile().unwrap();
    (&file).write_all(&text()).unwrap();
    let piece = |len| Piece::File { file: Arc::new(file.try_clone().unwrap()), offset: 40, len };
    let whole = text().len() as u64 - 40;
    let response = compressed(ALL, "br", html(Body::Pieces(vec![piece(whole)])));
    assert_eq!(decoded("br", &collect(response.body).unwrap()), text()[40..]);
    let truncated = compressed(ALL, "br", html(Body::Pieces(vec![piece(whole + 1)])));
    assert!(collect(truncated.body).is_err());
}

#[test]
fn every_level_gives_the_same_content() {
    for (encoding, levels) in
        [("gzip", -1..=9), ("br", 0..=11), ("zstd", -7..=22), ("deflate", -1..=9)]
    {
        for level in levels {
            let settings =
                format!(r#"{{"compressors": {{"encoding": "{encoding}", "level": {level}}}}}"#);
            let response = compressed(&settings, encoding, page());
            if level != 0 || encoding == "br" {
                let bytes = collect(response.body).unwrap();
                assert_eq!(decoded(encoding, &bytes), text(), "{encoding} {level}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn content_survives_in_any_pieces(
        pieces in prop::collection::vec(prop::collection::vec(0u8..4, 1..20_000), 1..8),
        which in 0usize..4,
        known in any::<bool>(),
    ) {
        let encoding = ["gzip", "br", "zstd", "deflate"][which];
        let all = pieces.concat();
        let pieces: Vec<Bytes> = pieces.into_iter().map(Bytes::from).collect();
        let len = known.then_some(all.len() as u64);
        let body = Body::Stream(Box::new(Slow(pieces, 0, len)));
        let response = compressed(ALL, encoding, html(body));
        prop_assert_eq!(response.body.len(), None);
        prop_assert_eq!(decoded(encoding, &collect(response.body).unwrap()), all);
    }
}
