//! Whole connections of HTTP/3, beside a model of what a client may do.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use howdah_http::body::Body;
use howdah_http::drain::Drain;
use howdah_http::error_status::RequestError;
use howdah_http::exchange::{Exchange, Handler, RequestRecord};
use howdah_http::h3::error::{Code, StreamError};
use howdah_http::h3::fixture::{End, Wire};
use howdah_http::h3::serve;
use howdah_http::limits::Limits;
use howdah_http::message::{ConnectionInfo, Response};
use tokio::task::{LocalSet, spawn_local, yield_now};

use crate::bytes::Bytes;
use crate::http3::{MAX_SECTION, plain_control, plain_message, varint};

/// A client opens streams, sends any bytes on them, ends, resets and stops them. The connection is
/// closed with a code that the bytes demand, or not at all; each request that was sent to its end
/// gets an end; nothing runs on when the client has left.
pub fn connection(input: &[u8]) {
    thread_local! {
        static RUNTIME: tokio::runtime::Runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    }
    RUNTIME.with(|runtime| LocalSet::new().block_on(runtime, drive(Bytes(input))));
}

/// What the client has done with a stream.
#[derive(Default)]
struct Sent {
    bytes: Vec<u8>,
    is_finished: bool,
    is_reset: bool,
    is_stopped: bool,
}

async fn drive(mut input: Bytes<'_>) {
    let (wire, recorder) = (Wire::default(), Recorder::default());
    let handler = recorder.clone();
    let (info, drain) = (Arc::new(ConnectionInfo::default()), Drain::new().register());
    let serving = serve(wire.clone(), info, move || handler.clone(), drain);
    let is_served = Rc::new(Cell::new(false));
    let served = Rc::clone(&is_served);
    spawn_local(async move {
        serving.await;
        served.set(true);
    });
    let mut streams = BTreeMap::<u64, Sent>::new();
    while let Some(step) = input.byte() {
        let id = streams.keys().nth(usize::from(step >> 4)).copied();
        match (step % 16, id) {
            (0, _) if streams.len() < 16 => drop(streams.insert(wire.open(), Sent::default())),
            (1, _) if streams.len() < 16 => drop(streams.insert(wire.open_uni(), Sent::default())),
            (2..=9, Some(id)) => {
                let length = input.byte().unwrap_or_default();
                let bytes = input.take(usize::from(length));
                let sent = streams.entry(id).or_default();
                if !sent.is_finished && !sent.is_reset {
                    sent.bytes.extend_from_slice(bytes);
                    wire.send(id, bytes);
                }
            }
            (10, Some(id)) => {
                streams.entry(id).or_default().is_finished = true;
                wire.finish(id);
            }
            (11, Some(id)) => {
                streams.entry(id).or_default().is_reset = true;
                wire.reset(id);
            }
            (12, Some(id)) if id % 4 == 0 => {
                streams.entry(id).or_default().is_stopped = true;
                wire.stop(id);
            }
            _ => turns(3).await,
        }
    }
    turns(60).await;
    judge(&wire, &streams);
    wire.leave();
    turns(60).await;
    assert!(is_served.get(), "the connection has ended");
    assert_eq!(recorder.0.running.get(), 0, "every handler has ended");
}

fn judge(wire: &Wire, streams: &BTreeMap<u64, Sent>) {
    let mut demanded = Vec::new();
    let mut is_certain = false;
    let mut seen = Vec::new();
    for (id, sent) in streams {
        if id % 4 == 0 {
            if let Err(StreamError::Connection(error)) = plain_message(&sent.bytes)
                && (error.code != Code::FrameError || sent.is_finished)
            {
                demanded.push(error.code);
            }
            // What comes behind an error in the middle does not count, but may be read first.
            continue;
        }
        let found = judge_uni(sent, &mut seen);
        is_certain |= !found.is_empty() && !sent.is_reset;
        demanded.extend(found);
    }
    let code = wire.closed().map(|(code, _)| code);
    let known = |code: u64| demanded.iter().any(|other| other.number() == code);
    match code {
        Some(code) => assert!(
            known(code) || code == Code::ExcessiveLoad.number(),
            "{code:#x} is none of {demanded:?}"
        ),
        None => assert!(!is_certain, "the connection goes on in spite of {demanded:?}"),
    }
    for (id, sent) in streams.iter().filter(|(id, _)| *id % 4 == 0) {
        let is_complete = sent.is_finished && !sent.is_reset && !sent.is_stopped;
        if is_complete && code.is_none() {
            let end = wire.ended(*id);
            assert!(end.is_some(), "stream {id} has no end");
            if plain_message(&sent.bytes) == Err(StreamError::Incomplete) {
                assert_eq!(end, Some(End::Reset(Code::RequestIncomplete.number())));
            }
        }
    }
}

/// The codes that a unidirectional stream demands.
fn judge_uni(sent: &Sent, seen: &mut Vec<u64>) -> Vec<Code> {
    let Some((kind, content)) = varint(&sent.bytes) else { return Vec::new() };
    if kind > 3 {
        return Vec::new();
    }
    let is_second = seen.contains(&kind);
    seen.push(kind);
    if kind == 1 || is_second {
        return vec![Code::StreamCreationError];
    }
    // Integers of several bytes may be valid.
    let is_long = |byte: &u8| (kind == 2 && *byte == 0x3f) || (kind == 3 && *byte == 0x7f);
    if kind > 1 && content.iter().any(is_long) {
        return Vec::new();
    }
    let mut codes = Vec::new();
    match kind {
        0 => codes.extend(plain_control(content).1),
        2 if content.iter().any(|byte| *byte != 0x20) => codes.push(Code::QpackEncoderStreamError),
        3 if content.iter().any(|byte| byte & 0xc0 != 0x40) => {
            codes.push(Code::QpackDecoderStreamError);
        }
        _ => {}
    }
    if sent.is_finished || sent.is_reset {
        codes.push(Code::ClosedCriticalStream);
    }
    codes
}

async fn turns(count: usize) {
    for _ in 0..count {
        yield_now().await;
    }
}

/// A handler that reads the body and waits for nothing else.
#[derive(Clone, Default)]
struct Recorder(Rc<Running>);

#[derive(Default)]
struct Running {
    running: Cell<usize>,
    targets: RefCell<Vec<Vec<u8>>>,
}

impl Handler for Recorder {
    fn limits(&self) -> Rc<Limits> {
        Rc::new(Limits { max_head: MAX_SECTION, ..Limits::default() })
    }

    fn next_id(&self) -> u64 {
        0
    }

    async fn handle(&self, exchange: &mut Exchange<'_>) -> Response {
        self.0.running.set(self.0.running.get() + 1);
        let target = exchange.request.target.to_vec();
        assert!(target.starts_with(b"/") || target == b"*", "{target:?}");
        self.0.targets.borrow_mut().push(target);
        let result = loop {
            match exchange.read_body().await {
                Ok(Some(bytes)) => assert!(!bytes.is_empty()),
                Ok(None) => break Response::new(200, Body::Empty),
                Err(error) => break self.error(error.into()),
            }
        };
        self.0.running.set(self.0.running.get() - 1);
        result
    }

    fn error(&self, error: RequestError) -> Response {
        Response::new(error.status(), Body::Empty)
    }

    fn log_request(&self, _: &RequestRecord<'_>) {}
}
