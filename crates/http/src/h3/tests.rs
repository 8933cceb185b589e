//! Whole connections over a transport in memory, with forged frames.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use tokio::task::{LocalSet, spawn_local, yield_now};

use super::error::Code;
use super::fixture::{End, Wire};
use super::frames::{Frames, Piece, kind, put_head};
use super::qpack::Decoder;
use crate::body::{Body, BodyError, BodyStream};
use crate::drain::Drain;
use crate::error_status::RequestError;
use crate::exchange::{Exchange, Handler, RequestRecord, SendOutcome};
use crate::limits::Limits;
use crate::message::{ConnectionInfo, FieldBlock, Response, ResponseExtras, Trailer};

mod ending;
mod requests;
mod violations;

/// A handler that tells what it was asked.
#[derive(Clone, Default)]
struct Teller(Rc<Told>);

#[derive(Default)]
struct Told {
    limits: RefCell<Limits>,
    /// Requests that wait for their client to leave.
    waiting: Cell<usize>,
    /// Status, bytes received and outcome of each response.
    records: RefCell<Vec<(u16, u64, SendOutcome)>>,
    peers: RefCell<Vec<String>>,
    misbehaviour: RefCell<Option<String>>,
}

impl Handler for Teller {
    fn limits(&self) -> Rc<Limits> {
        Rc::new(self.0.limits.borrow().clone())
    }

    fn next_id(&self) -> u64 {
        1
    }

    async fn handle(&self, exchange: &mut Exchange<'_>) -> Response {
        if !exchange.admits() {
            return Response::unsent(503);
        }
        let request = &exchange.request;
        self.0.peers.borrow_mut().extend(request.connection.peer.map(|peer| peer.to_string()));
        match &*request.path {
            b"/early" => return Response::new(413, "too much".into()),
            b"/large" => {
                let pieces = vec![Bytes::from(vec![b'x'; 100_000]); 3];
                let pieces = pieces.into_iter().map(crate::body::Piece::Bytes).collect();
                return Response::new(200, Body::Pieces(pieces));
            }
            b"/wait" => {
                self.0.waiting.set(self.0.waiting.get() + 1);
                exchange.client_gone().await;
                self.0.waiting.set(self.0.waiting.get() - 1);
                return Response::new(499, Body::Empty);
            }
            b"/hints" => {
                let mut fields = FieldBlock::default();
                fields.push("Link", "</a.css>");
                let _ = exchange.interim(103, &fields).await;
            }
            b"/trailer" => {
                let trailer = Trailer::default();
                trailer.set("Grpc-Status: 0\r\n".into());
                let extras = ResponseExtras::of(Some(trailer), None);
                return Response { extras, ..Response::new(200, "body".into()) };
            }
            b"/slow" => return Response::new(200, Body::Stream(Box::new(Slow(0)))),
            _ => {}
        }
        let mut body = Vec::new();
        loop {
            match exchange.read_body().await {
                Ok(Some(bytes)) => body.extend_from_slice(&bytes),
                Ok(None) => break,
                Err(error) => return self.error(error.into()),
            }
        }
        let request = &exchange.request;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let facts = [
            text(&request.method),
            text(&request.target),
            text(&request.host),
            request.version.as_str().to_owned(),
            format!("{:?}", exchange.body_len()),
            text(&body),
            text(&exchange.trailer()),
        ];
        Response::new(200, Bytes::from(facts.join("|")).into()).with("X-Seen", "1")
    }

    fn error(&self, error: RequestError) -> Response {
        Response::new(error.status(), Body::Empty)
    }

    fn log_request(&self, record: &RequestRecord<'_>) {
        self.0.records.borrow_mut().push((record.status, record.received, record.outcome));
    }

    fn log_misbehaviour(&self, _: &ConnectionInfo, reason: &dyn std::fmt::Display) {
        *self.0.misbehaviour.borrow_mut() = Some(reason.to_string());
    }
}

/// A body whose producer makes a piece at each second poll.
struct Slow(usize);

impl BodyStream for Slow {
    fn poll_next(
        &mut self,
        cx: &mut std::task::Context<'_>,
    ) -> Poll<Option<std::io::Result<Bytes>>> {
        self.0 += 1;
        match self.0 {
            6 => Poll::Ready(None),
            odd if odd % 2 == 1 => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            _ => Poll::Ready(Some(Ok("piece ".into()))),
        }
    }

    fn len(&self) -> Option<u64> {
        None
    }
}

/// A response as its client reads it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Answer {
    /// The sections: interim responses, the head, the trailer. A field a line.
    sections: Vec<String>,
    body: Vec<u8>,
    end: Option<End>,
}

impl Answer {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Returns the status of the last head, if the response is complete.
    fn status(&self) -> Option<&str> {
        let mut heads = self.sections.iter().filter_map(|text| text.strip_prefix(":status: "));
        heads.next_back().map(|rest| &rest[..3]).filter(|_| self.end == Some(End::Finished))
    }
}

/// A connection, and the server that serves it.
struct Client {
    wire: Wire,
    teller: Teller,
    drain: Drain,
    served: Rc<Cell<bool>>,
}

impl Client {
    /// Connects, with a control stream and its SETTINGS.
    fn connect() -> Client {
        let client = Client::connect_with(Limits::default());
        let control = client.wire.open_uni();
        client.wire.send(control, [&[0][..], &frame(kind::SETTINGS, &[])].concat());
        client
    }

    /// Connects without any stream.
    fn connect_with(limits: Limits) -> Client {
        Client::from(([192, 0, 2, 1], 4433).into(), limits)
    }

    /// Connects from an address.
    fn from(address: SocketAddr, limits: Limits) -> Client {
        let (wire, teller, drain) = (Wire::default(), Teller::default(), Drain::new());
        wire.move_to(address);
        *teller.0.limits.borrow_mut() = limits;
        let served = Rc::new(Cell::new(false));
        let handler = teller.clone();
        let info = ConnectionInfo { peer: Some(address), ..ConnectionInfo::default() };
        let info = Arc::new(info);
        let serving = super::serve(wire.clone(), info, move || handler.clone(), drain.register());
        let is_served = Rc::clone(&served);
        spawn_local(async move {
            serving.await;
            is_served.set(true);
        });
        Client { wire, teller, drain, served }
    }

    /// Sends a request with its end. Returns its stream.
    fn request(&self, frames: &[Vec<u8>]) -> u64 {
        let id = self.wire.open();
        self.wire.send(id, frames.concat());
        self.wire.finish(id);
        id
    }

    async fn get(&self, path: &str) -> Answer {
        let id = self.request(&[get(path)]);
        self.answer(id).await
    }

    /// Waits until the server has ended a stream, or the connection.
    async fn answer(&self, id: u64) -> Answer {
        until(|| self.wire.ended(id).is_some() || self.wire.closed().is_some()).await;
        self.answer_so_far(id)
    }

    fn answer_so_far(&self, id: u64) -> Answer {
        let (mut frames, mut answer) = (Frames::default(), Answer::default());
        let mut input = Bytes::from(self.wire.received(id));
        let (mut last, mut section) = (0, None::<Decoder>);
        loop {
            let piece = frames.next(&mut input);
            if frames.left() == 0
                && !matches!(piece, Some(Piece::Payload(_)))
                && let Some(section) = section.take()
            {
                answer.sections.push(lines(section));
            }
            match piece {
                None => break,
                Some(Piece::Head(frame)) => {
                    last = frame.kind;
                    section = (last == kind::HEADERS).then(|| Decoder::new(1 << 20));
                }
                Some(Piece::Payload(bytes)) if last == kind::DATA => {
                    answer.body.extend_from_slice(&bytes);
                }
                Some(Piece::Payload(bytes)) => {
                    let mut decoder = section.take().expect("HEADERS or DATA");
                    decoder.read(&bytes).expect("a valid section");
                    if frames.left() == 0 {
                        answer.sections.push(lines(decoder));
                    } else {
                        section = Some(decoder);
                    }
                }
            }
        }
        answer.end = self.wire.ended(id);
        answer
    }

    /// Waits until the server has closed the connection. Returns the code.
    async fn code(&self) -> Option<u64> {
        until(|| self.wire.closed().is_some()).await;
        self.wire.closed().map(|(code, _)| code)
    }
}

fn lines(section: Decoder) -> String {
    let section = section.end().expect("a whole section");
    let line = |(name, value): (&[u8], &[u8])| {
        format!("{}: {}", String::from_utf8_lossy(name), String::from_utf8_lossy(value))
    };
    section.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_head(kind, payload.len(), &mut bytes);
    [&bytes, payload].concat()
}

/// Encodes fields as they are, in literals.
fn section(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = vec![0, 0];
    let number = |mark: u8, max: usize, value: usize, bytes: &mut Vec<u8>| {
        if value < max {
            return bytes.push(mark | value as u8);
        }
        bytes.push(mark | max as u8);
        let mut rest = value - max;
        while rest >= 128 {
            bytes.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        bytes.push(rest as u8);
    };
    for (name, value) in fields {
        number(0x20, 7, name.len(), &mut bytes);
        bytes.extend_from_slice(name.as_bytes());
        number(0, 127, value.len(), &mut bytes);
        bytes.extend_from_slice(value.as_bytes());
    }
    bytes
}

fn head(method: &str, path: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let pseudo = [(":method", method), (":scheme", "https"), (":authority", "a"), (":path", path)];
    frame(kind::HEADERS, &section(&[&pseudo[..], more].concat()))
}

fn get(path: &str) -> Vec<u8> {
    head("GET", path, &[])
}

fn data(bytes: &[u8]) -> Vec<u8> {
    frame(kind::DATA, bytes)
}

/// Runs a test on a thread of its own.
fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, test);
}

/// Waits until something holds.
async fn until(holds: impl Fn() -> bool) {
    for turn in 0.. {
        if holds() {
            return;
        }
        assert!(turn < 200_000, "nothing happens");
        if turn % 100 == 99 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        yield_now().await;
    }
}
