//! Benchmarks a request for a small file without system calls: parsing its head, the look-up in the
//! cache, the response's head, and all of it together over a connection in memory.

use std::cell::Cell;
use std::hint::black_box;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use howdah_files::{Files, Options, RequestTime, ServeOutcome, Share};
use howdah_http::body::Body;
use howdah_http::drain::Drain;
use howdah_http::error_status::RequestError;
use howdah_http::exchange::{Exchange, Handler, RequestRecord};
use howdah_http::h1::head::{Parse, parse_head};
use howdah_http::h1::{Io, serve};
use howdah_http::limits::Limits;
use howdah_http::message::{ConnectionInfo, Fields, Request, Response, Version};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf};

/// Request of wrk and ab.
const PLAIN: &[u8] = b"GET /small.txt HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n";
/// Request of a browser.
const BROWSER: &[u8] = b"GET /wp-includes/js/jquery/jquery.min.js?ver=3.6.1 HTTP/1.1\r\n\
    Host: www.example.com\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n\
    Accept: */*\r\n\
    Accept-Language: en-GB,en;q=0.7,de;q=0.3\r\n\
    Accept-Encoding: gzip, deflate, br, zstd\r\n\
    Connection: keep-alive\r\n\
    Referer: https://www.example.com/day-1/\r\n\
    Cookie: wordpress_test_cookie=WP%20Cookie%20check; session=0123456789abcdef0123456789abcdef\r\n\
    Sec-Fetch-Dest: script\r\n\
    Sec-Fetch-Mode: no-cors\r\n\
    Sec-Fetch-Site: same-origin\r\n\
    If-None-Match: \"64b8c1a0-15db1\"\r\n\r\n";
/// Number of requests on one connection. They and their responses must fit into the pipe.
const PIPELINED: usize = 64;

fn heads(criterion: &mut Criterion) {
    let limits = Limits::default();
    let mut group = criterion.benchmark_group("request head");
    for (name, head) in [("wrk", PLAIN), ("browser", BROWSER)] {
        assert!(matches!(parse_head(head, &limits), Parse::Complete(..)));
        group.throughput(Throughput::Bytes(head.len() as u64));
        group.bench_function(name, |bencher| bencher.iter(|| parse_head(black_box(head), &limits)));
    }
    group.finish();
}

/// A directory with one small file, and a thread's cache.
struct Site {
    _root: tempfile::TempDir,
    files: Files,
    share: Share,
    now: RequestTime,
}

impl Site {
    fn new() -> Self {
        let root = tempfile::tempdir().expect("a directory");
        std::fs::write(root.path().join("small.txt"), "Hello, world!").expect("a file");
        let share = Share::new(root.path(), Options::default());
        // The clock runs ahead of the file's times: the cache does not keep files that were just
        // written.
        let wall = SystemTime::now() + Duration::from_secs(100);
        let now = RequestTime { monotonic: Instant::now(), wall };
        Site { _root: root, files: Files::new(howdah_files::Limits::default()), share, now }
    }
}

fn request(path: &str) -> Request {
    let fields = Fields::from_pairs([(&b"Host"[..], &b"127.0.0.1:8080"[..])]);
    Request {
        method: Bytes::from_static(b"GET"),
        target: Bytes::copy_from_slice(path.as_bytes()),
        fragment: Bytes::new(),
        path: Bytes::copy_from_slice(path.as_bytes()),
        query: Bytes::new(),
        version: Version::Http11,
        host: Bytes::from_static(b"127.0.0.1"),
        fields,
        connection: Arc::new(ConnectionInfo::default()),
        user: None,
        id: 1,
        error: None,
        captures: Default::default(),
        additions: None,
        handling: Default::default(),
    }
}

fn lookups(criterion: &mut Criterion) {
    let site = Site::new();
    let (present, missing) = (request("/small.txt"), request("/missing.txt"));
    let look = |request: &Request| {
        let place = site.share.place(&request.path);
        match site.files.look_up(&site.share, place, request, site.now) {
            ServeOutcome::File(file) => Ok(site.files.file_response(&file, request, site.now.wall)),
            other => Err(other),
        }
    };
    assert!(look(&present).is_ok());
    assert!(matches!(look(&missing), Err(ServeOutcome::NotServed(_))));
    let mut group = criterion.benchmark_group("cached file");
    group.bench_function("present", |bencher| bencher.iter(|| look(black_box(&present))));
    group.bench_function("missing", |bencher| bencher.iter(|| look(black_box(&missing))));
    group.finish();
}

/// Answers everything with the small file.
struct Answers {
    site: Site,
    limits: Rc<Limits>,
    ids: Cell<u64>,
}

impl Handler for Answers {
    fn limits(&self) -> Rc<Limits> {
        Rc::clone(&self.limits)
    }

    fn next_id(&self) -> u64 {
        self.ids.set(self.ids.get() + 1);
        self.ids.get()
    }

    async fn handle(&self, exchange: &mut Exchange<'_>) -> Response {
        let (site, request) = (&self.site, &exchange.request);
        match site.files.look_up(&site.share, site.share.place(&request.path), request, site.now) {
            ServeOutcome::File(file) => site.files.file_response(&file, request, site.now.wall),
            _ => self.error(RequestError::NotFound),
        }
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

async fn connection(answers: &Answers, requests: &[u8], received: &mut Vec<u8>) {
    let (mut client, server) = tokio::io::duplex(1 << 20);
    let info = Arc::new(ConnectionInfo::default());
    client.write_all(requests).await.expect("there is room");
    client.shutdown().await.expect("the sending side ends");
    serve(Pipe(server), info, answers, Drain::new().register()).await;
    received.clear();
    client.read_to_end(received).await.expect("the answers can be read");
}

fn connections(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.expect("a runtime");
    let answers = Answers { site: Site::new(), limits: Rc::default(), ids: Cell::new(0) };
    let requests = PLAIN.repeat(PIPELINED);
    let mut received = Vec::new();
    runtime.block_on(connection(&answers, &requests, &mut received));
    let complete = String::from_utf8_lossy(&received).matches("HTTP/1.1 200 OK").count();
    assert_eq!(complete, PIPELINED, "every request is answered");
    let mut group = criterion.benchmark_group("connection");
    group.throughput(Throughput::Elements(PIPELINED as u64));
    group.bench_function("64 small files", |bencher| {
        bencher.iter(|| runtime.block_on(connection(&answers, &requests, &mut received)));
    });
    group.finish();
}

criterion_group!(benches, heads, lookups, connections);
criterion_main!(benches);
