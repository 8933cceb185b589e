//! Whole connections, beside hyper.

use std::cell::RefCell;
use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use howdah_http::body::Body;
use howdah_http::drain::Drain;
use howdah_http::error_status::RequestError;
use howdah_http::exchange::{Exchange, Handler, RequestRecord};
use howdah_http::h1::{Io, serve};
use howdah_http::limits::Limits;
use howdah_http::message::{ConnectionInfo, Response};
use hyper::body::{Body as _, Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf};

/// Method, path with query, and body of each request that was read to its end.
type Noted = Vec<(Vec<u8>, Vec<u8>, Vec<u8>)>;

/// The bytes of a connection are read as the same requests and bodies as by hyper, up to the end of
/// the connection; the server may end it sooner. The first byte of the input is the length of the
/// pieces in which we get the rest.
pub fn connection(input: &[u8]) {
    thread_local! {
        static RUNTIME: tokio::runtime::Runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    }
    let Some((piece, input)) = input.split_first() else { return };
    let piece = match *piece {
        b'*' => usize::MAX,
        piece => usize::from(piece).max(1),
    };
    let (whole, pieces, theirs) = RUNTIME.with(|runtime| {
        runtime.block_on(async {
            (ours(input, usize::MAX).await, ours(input, piece).await, theirs(input).await)
        })
    });
    assert_eq!(whole, pieces, "the pieces made a difference");
    // Where a target has bytes that hyper takes for an end of it or refuses, but nginx and we do
    // not, the two cannot agree.
    let comparable = whole.iter().take_while(|(_, target, _)| is_uri(target)).count();
    let theirs = theirs.get(..comparable.min(theirs.len())).unwrap_or_default();
    assert_eq!(&whole[..comparable], theirs);
}

/// Returns true if all bytes may be in a URI (RFC 3986).
fn is_uri(target: &[u8]) -> bool {
    target.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-._~:/?@!$&'()*+,;=%".contains(byte))
}

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
        let request = &exchange.request;
        self.0.borrow_mut().push((request.method.to_vec(), request.target.to_vec(), body));
        Response::new(200, Body::Empty)
    }

    fn error(&self, error: RequestError) -> Response {
        Response::new(error.status(), Body::Empty)
    }

    fn log_request(&self, _: &RequestRecord<'_>) {}
}

/// A pipe in memory as a connection.
struct Pipe(DuplexStream);

impl Io for Pipe {}

impl AsyncRead for Pipe {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// Sends the input in pieces, ends the sending side, and reads until the server ends. Returns the
/// output of the server.
async fn feed(client: DuplexStream, input: &[u8], piece: usize) -> Vec<u8> {
    let (mut reader, mut writer) = tokio::io::split(client);
    let send = async {
        for piece in input.chunks(piece.min(input.len().max(1))) {
            if writer.write_all(piece).await.is_err() {
                return;
            }
            tokio::task::yield_now().await;
        }
        let _ = writer.shutdown().await;
    };
    let mut answers = Vec::new();
    let _ = tokio::join!(send, reader.read_to_end(&mut answers));
    answers
}

async fn ours(input: &[u8], piece: usize) -> Noted {
    let (client, server) = tokio::io::duplex(1 << 16);
    let info = Arc::new(ConnectionInfo::default());
    let recorder = Recorder::default();
    let drain = Drain::new().register();
    let serving = serve(Pipe(server), info, &recorder, drain);
    let ((), answers) = tokio::join!(serving, feed(client, input, piece));
    let noted = recorder.0.into_inner();
    // Every request is answered, and at most one that never became one.
    let text = String::from_utf8_lossy(&answers);
    assert!(answers.is_empty() || answers.starts_with(b"HTTP/1.1 "), "{text}");
    assert!(text.matches("HTTP/1.1 200 ").count() == noted.len(), "{noted:?} {text}");
    noted
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
            let method = head.method.as_str().as_bytes().to_vec();
            noted.borrow_mut().push((method, target.as_bytes().to_vec(), body));
            Ok::<_, hyper::Error>(hyper::Response::new(Nothing))
        }
    });
    let (client, server) = tokio::io::duplex(1 << 16);
    let mut builder = hyper::server::conn::http1::Builder::new();
    let connection = builder.half_close(true).serve_connection(TokioIo::new(server), service);
    let _ = tokio::join!(connection, feed(client, input, usize::MAX));
    noted.take()
}
