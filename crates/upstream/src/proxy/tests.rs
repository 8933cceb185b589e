//! Tests of a proxy between a client and a server whose responses the test sets byte for byte.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use howdah_config::{self as config, Address, Buffering, Timeouts};
use howdah_http::drain::Drain;
use howdah_http::error_status::RequestError;
use howdah_http::exchange::{Handler, RequestRecord};
use howdah_http::h1;
use howdah_http::limits::Limits;
use howdah_http::memory::Owner;
use howdah_http::message::ConnectionInfo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{sleep, timeout};

use super::*;

mod balancing;
mod pooling;
mod raw;
mod responses;
mod retries;
mod streaming;
mod trailers;
mod upgrades;

/// Timeout of waits that end sooner in a test that succeeds.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Reaction of a server to one request.
#[derive(Clone)]
struct Answer {
    parts: Vec<Vec<u8>>,
    /// The connection stays open afterwards.
    keep: bool,
    /// The server answers before it has read the body.
    early: bool,
    /// Pause after each part.
    pause: Duration,
}

/// Creates an answer after which the connection is closed.
fn close(bytes: impl AsRef<[u8]>) -> Answer {
    let pause = Duration::from_millis(20);
    Answer { parts: vec![bytes.as_ref().to_vec()], keep: false, early: false, pause }
}

/// Creates an answer after which the connection stays open.
fn keep(bytes: impl AsRef<[u8]>) -> Answer {
    Answer { keep: true, ..close(bytes) }
}

/// A server that sends its answers in order, and repeats the last one.
#[derive(Clone)]
struct Backend {
    address: SocketAddr,
    /// Requests that the server got.
    seen: Rc<RefCell<Vec<String>>>,
    connections: Rc<Cell<usize>>,
    /// Parts of answers that the server has sent.
    sent: Rc<Cell<usize>>,
    closed: Rc<Cell<usize>>,
}

impl Backend {
    async fn new(answers: impl IntoIterator<Item = Answer>) -> Backend {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let backend = Backend {
            address: listener.local_addr().unwrap(),
            seen: Rc::default(),
            connections: Rc::default(),
            sent: Rc::default(),
            closed: Rc::default(),
        };
        let answers: Rc<RefCell<VecDeque<Answer>>> =
            Rc::new(RefCell::new(answers.into_iter().collect()));
        let this = backend.clone();
        spawn_local(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                this.connections.set(this.connections.get() + 1);
                let (this, answers) = (this.clone(), Rc::clone(&answers));
                spawn_local(async move {
                    this.serve(stream, &answers).await;
                    this.closed.set(this.closed.get() + 1);
                });
            }
        });
        backend
    }

    async fn serve(&self, mut stream: TcpStream, answers: &RefCell<VecDeque<Answer>>) {
        let mut received = Vec::new();
        loop {
            let head = loop {
                if let Some(end) = memchr::memmem::find(&received, b"\r\n\r\n") {
                    break end + 4;
                }
                if !matches!(stream.read_buf(&mut received).await, Ok(1..)) {
                    return;
                }
            };
            let text = String::from_utf8_lossy(&received[..head]).into_owned();
            let len = text.lines().find_map(|line| line.strip_prefix("Content-Length: "));
            let len = len.map_or(0, |len| len.parse::<usize>().unwrap());
            let answer = {
                let mut answers = answers.borrow_mut();
                match answers.len() {
                    0 | 1 => answers.front().cloned(),
                    _ => answers.pop_front(),
                }
            };
            let Some(answer) = answer else { return };
            while !answer.early && received.len() < head + len {
                if !matches!(stream.read_buf(&mut received).await, Ok(1..)) {
                    return;
                }
            }
            let all = received.len().min(head + len);
            let request: Vec<u8> = received.drain(..all).collect();
            self.seen.borrow_mut().push(String::from_utf8_lossy(&request).into_owned());
            for part in &answer.parts {
                if stream.write_all(part).await.is_err() {
                    return;
                }
                self.sent.set(self.sent.get() + 1);
                sleep(answer.pause).await;
            }
            if !answer.keep {
                if answer.early {
                    // Closing with unread bytes would reset the connection.
                    let _ = stream.shutdown().await;
                    let _ = timeout(TEST_TIMEOUT, stream.read_to_end(&mut received)).await;
                }
                return;
            }
        }
    }

    fn requests(&self) -> usize {
        self.seen.borrow().len()
    }
}

/// The proxy, with its log.
struct Proxy {
    address: SocketAddr,
    log: tempfile::NamedTempFile,
    statuses: Rc<RefCell<Vec<u16>>>,
}

struct Front {
    thread: Rc<UpstreamThread>,
    upstream: Arc<Upstream>,
    options: Arc<ServerOptions>,
    directory: tempfile::TempDir,
    statuses: Rc<RefCell<Vec<u16>>>,
}

impl Handler for Front {
    fn limits(&self) -> Rc<Limits> {
        Rc::new(Limits { max_body: 1 << 40, ..Limits::default() })
    }

    fn next_id(&self) -> u64 {
        7
    }

    async fn handle(&self, exchange: &mut Exchange<'_>) -> Response {
        let directory = self.directory.path();
        let buffer = BufferSettings {
            memory: 20_000,
            directory,
            owner: &Owner::default(),
            buffering: Buffering::default(),
        };
        run(&self.thread, &self.upstream, &buffer, &self.options, exchange).await
    }

    fn error(&self, error: RequestError) -> Response {
        Response::new(error.status(), Body::Empty)
    }

    fn log_request(&self, record: &RequestRecord<'_>) {
        self.statuses.borrow_mut().push(record.status);
    }
}

/// Returns timeouts that never pass, however busy the machine is.
fn timeouts() -> Timeouts {
    Timeouts {
        connect: TEST_TIMEOUT,
        send: TEST_TIMEOUT,
        first_byte: TEST_TIMEOUT,
        read: TEST_TIMEOUT,
        idle: Duration::from_secs(60),
        tunnel: TEST_TIMEOUT * 6,
    }
}

/// Returns timeouts that pass soon.
fn impatient() -> Timeouts {
    let short = Duration::from_millis(400);
    Timeouts { send: short, first_byte: short, read: short, ..timeouts() }
}

impl Proxy {
    async fn new(mut upstream: Upstream, timeouts: Timeouts) -> Proxy {
        let log = tempfile::NamedTempFile::new().unwrap();
        let writer = log.reopen().unwrap();
        let errors = Arc::new(howdah_sys::log::Log::new(writer.into()));
        let statuses: Rc<RefCell<Vec<u16>>> = Rc::default();
        upstream.config.timeouts = timeouts;
        let front = Rc::new(Front {
            thread: UpstreamThread::new(errors),
            upstream: Arc::new(upstream),
            options: Arc::default(),
            directory: tempfile::tempdir().unwrap(),
            statuses: Rc::clone(&statuses),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let drain = Drain::new();
        spawn_local(async move {
            loop {
                let (stream, peer) = listener.accept().await.unwrap();
                let info = ConnectionInfo { peer: Some(peer), ..ConnectionInfo::default() };
                let (front, draining) = (Rc::clone(&front), drain.register());
                spawn_local(async move {
                    h1::serve(stream, Arc::new(info), &*front, draining).await;
                });
            }
        });
        Proxy { address, log, statuses }
    }

    /// Creates a proxy in front of one server.
    async fn before(backend: &Backend) -> Proxy {
        Proxy::within(timeouts(), backend).await
    }

    /// Creates a proxy in front of one server, with these timeouts.
    async fn within(timeouts: Timeouts, backend: &Backend) -> Proxy {
        Proxy::new(single(&Address::Inet(backend.address)), timeouts).await
    }

    /// Sends bytes on a new connection, and returns all bytes received until its end.
    async fn talk(&self, bytes: impl AsRef<[u8]>) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(bytes.as_ref()).await.unwrap();
        let mut received = Vec::new();
        let read = timeout(TEST_TIMEOUT, stream.read_to_end(&mut received)).await;
        let _ = read.expect("the proxy says nothing");
        String::from_utf8_lossy(&received).into_owned()
    }

    /// Returns the response to a plain request.
    async fn get(&self) -> String {
        self.talk("GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.log.path()).unwrap()
    }
}

/// Returns the upstream of a `proxy` with one server.
fn single(address: &Address) -> Upstream {
    let proxy = config::Proxy { address: address.clone(), tls: None, keepalive: 0 };
    Upstream::proxy(&proxy, std::slice::from_ref(address), None)
}

/// Returns an upstream whose servers take turns even if they fail.
fn several(backends: &[&Backend], tries: usize, keepalive: usize) -> Upstream {
    let servers = backends
        .iter()
        .map(|backend| config::UpstreamServer::new(Address::Inet(backend.address), 1.0));
    let config = config::Upstream {
        tries: Some(tries),
        keepalive,
        failures: config::Failures::NEVER,
        ..config::Upstream::new("u", servers.collect())
    };
    Upstream::new(&config, None)
}

fn status(reply: &str) -> u16 {
    reply.get(9..12).and_then(|status| status.parse().ok()).unwrap_or(0)
}

fn content(reply: &str) -> &str {
    reply.split_once("\r\n\r\n").map_or("", |(_, content)| content)
}

/// Runs a test with all tasks that it starts.
fn with<F: Future<Output = ()>>(test: impl FnOnce() -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async { test().await });
}
