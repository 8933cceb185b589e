//! Answering a request: the output of a CGI program in records, and the end of the request.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use howdah_wire::fastcgi::{
    End, Kind, MAX_CONTENT_BYTES, Protocol, RequestHead, header, put_stream,
};
use tokio::task::yield_now;
use tokio::time::Instant;

use super::carrier::RequestCarrier;
use super::connection::{Channel, Connection};
use super::request::Parameters;
use crate::body::{Body, BodyStream, Piece, SendError};
use crate::exchange::{Exchange, Handler, RequestRecord, SendOutcome};
use crate::h1::Io;
use crate::h1::output::{FLUSH_SIZE, MAX_COPY};
use crate::limits::Limits;
use crate::memory::{Charge, FREE_BYTES, RESPONSES};
use crate::message::{ConnectionFields, Request, Response};
use crate::reason;
use crate::timer::{ProgressDeadline, Throughput};
use crate::turn::TURN_BYTES;

/// Maximum length of the field `Status`: PHP-FPM cuts it there (`sapi_cgi_send_headers`).
const MAX_STATUS_BYTES: usize = 1023;

impl<I: Io, H: Handler> Connection<I, H> {
    /// Lets the handler answer a request, and sends the response. Returns false if the connection
    /// is to be closed.
    pub(super) async fn answer(&self, head: RequestHead) -> bool {
        let started_at = self.started_at.take().unwrap_or_else(Instant::now);
        let limits = self.handler.limits();
        let (request_id, keep, head_len) = (head.id, head.keep, head.params.len() as u64);
        let parameters = Parameters::read(head);
        let length = parameters.body_len();
        self.drain.set_busy();
        {
            let channel = &mut *self.channel.borrow_mut();
            channel.begin();
            channel.transport.served = channel.transport.served.saturating_add(1);
        }
        let carrier = RequestCarrier::new(&self.channel, &self.drain, &limits, length);
        let request = parameters.into_request(&self.info, self.handler.next_id());
        let mut exchange = Exchange::new(request, started_at.into_std(), &carrier);
        let mut response = self.call_handler(&mut exchange).await;
        let request = exchange.request;
        let body = std::mem::take(&mut response.body);
        let is_head = *request.method == *b"HEAD";
        // Nothing reads the rest of the request's body any more.
        self.channel.borrow_mut().skips_body = true;
        let mut sender = Sender {
            channel: &self.channel,
            limits: &limits,
            request: &request,
            request_id,
            charge: None,
            counted: 0,
            body: 0,
        };
        let (result, bytes) = sender.respond(&response, body, is_head).await;
        let outcome = SendOutcome::from(result);
        let body_sent = sender.body.min(bytes);
        drop(sender);
        self.handler.log_request(&RequestRecord {
            connection: &self.info,
            request: Some(&request),
            refused_line: &[],
            refusal: None,
            status: response.status,
            fields: &response.fields,
            connection_fields: ConnectionFields::default(),
            received: head_len + carrier.received(),
            sent: bytes,
            body_sent,
            elapsed: started_at.elapsed(),
            outcome,
        });
        let channel = &mut *self.channel.borrow_mut();
        channel.requests.end();
        keep && outcome == SendOutcome::Complete
            && !response.close
            && !response.is_unsent()
            && !channel.is_closing
            && !self.drain.is_draining()
    }

    /// Lets the handler answer.
    async fn call_handler(&self, exchange: &mut Exchange<'_>) -> Response {
        let mut handling = pin!(self.handler.handle(exchange));
        poll_fn(|cx| handling.as_mut().poll(cx)).await
    }
}

/// Sender of one response.
struct Sender<'c, I> {
    channel: &'c RefCell<Channel<I>>,
    limits: &'c Rc<Limits>,
    request: &'c Request,
    request_id: u16,
    /// The memory of the output while the web server does not read.
    charge: Option<Charge>,
    /// Number of the last bytes of the output that count elsewhere: a piece of a stream.
    counted: usize,
    /// Bytes of the body passed to the output.
    body: u64,
}

impl<I: Io> Sender<'_, I> {
    /// Sends a response. Returns the result and the number of bytes that were sent.
    async fn respond(
        &mut self,
        response: &Response,
        body: Body,
        is_head: bool,
    ) -> (Result<(), SendError>, u64) {
        let queued_before = {
            let work = &mut *self.channel.borrow_mut().transport.work;
            work.send_rate = Throughput::default();
            work.send_deadline = ProgressDeadline::default();
            work.out.queued()
        };
        let result = if response.is_unsent() {
            self.flush().await.and(Err(SendError::ClientGone))
        } else {
            self.send(response, body, is_head).await
        };
        if result == Err(SendError::BodyFailed) {
            // The web server gets the part that the body had before it failed, and no end.
            let _ = self.flush().await;
        }
        let channel = &mut *self.channel.borrow_mut();
        if result.is_err() {
            channel.transport.work.out.clear();
        }
        (result, channel.transport.work.out.queued().saturating_sub(queued_before))
    }

    async fn send(
        &mut self,
        response: &Response,
        body: Body,
        is_head: bool,
    ) -> Result<(), SendError> {
        self.put_messages();
        let mut head = head(response);
        // As PHP-FPM sends it: clients exist that expect a short response in a single record.
        let body = match body {
            Body::Bytes(bytes) if !is_head && bytes.len() <= MAX_COPY => {
                head.extend_from_slice(&bytes);
                self.body += bytes.len() as u64;
                Body::Empty
            }
            body => body,
        };
        self.records(head.into()).await?;
        if !is_head {
            self.send_body(body).await?;
        } else if let Body::Stream(mut stream) = body {
            // The script may still run.
            while poll_fn(|cx| self.poll_stream(stream.as_mut(), cx)).await?.is_some() {}
        }
        self.put_messages();
        let mut end = Vec::new();
        End { status: 0, protocol: Protocol::RequestComplete }.put(self.request_id, &mut end);
        self.channel.borrow_mut().transport.work.out.put(&end);
        self.flush().await
    }

    async fn send_body(&mut self, body: Body) -> Result<(), SendError> {
        match body {
            Body::Empty => Ok(()),
            Body::Bytes(bytes) => self.piece(bytes).await,
            Body::Pieces(pieces) => {
                for piece in pieces {
                    match piece {
                        Piece::Bytes(bytes) => self.piece(bytes).await?,
                        // Files are served by the web server: no application has one as its body.
                        Piece::File { .. } => return Err(SendError::BodyFailed),
                    }
                }
                Ok(())
            }
            Body::Stream(mut stream) => {
                let mut turn = 0;
                loop {
                    let next = poll_fn(|cx| self.poll_stream(stream.as_mut(), cx)).await?;
                    let Some(bytes) = next else { break };
                    turn += bytes.len();
                    self.counted = if stream.is_counted() { bytes.len() } else { 0 };
                    self.piece(bytes).await?;
                    if turn >= TURN_BYTES {
                        turn = 0;
                        yield_now().await; // other connections have a turn
                    }
                }
                if self.counted > 0 {
                    self.flush().await?; // while the stream still counts it
                }
                Ok(())
            }
        }
    }

    async fn piece(&mut self, bytes: Bytes) -> Result<(), SendError> {
        self.body += bytes.len() as u64;
        self.records(bytes).await
    }

    /// Passes bytes to the output, in as many records as necessary.
    async fn records(&mut self, mut bytes: Bytes) -> Result<(), SendError> {
        while !bytes.is_empty() {
            let content = bytes.split_to(bytes.len().min(MAX_CONTENT_BYTES));
            let must_flush = {
                let out = &mut self.channel.borrow_mut().transport.work.out;
                let len = content.len() as u16; // not more than MAX_CONTENT_BYTES
                out.put(&header(Kind::Stdout, self.request_id, len));
                let max = if self.counted > 0 { FREE_BYTES } else { FLUSH_SIZE };
                if content.len() <= MAX_COPY {
                    out.put(&content);
                    out.waiting() > max
                } else {
                    out.put_large(content, b"");
                    true
                }
            };
            if must_flush {
                self.flush().await?;
            }
        }
        Ok(())
    }

    /// Passes the messages of the script to the output, if there are any.
    fn put_messages(&self) {
        let messages = self.request.handling.take_messages();
        if !messages.is_empty() {
            let mut records = Vec::with_capacity(messages.len() + 16);
            put_stream(Kind::Stderr, self.request_id, &messages, &mut records);
            self.channel.borrow_mut().transport.work.out.put(&records);
        }
    }

    async fn flush(&mut self) -> Result<(), SendError> {
        poll_fn(|cx| self.poll_flush(cx)).await
    }

    /// Sends all output. What the web server does not read counts as memory of the request's owner.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        let channel = &mut *self.channel.borrow_mut();
        let poll = channel.poll_flush(cx, self.limits);
        if poll.is_pending() {
            let new = || Charge::new(&RESPONSES, self.request.owner());
            let charge = self.charge.get_or_insert_with(new);
            channel.transport.work.out.hold(charge, self.counted, &self.limits.temporary)?;
        } else {
            self.charge = None;
        }
        poll.map_err(SendError::from)
    }

    /// Returns the next bytes of a stream. While there are none, sends the output and watches the
    /// web server, so that a script learns before its next output that the request is abandoned.
    fn poll_stream(
        &mut self,
        stream: &mut dyn BodyStream,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, SendError>> {
        match stream.poll_next(cx) {
            Poll::Ready(Some(Ok(bytes))) => return Poll::Ready(Ok(Some(bytes))),
            Poll::Ready(Some(Err(_))) => return Poll::Ready(Err(SendError::BodyFailed)),
            Poll::Ready(None) => return Poll::Ready(Ok(None)),
            Poll::Pending => {}
        }
        let has_output = !self.channel.borrow().transport.work.out.is_empty();
        if has_output && let Poll::Ready(Err(error)) = self.poll_flush(cx) {
            return Poll::Ready(Err(error));
        }
        match self.channel.borrow_mut().poll_gone(cx) {
            Poll::Ready(_) => Poll::Ready(Err(SendError::ClientGone)),
            Poll::Pending => Poll::Pending,
        }
    }
}

/// Returns the head of a response as CGI programs write it (RFC 3875, 6): `Status` unless it is
/// 200, and the fields. A 304 has no `Content-Type`, as in PHP-FPM.
fn head(response: &Response) -> Vec<u8> {
    let fields = response.fields.as_bytes();
    let mut head = Vec::with_capacity(fields.len() + 64);
    let own = response.reason.as_ref();
    let own = own.filter(|reason| !reason.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)));
    if response.status != 200 || own.is_some() {
        head.extend_from_slice(format!("Status: {}", response.status).as_bytes());
        let phrase = own.map_or(reason::phrase(response.status).as_bytes(), Bytes::as_ref);
        if !phrase.is_empty() {
            head.push(b' ');
            head.extend_from_slice(phrase);
            head.truncate(MAX_STATUS_BYTES);
        }
        head.extend_from_slice(b"\r\n");
    }
    if response.status == 304 {
        for (name, value) in response.fields.iter() {
            if !name.eq_ignore_ascii_case(b"content-type") {
                head.extend_from_slice(&[name, b": ", value, b"\r\n"].concat());
            }
        }
    } else {
        head.extend_from_slice(fields);
    }
    head.extend_from_slice(b"\r\n");
    head
}
