//! Requests that hyper refuses are refused; requests that both accept have the same meaning.
//!
//! Both servers get the same bytes, which may be several requests, and record each request whose
//! body they could read to its end. Ours may stop sooner, since it is stricter; the requests
//! recorded by then must be the same. Only one input is accepted here and not by hyper: bytes in a
//! target that no URI contains (`<`, `>`, `` ` ``, and from 0x80 up), which nginx and PHP accept as
//! well.

use std::convert::Infallible;
use std::pin::Pin;

use hyper::body::{Body as _, Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use proptest::prelude::*;
use tokio::io::DuplexStream;

use super::*;
use crate::error_status::RequestError;
use crate::h1::Io;

impl Io for DuplexStream {}

/// Method, target and body of each request.
type Noted = Vec<(String, String, Vec<u8>)>;

#[derive(Default)]
struct Recorder(RefCell<Noted>);

impl Handler for Recorder {
    fn limits(&self) -> Rc<Limits> {
        Rc::default()
    }

    fn next_id(&self) -> u64 {
        0
    }

    async fn handle(&self, exchange: &mut Exchange<'_>) -> Response {
        let mut body = Vec::new();
        loop {
            match exchange.read_body().await {
                Ok(Some(bytes)) => body.extend_from_slice(&bytes),
                Ok(None) => break,
                Err(error) => return self.error(error.into()),
            }
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let request = &exchange.request;
        self.0.borrow_mut().push((text(&request.method), text(&request.target), body));
        Response::new(200, Body::Empty)
    }

    fn error(&self, error: RequestError) -> Response {
        Response::new(error.status(), Body::Empty)
    }

    fn log_request(&self, _: &RequestRecord<'_>) {}
}

/// Sends all of `input` and shuts down the sending direction; reads until the server closes.
async fn feed(mut client: DuplexStream, input: &[u8]) {
    let _ = client.write_all(input).await;
    let _ = client.shutdown().await;
    let _ = client.read_to_end(&mut Vec::new()).await;
}

async fn ours(input: &[u8]) -> Noted {
    let (client, server) = tokio::io::duplex(1 << 20);
    let info = Arc::new(ConnectionInfo::default());
    let recorder = Recorder::default();
    tokio::join!(serve(server, info, &recorder, Drain::new().register()), feed(client, input));
    recorder.0.into_inner()
}

struct Nothing;

impl hyper::body::Body for Nothing {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        true
    }
}

async fn theirs(input: &[u8]) -> Noted {
    let noted = Rc::new(RefCell::new(Noted::new()));
    let service = service_fn(|request: hyper::Request<Incoming>| {
        let noted = Rc::clone(&noted);
        async move {
            let (head, mut incoming) = request.into_parts();
            let mut body = Vec::new();
            while let Some(frame) =
                std::future::poll_fn(|cx| Pin::new(&mut incoming).poll_frame(cx)).await
            {
                if let Ok(data) = frame?.into_data() {
                    body.extend_from_slice(&data);
                }
            }
            let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
            noted.borrow_mut().push((head.method.to_string(), target.to_owned(), body));
            Ok::<_, hyper::Error>(hyper::Response::new(Nothing))
        }
    });
    let (client, server) = tokio::io::duplex(1 << 20);
    let mut builder = hyper::server::conn::http1::Builder::new();
    let connection = builder.half_close(true).serve_connection(TokioIo::new(server), service);
    let (_, ()) = tokio::join!(connection, feed(client, input));
    noted.take()
}

fn compare(input: &[u8]) -> Result<(), TestCaseError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (ours, theirs) = runtime.block_on(async { (ours(input).await, theirs(input).await) });
    let same = theirs.get(..ours.len()).is_some_and(|theirs| theirs == ours);
    prop_assert!(same, "{}\nours {ours:?}\ntheirs {theirs:?}", input.escape_ascii());
    Ok(())
}

/// Generates requests that are nearly valid, one after the other.
fn requests() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        4 => Just("POST /a?b HTTP/1.1\r\nHost: a\r\n"), 2 => Just("GET / HTTP/1.1\r\nHost: a\r\n"),
        1 => Just("GET http://a/b HTTP/1.1\r\nHost: a\r\n"), 1 => Just("PUT / HTTP/1.0\r\n"),
        1 => Just("GET / HTTP/1.0\r\nConnection: keep-alive\r\n"), 1 => Just("GET / HTTP/2.0\r\n"),
        1 => Just("GET  / HTTP/1.1\r\nHost: a\r\n"), 1 => Just("\r\nGET / HTTP/1.1\r\nHost: a\r\n"),
    ];
    let field = prop_oneof![
        4 => Just("Content-Length: 5\r\n"), 4 => Just("Transfer-Encoding: chunked\r\n"),
        1 => Just("Content-Length: 05\r\n"), 1 => Just("Content-Length: +5\r\n"),
        1 => Just("Content-Length: 5, 5\r\n"), 1 => Just("Content-Length:5 \r\n"),
        1 => Just("Content-Length:\r\n"), 1 => Just("Content-Length : 5\r\n"),
        1 => Just("Transfer-Encoding: gzip, chunked\r\n"), 1 => Just("Transfer-Encoding: x\r\n"),
        1 => Just("Transfer-Encoding:chunked\t\r\n"), 1 => Just("Transfer-Encoding: CHUNKED\r\n"),
        2 => Just("X: y\r\n"), 1 => Just(" folded\r\n"), 1 => Just("X: y\n"),
        1 => Just("X: \0\r\n"),
        1 => Just("Connection: close\r\n"), 1 => Just("X\r\n"), 1 => Just(": x\r\n"),
        1 => Just("Host: b\r\n"), 1 => Just("Expect: 100-continue\r\n"),
    ];
    let body = prop_oneof![
        4 => Just(""), 4 => Just("hello"), 4 => Just("5\r\nhello\r\n0\r\n\r\n"),
        1 => Just("5;a=b\r\nhello\r\n0\r\n\r\n"), 1 => Just("5;a=\"\n\"\r\nhello\r\n0\r\n\r\n"),
        1 => Just("0\r\n\r\n"), 1 => Just("0\r\nA: b\r\n\r\n"), 1 => Just("5\nhello\n0\n\n"),
        1 => Just("5 5\r\nhello\r\n0\r\n\r\n"), 1 => Just("5\r\nhelloo\r\n0\r\n\r\n"),
        1 => Just("5\r\nhell"), 1 => Just("ffffffffffffffff5\r\nhello\r\n0\r\n\r\n"),
        1 => Just("0x5\r\nhello\r\n0\r\n\r\n"), 1 => Just("5\r\nhello\r\n0\r\nA\r\n\r\n"),
    ];
    let request = (line, proptest::collection::vec(field, 0..4), body)
        .prop_map(|(line, fields, body)| format!("{line}{}\r\n{body}", fields.concat()));
    proptest::collection::vec(request, 1..4).prop_map(|requests| requests.concat().into_bytes())
}

/// Generates a byte that both servers accept or refuse in a target.
fn byte() -> impl Strategy<Value = u8> {
    let common = |byte: &u8| *byte < 0x80 && !matches!(byte, b'<' | b'>' | b'`');
    prop_oneof![
        Just(b'\r'),
        Just(b'\n'),
        Just(b' '),
        Just(b':'),
        Just(b'0'),
        any::<u8>().prop_filter("not for a target", common),
    ]
}

proptest! {
    #[test]
    fn hyper_takes_what_we_take_in_the_same_way(input in requests()) {
        compare(&input)?;
    }

    #[test]
    fn a_changed_byte_is_not_taken_otherwise_than_by_hyper(
        input in requests(),
        at in any::<usize>(),
        byte in byte(),
    ) {
        let mut input = input;
        let at = at % input.len();
        input[at] = byte;
        compare(&input)?;
    }
}
