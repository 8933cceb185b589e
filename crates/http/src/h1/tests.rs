//! A server on a socket, and clients that send it raw bytes.

mod differential;
mod eviction;
mod heads;
mod limits;
mod persistence;
mod sending;
mod smuggling;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{Sleep, sleep, timeout};

use super::serve;
use crate::body::{Body, BodyStream};
use crate::drain::Drain;
use crate::error_status::RequestError;
use crate::exchange::{Disconnect, Exchange, Handler, RequestRecord, SendOutcome};
use crate::limits::Limits;
use crate::message::{ConnectionInfo, FieldBlock, Response};

/// Handler that answers by path, and records requests and their results.
pub(super) struct Site {
    limits: RefCell<Rc<Limits>>,
    ids: Cell<u64>,
    seen: RefCell<Vec<String>>,
    ended: RefCell<Vec<(u16, SendOutcome, u64)>>,
    gone: Cell<Option<Disconnect>>,
    /// Duration of the last request.
    elapsed: Cell<Duration>,
    /// Body of the responses for `/body` and `/untold`.
    body: RefCell<Option<Body>>,
}

impl Handler for Site {
    fn limits(&self) -> Rc<Limits> {
        Rc::clone(&self.limits.borrow())
    }

    fn next_id(&self) -> u64 {
        self.ids.set(self.ids.get() + 1);
        self.ids.get()
    }

    async fn handle(&self, exchange: &mut Exchange<'_>) -> Response {
        let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
        let line = format!("{} {}", text(&exchange.request.method), text(&exchange.request.path));
        self.seen.borrow_mut().push(line);
        match exchange.request.path.as_ref() {
            b"/echo" => self.echo(exchange).await,
            b"/facts" => {
                let request = &exchange.request;
                let mut facts = format!(
                    "{} {} {} {} {}\n",
                    text(&request.method),
                    text(&request.target),
                    text(&request.path),
                    text(&request.query),
                    text(&request.host)
                );
                for (name, value) in request.fields.iter() {
                    let (name, value) = (name.escape_ascii(), value.escape_ascii());
                    facts.push_str(&format!("{name}={value}\n"));
                }
                Response::new(200, Bytes::from(facts).into())
            }
            b"/slow" => {
                sleep(Duration::from_millis(800)).await;
                Response::new(200, Body::from("slow\n"))
            }
            b"/early" => {
                let mut hint = FieldBlock::default();
                hint.push("Link", "</style.css>; rel=preload");
                exchange.interim(103, &hint).await.unwrap();
                assert!(exchange.interim(200, &hint).await.is_err());
                Response::new(200, Body::from("late\n"))
            }
            b"/wait" => {
                self.gone.set(Some(exchange.client_gone().await));
                Response::new(200, Body::from("waited\n"))
            }
            b"/nothing" => Response::new(204, Body::from("not sent")),
            b"/same" => Response::new(304, Body::from("not sent")),
            b"/last" => Response { close: true, ..Response::new(200, Body::from("last\n")) },
            b"/body" => Response::new(200, self.body.borrow_mut().take().unwrap_or_default()),
            b"/untold" => {
                let body = self.body.borrow_mut().take().unwrap_or_default();
                Response { chunked: true, ..Response::new(200, body) }
            }
            _ => Response::new(200, Body::from("hello\n")).with("Content-Type", "text/plain"),
        }
    }

    fn error(&self, error: RequestError) -> Response {
        Response::new(error.status(), Body::from("refused\n"))
    }

    fn log_request(&self, record: &RequestRecord<'_>) {
        self.ended.borrow_mut().push((record.status, record.outcome, record.sent));
        self.elapsed.set(record.elapsed);
    }
}

impl Site {
    async fn echo(&self, exchange: &mut Exchange<'_>) -> Response {
        let mut body = Vec::new();
        loop {
            match exchange.read_body().await {
                Ok(Some(bytes)) => body.extend_from_slice(&bytes),
                Ok(None) => return Response::new(200, Bytes::from(body).into()),
                Err(error) => return self.error(error.into()),
            }
        }
    }
}

/// A running server.
pub(super) struct Server {
    address: SocketAddr,
    site: Rc<Site>,
    drain: Drain,
}

impl Server {
    async fn client(&self) -> Client {
        let stream = TcpStream::connect(self.address).await.unwrap();
        Client { stream, received: Vec::new() }
    }

    /// Sends `bytes` on a new connection and returns all output of the server.
    async fn talk(&self, bytes: impl AsRef<[u8]>) -> String {
        let mut client = self.client().await;
        client.send(bytes).await;
        client.rest().await
    }

    fn seen(&self) -> Vec<String> {
        self.site.seen.borrow().clone()
    }

    /// Waits until the handler has received `count` requests.
    async fn sees(&self, count: usize) {
        let come = async {
            while self.site.seen.borrow().len() < count {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(TEST_TIMEOUT, come).await.expect("the request does not come");
    }

    fn ended(&self) -> Vec<(u16, SendOutcome)> {
        self.site.ended.borrow().iter().map(|(status, outcome, _)| (*status, *outcome)).collect()
    }

    /// Sets the body of `/body` and `/untold`.
    fn answer(&self, body: Body) {
        *self.site.body.borrow_mut() = Some(body);
    }

    /// Waits until all connections are closed.
    async fn emptied(&self) {
        timeout(Duration::from_secs(10), self.drain.all_closed())
            .await
            .expect("a connection stays");
    }
}

/// A connection to the server.
pub(super) struct Client {
    stream: TcpStream,
    received: Vec<u8>,
}

/// A response, with its body if it has `Content-Length`.
#[derive(Debug)]
pub(super) struct Reply {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Reply {
    fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (found, value) = line.split_once(": ")?;
            found.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

const TEST_TIMEOUT: Duration = Duration::from_secs(10);

impl Client {
    /// Sends bytes; ignores errors of a connection that the server has closed.
    async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = timeout(TEST_TIMEOUT, self.stream.write_all(bytes.as_ref())).await.unwrap();
    }

    async fn read(&mut self) -> usize {
        let read = self.stream.read_buf(&mut self.received);
        timeout(TEST_TIMEOUT, read).await.expect("the server says nothing").unwrap_or(0)
    }

    /// Returns the head of the next response.
    async fn head(&mut self) -> Reply {
        loop {
            if let Some(end) = memchr::memmem::find(&self.received, b"\r\n\r\n") {
                let head: Vec<u8> = self.received.drain(..end + 4).collect();
                let head = String::from_utf8(head).unwrap();
                let status = head.split(' ').nth(1).unwrap().parse().unwrap();
                return Reply { status, head, body: Vec::new() };
            }
            assert!(self.read().await > 0, "ended within a head: {:?}", self.received);
        }
    }

    /// Returns the next response, which must have `Content-Length`.
    async fn reply(&mut self) -> Reply {
        let mut reply = self.head().await;
        let len = reply.field("Content-Length").expect("no length").parse().unwrap();
        reply.body = self.bytes(len).await;
        reply
    }

    async fn bytes(&mut self, len: usize) -> Vec<u8> {
        while self.received.len() < len {
            assert!(self.read().await > 0, "ended within a body");
        }
        self.received.drain(..len).collect()
    }

    /// Returns all bytes until the connection ends.
    async fn rest(&mut self) -> String {
        while self.read().await > 0 {}
        String::from_utf8_lossy(&std::mem::take(&mut self.received)).into_owned()
    }

    /// Returns true if the server keeps the connection open and stays silent for a while.
    async fn is_silent(&mut self, time: Duration) -> bool {
        timeout(time, self.stream.read_buf(&mut self.received)).await.is_err()
    }
}

/// Runs a test against a server with these limits.
pub(super) fn with_server<F>(limits: Limits, test: impl FnOnce(Rc<Server>) -> F)
where
    F: Future<Output = ()>,
{
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let site = Rc::new(Site {
            limits: RefCell::new(Rc::new(limits)),
            ids: Cell::new(0),
            seen: RefCell::default(),
            ended: RefCell::default(),
            gone: Cell::new(None),
            elapsed: Cell::default(),
            body: RefCell::default(),
        });
        let drain = Drain::new();
        let server = Rc::new(Server { address, site: Rc::clone(&site), drain: drain.clone() });
        spawn_local(async move {
            loop {
                let (stream, peer) = listener.accept().await.unwrap();
                stream.set_nodelay(true).unwrap();
                let info =
                    Arc::new(ConnectionInfo { peer: Some(peer), ..ConnectionInfo::default() });
                let (site, draining) = (Rc::clone(&site), drain.register());
                spawn_local(async move { serve(stream, info, &*site, draining).await });
            }
        });
        test(server).await;
    });
}

/// Runs [`with_server`] with the default limits.
pub(super) fn with_default<F>(test: impl FnOnce(Rc<Server>) -> F)
where
    F: Future<Output = ()>,
{
    with_server(Limits::default(), test);
}

/// A stream that yields these items, with a pause before each.
pub(super) struct Script {
    items: VecDeque<io::Result<Bytes>>,
    len: Option<u64>,
    pause: Duration,
    sleep: Option<std::pin::Pin<Box<Sleep>>>,
    dropped: Rc<Cell<bool>>,
}

impl Script {
    fn new(len: Option<u64>, pause: Duration, items: &[&str]) -> Script {
        let items = items.iter().map(|item| Ok(Bytes::copy_from_slice(item.as_bytes()))).collect();
        Script { items, len, pause, sleep: None, dropped: Rc::default() }
    }
}

impl BodyStream for Script {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if !self.pause.is_zero() {
            let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep(self.pause)));
            std::task::ready!(sleep.as_mut().poll(cx));
            self.sleep = None;
        }
        Poll::Ready(self.items.pop_front())
    }

    fn len(&self) -> Option<u64> {
        self.len
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        self.dropped.set(true);
    }
}
