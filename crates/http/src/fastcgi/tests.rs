//! A server on a socket, and web servers that send it raw bytes.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use howdah_wire::fastcgi::{
    Answer, Answers, End, Kind, Pairs, Protocol, Records, Role, put_begin, put_end_of_stream,
    put_params, put_stream,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::sleep;

use super::serve;
use crate::drain::Drain;
use crate::error_status::RequestError;
use crate::exchange::{Exchange, Handler, RequestRecord, SendOutcome};
use crate::limits::Limits;
use crate::message::{ConnectionInfo, Response};
use crate::respond::refuse;

/// Handler that answers by path, and records what has become of requests.
#[derive(Default)]
struct Site {
    limits: RefCell<Rc<Limits>>,
    ids: Cell<u64>,
    ended: RefCell<Vec<(u16, SendOutcome)>>,
    violations: Cell<u32>,
    gone: Cell<bool>,
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
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match exchange.request.path.as_ref() {
            b"/echo" => {
                let mut body = Vec::new();
                loop {
                    match exchange.read_body().await {
                        Ok(Some(bytes)) => body.extend_from_slice(&bytes),
                        Ok(None) => return Response::new(200, Bytes::from(body).into()),
                        Err(error) => return refuse(error),
                    }
                }
            }
            b"/facts" => {
                let request = &exchange.request;
                let mut facts = format!(
                    "{} {} {} {} {} {:?}\n",
                    text(&request.method),
                    text(&request.target),
                    text(&request.query),
                    text(&request.host),
                    request.connection.scheme(),
                    request.connection.peer,
                );
                for (name, value) in request.fields.iter() {
                    facts.push_str(&format!("{}={}\n", text(name), text(value)));
                }
                Response::new(200, Bytes::from(facts).into())
            }
            b"/messages" => {
                for message in [&b"one"[..], b"two"] {
                    exchange.request.handling.messages().expect("a place").push(message);
                }
                Response::new(404, "x".into()).with("X-A", "1")
            }
            b"/gone" => {
                exchange.client_gone().await;
                self.gone.set(true);
                refuse(RequestError::ClientGone)
            }
            b"/slow" => {
                exchange.unless_gone(sleep(Duration::from_millis(300))).await;
                Response::new(200, "slow".into())
            }
            b"/big" => Response::new(200, Bytes::from(vec![b'b'; 200_000]).into()),
            _ => Response::new(200, "ok".into()),
        }
    }

    fn log_request(&self, record: &RequestRecord<'_>) {
        self.ended.borrow_mut().push((record.status, record.outcome));
    }

    fn log_misbehaviour(&self, _: &ConnectionInfo, _: &dyn std::fmt::Display) {
        self.violations.set(self.violations.get() + 1);
    }
}

/// A connection to the server.
struct Client {
    stream: UnixStream,
    site: Rc<Site>,
    drain: Drain,
}

/// Output, messages, and the end.
type Whole = (String, String, Option<End>);

const COMPLETE: Option<End> = Some(End { status: 0, protocol: Protocol::RequestComplete });

impl Client {
    fn connect() -> Client {
        Client::with(Limits::default())
    }

    fn with(limits: Limits) -> Client {
        let site = Rc::new(Site { limits: RefCell::new(Rc::new(limits)), ..Site::default() });
        let (stream, server) = UnixStream::pair().unwrap();
        let drain = Drain::new();
        let registration = drain.register();
        let handler = Rc::clone(&site);
        spawn_local(async move {
            serve(server, Arc::default(), &*handler, registration).await;
        });
        Client { stream, site, drain }
    }

    async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// Reads the response to the request with this id.
    async fn answer(&mut self, id: u16) -> Whole {
        let (mut answers, mut out, mut err) = (Answers::new(id), Vec::new(), Vec::new());
        let mut end = None;
        let mut buffer = [0; 4096];
        while end.is_none() {
            let len = match self.stream.read(&mut buffer).await {
                Ok(len) if len > 0 => len,
                _ => break,
            };
            let mut input = &buffer[..len];
            while let Some(answer) = answers.next(&mut input).unwrap() {
                match answer {
                    Answer::Stdout(bytes) => out.extend_from_slice(bytes),
                    Answer::Stderr(bytes) => err.extend_from_slice(bytes),
                    Answer::End(over) => end = Some(over),
                }
            }
        }
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (text(out), text(err), end)
    }

    async fn is_closed(&mut self) -> bool {
        let mut buffer = [0; 1];
        !matches!(self.stream.read(&mut buffer).await, Ok(1))
    }
}

fn head(id: u16, keep: bool, path: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_begin(Role::Responder, keep, id, &mut bytes);
    let usual = [("REQUEST_METHOD", "GET"), ("REQUEST_URI", path)];
    let all = usual.iter().chain(more).map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    put_params(id, all, &mut bytes);
    bytes
}

fn request(id: u16, keep: bool, path: &str, more: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut bytes = head(id, keep, path, more);
    put_stream(Kind::Stdin, id, body, &mut bytes);
    put_end_of_stream(Kind::Stdin, id, &mut bytes);
    bytes
}

fn run(test: impl AsyncFnOnce()) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async { test().await });
}

fn ok(text: &str) -> Whole {
    (format!("\r\n{text}"), String::new(), COMPLETE)
}

#[test]
fn a_kept_connection_has_one_request_after_the_other() {
    run(async || {
        let mut client = Client::connect();
        for id in [1, 1, 9] {
            client.send(&request(id, true, "/", &[], b"")).await;
            assert_eq!(client.answer(id).await, ok("ok"));
        }
        client.send(&request(1, false, "/", &[], b"")).await;
        assert_eq!(client.answer(1).await, ok("ok"));
        assert!(client.is_closed().await);
        assert_eq!(*client.site.ended.borrow(), [(200, SendOutcome::Complete); 4]);
    });
}

#[test]
fn a_request_is_read_byte_by_byte() {
    run(async || {
        let mut client = Client::connect();
        for byte in request(1, true, "/echo", &[("CONTENT_LENGTH", "4")], b"body") {
            client.send(&[byte]).await;
        }
        assert_eq!(client.answer(1).await, ok("body"));
    });
}

#[test]
fn a_body_has_the_announced_length_at_most() {
    run(async || {
        for (length, expected) in [
            (Some("2"), "bo"),
            (Some("4"), "body"),
            (Some("9"), "body"),
            (Some("0"), ""),
            (Some("x"), ""),
            (Some(""), "body"),
            (None, "body"),
        ] {
            let mut client = Client::connect();
            let length: Vec<_> = length.iter().map(|length| ("CONTENT_LENGTH", *length)).collect();
            client.send(&request(1, true, "/echo", &length, b"body")).await;
            assert_eq!(client.answer(1).await, ok(expected), "{length:?}");
            client.send(&request(1, true, "/", &[], b"unread")).await;
            assert_eq!(client.answer(1).await, ok("ok"));
            client.send(&request(1, true, "/", &[], b"")).await;
            assert_eq!(client.answer(1).await, ok("ok"), "an unread body is skipped");
        }
    });
}

#[test]
fn the_facts_of_a_request_are_those_of_its_parameters() {
    run(async || {
        let mut client = Client::connect();
        let parameters = [
            ("REQUEST_METHOD", "PUT"),
            ("QUERY_STRING", "a=b"),
            ("HTTP_HOST", "Site.Test:8080"),
            ("HTTPS", "on"),
            ("REMOTE_ADDR", "192.0.2.7"),
            ("REMOTE_PORT", "4711"),
            ("HTTP_X_FORWARDED_FOR", "a"),
            ("CONTENT_TYPE", "text/plain"),
            ("OTHER", "x"),
        ];
        client.send(&request(1, true, "/facts?a=b", &parameters, b"")).await;
        let expected = "PUT /facts?a=b a=b site.test https Some(192.0.2.7:4711)\n\
                        host=Site.Test:8080\nx-forwarded-for=a\ncontent-type=text/plain\n";
        assert_eq!(client.answer(1).await, ok(expected));
    });
}

#[test]
fn messages_of_the_script_come_in_their_own_stream() {
    run(async || {
        let mut client = Client::connect();
        client.send(&request(1, true, "/messages", &[], b"")).await;
        let (out, err, end) = client.answer(1).await;
        assert_eq!(out, "Status: 404 Not Found\r\nX-A: 1\r\n\r\nx");
        assert_eq!((err.as_str(), end), ("one; two", COMPLETE));
    });
}

#[test]
fn a_long_response_is_sent_in_records() {
    run(async || {
        let mut client = Client::connect();
        client.send(&request(1, true, "/big", &[], b"")).await;
        let (out, _, end) = client.answer(1).await;
        assert_eq!((out.len(), end), (200_002, COMPLETE));
        client.send(&request(1, true, "/big", &[("REQUEST_METHOD", "HEAD")], b"")).await;
        assert_eq!(client.answer(1).await, ok(""));
    });
}

#[test]
fn an_abandoned_request_is_known_to_its_handler() {
    run(async || {
        let abort = [1, Kind::AbortRequest as u8, 0, 1, 0, 0, 0, 0];
        for is_closed in [false, true] {
            let mut client = Client::connect();
            client.send(&request(1, true, "/gone", &[("CONTENT_LENGTH", "0")], b"")).await;
            if is_closed {
                client.stream.shutdown().await.unwrap();
            } else {
                client.send(&abort).await;
            }
            client.answer(1).await;
            assert!(client.site.gone.get());
        }
    });
}

#[test]
fn questions_and_other_requests_are_answered_meanwhile() {
    run(async || {
        let mut client = Client::connect();
        client.send(&request(1, true, "/slow", &[("CONTENT_LENGTH", "0")], b"")).await;
        client.send(&head(2, true, "/", &[])).await;
        let question = b"\x01\x09\0\0\0\x11\0\0\x0f\0FCGI_MPXS_CONNS";
        client.send(question).await;
        client.send(&[1, 99, 0, 0, 0, 0, 0, 0]).await;
        let (mut records, mut kinds, mut values) = (Records::default(), Vec::new(), Vec::new());
        let mut buffer = [0; 4096];
        while !kinds.ends_with(&[(Kind::EndRequest as u8, 1)]) {
            let len = client.stream.read(&mut buffer).await.unwrap();
            assert!(len > 0);
            let mut input = &buffer[..len];
            while let Some((kind, id, part)) = records.next(&mut input).unwrap() {
                match part {
                    howdah_wire::fastcgi::Part::Content(bytes) => {
                        if kind == Kind::GetValuesResult as u8 {
                            values.extend_from_slice(bytes);
                        }
                    }
                    howdah_wire::fastcgi::Part::End(_) => kinds.push((kind, id)),
                }
            }
        }
        let (end, out) = (Kind::EndRequest as u8, Kind::Stdout as u8);
        let (result, unknown) = (Kind::GetValuesResult as u8, Kind::UnknownType as u8);
        assert_eq!(kinds, [(end, 2), (result, 0), (unknown, 0), (out, 1), (end, 1)]);
        let pairs: Vec<_> = Pairs::new(&values).map(Result::unwrap).collect();
        assert_eq!(pairs, [(&b"FCGI_MPXS_CONNS"[..], &b"0"[..])]);
    });
}

#[test]
fn a_violation_closes_the_connection() {
    run(async || {
        let twice =
            [head(1, true, "/slow", &[("CONTENT_LENGTH", "0")]), head(1, true, "/", &[])].concat();
        let lie = {
            let mut bytes = Vec::new();
            put_begin(Role::Responder, true, 1, &mut bytes);
            put_stream(Kind::Params, 1, b"\xff\xff\xff\xff\x01a", &mut bytes);
            put_end_of_stream(Kind::Params, 1, &mut bytes);
            bytes
        };
        for bytes in [&twice, &lie, &b"GET / HTTP/1.1\r\n\r\n".to_vec(), &vec![0; 8]] {
            let mut client = Client::connect();
            client.send(bytes).await;
            client.answer(1).await;
            assert!(client.is_closed().await);
            assert_eq!(client.site.violations.get(), 1);
        }
    });
}

#[test]
fn a_slow_web_server_loses_its_connection_but_an_idle_one_keeps_it() {
    run(async || {
        let time = Duration::from_millis(50);
        let limits = Limits { header_timeout: time, body_timeout: time, ..Limits::default() };
        let mut client = Client::with(limits.clone());
        assert!(client.is_closed().await, "no request has come");
        let mut client = Client::with(limits.clone());
        client.send(&head(1, true, "/", &[])[..20]).await;
        assert!(client.is_closed().await, "the parameters are missing");
        let mut client = Client::with(limits.clone());
        client.send(&head(1, true, "/echo", &[("CONTENT_LENGTH", "9")])).await;
        let (out, _, end) = client.answer(1).await;
        assert!(out.starts_with("Status: 408 Request Timeout\r\n"), "{out}");
        assert_eq!(end, COMPLETE);
        assert!(client.is_closed().await, "its body may still come");
        let mut client = Client::with(limits);
        client.send(&request(1, true, "/", &[], b"")).await;
        assert_eq!(client.answer(1).await, ok("ok"));
        sleep(3 * time).await;
        client.send(&request(1, true, "/", &[], b"")).await;
        assert_eq!(client.answer(1).await, ok("ok"));
    });
}

#[test]
fn at_the_end_of_the_server_idle_connections_close_and_requests_are_answered() {
    run(async || {
        let (mut idle, mut busy) = (Client::connect(), Client::connect());
        idle.send(&request(1, true, "/", &[], b"")).await;
        assert_eq!(idle.answer(1).await, ok("ok"));
        busy.send(&request(1, true, "/slow", &[], b"")).await;
        sleep(Duration::from_millis(50)).await;
        idle.drain.start();
        busy.drain.start();
        assert!(idle.is_closed().await);
        assert_eq!(busy.answer(1).await, ok("slow"));
        assert!(busy.is_closed().await);
    });
}

#[test]
fn at_the_end_of_the_server_a_new_connection_may_send_its_first_request() {
    run(async || {
        let mut client = Client::connect();
        // It is accepted.
        sleep(Duration::from_millis(10)).await;
        client.drain.start();
        sleep(Duration::from_millis(50)).await;
        client.send(&request(1, true, "/", &[], b"")).await;
        assert_eq!(client.answer(1).await, ok("ok"));
        assert!(client.is_closed().await);
        let mut silent = Client::connect();
        silent.drain.start();
        assert!(silent.is_closed().await, "it sends nothing");
    });
}
