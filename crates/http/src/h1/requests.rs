//! One request after the other, for as long as they have come in full.

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use tokio::task::coop::consume_budget;
use tokio::time::Instant;

use super::connection::Io;
use super::head::{Head, Scan, Scanned};
use super::link::{Leftover, Link};
use super::respond::{Framing, added, put_head};
use super::send::{Cut, Sender};
use super::tunnel::Opened;
use super::write::ENOUGH;
use super::{Connection, Next, Refusal};
use crate::drain::Phase;
use crate::exchange::{Carrier, Exchange, Finished, Handler, Outcome};
use crate::limits::Limits;
use crate::message::{Added, FieldBlock, Response, Version};
use crate::timer::{Pace, Wait};

/// What became of a response.
pub(super) struct Sent {
    pub status: u16,
    pub fields: FieldBlock,
    pub bytes: u64,
    pub body: u64,
    pub outcome: Outcome,
}

impl<I: Io, H: Handler> Connection<I, H> {
    /// Answers all requests whose heads have come.
    pub(super) async fn answer(&self) -> Next {
        loop {
            let limits = self.handler.limits();
            let head = {
                let core = &mut *self.core.borrow_mut();
                match core.scan(&limits) {
                    Scanned::Complete(range) => {
                        core.work.scan = Scan::default();
                        core.input.skip(range.start);
                        Ok(core.input.take(range.len()))
                    }
                    Scanned::Refused(refusal) => Err(refusal),
                    Scanned::Partial => return Next::Wait,
                }
            };
            let next = match head {
                Ok(bytes) => self.exchange(bytes, &limits).await,
                Err(refusal) => self.refuse(refusal).await,
            };
            if next != Next::Wait {
                return next;
            }
            // A client that sends many small requests at once must not keep others waiting.
            consume_budget().await;
        }
    }

    /// Answers one request.
    async fn exchange(&self, bytes: Bytes, limits: &Rc<Limits>) -> Next {
        let begun = self.begun.take().unwrap_or_else(Instant::now);
        let head_len = bytes.len() as u64;
        let head = match Head::parse(bytes.clone(), limits) {
            Ok(head) => head,
            Err(refusal) => return self.refuse_head(refusal, &bytes).await,
        };
        drop(bytes);
        self.drain.begin();
        let served = {
            let served = &mut self.core.borrow_mut().served;
            *served = served.saturating_add(1);
            u64::from(*served)
        };
        let link = Link::new(&self.core, &self.drain, limits, &head);
        let (wants_more, head_only) = (head.keep_alive, head.method.as_ref() == b"HEAD");
        let request = head.into_request(Arc::clone(&self.info), self.handler.next_id());
        let mut exchange = Exchange::new(request, begun.into_std(), &link);
        let mut response = self.handle(&mut exchange, &link).await;

        if let Some(tunnel) = response.take_tunnel() {
            let received = head_len + link.received();
            let opened = Opened::new(tunnel, exchange.request, begun, received, limits);
            return self.open(opened, response).await;
        }
        // Of what the server still gets nothing is dropped, and when it ends nobody knows.
        let feed = response.take_feed();
        let mut leftover = match feed {
            None => link.leftover(),
            Some(_) => Leftover::TooMuch,
        };
        let last = limits.max_requests.is_some_and(|most| served >= most);
        let keep_alive = wants_more
            && !last
            && !response.close
            && !self.drain.started()
            && leftover != Leftover::TooMuch;
        let framing = Framing::of(&response, head_only, exchange.request.version);
        let keep_alive = keep_alive && framing.keeps_alive();
        // The response may wait for the next one if that request has come in full.
        let gather = keep_alive
            && leftover == Leftover::Nothing
            && matches!(self.core.borrow_mut().scan(limits), Scanned::Complete(_));
        let added = added(&response, framing, keep_alive, exchange.request.version, limits);
        let sending = self.respond(response, framing, &added, gather, limits);
        let sent = match feed {
            None => sending.await,
            Some(feed) => {
                let sent = Box::pin(feed.fill_beside(&link, sending)).await;
                leftover = link.leftover();
                sent
            }
        };
        self.handler.finished(&Finished {
            connection: &self.info,
            request: Some(&exchange.request),
            refused_line: &[],
            refusal: None,
            status: sent.status,
            fields: &sent.fields,
            added,
            received: head_len + link.received(),
            sent: sent.bytes,
            body_sent: sent.body,
            elapsed: begun.elapsed(),
            outcome: sent.outcome,
        });
        if sent.outcome != Outcome::Complete {
            return Next::Close;
        }
        if !keep_alive {
            return self.end(leftover == Leftover::TooMuch);
        }
        if leftover == Leftover::Little {
            self.drain.wait(Phase::Idle); // the request has its response
            if !drop_body(&link).await {
                return Next::Close;
            }
        }
        Next::Wait
    }

    /// Lets the handler answer; what waits to be sent is sent as soon as the handler waits.
    async fn handle(&self, exchange: &mut Exchange<'_>, link: &dyn Carrier) -> Response {
        let mut handling = pin!(self.handler.handle(exchange));
        poll_fn(|cx| {
            if let Poll::Ready(response) = handling.as_mut().poll(cx) {
                return Poll::Ready(response);
            }
            let waits = !self.core.borrow().work.out.is_empty();
            if waits {
                // A client that does not take it is noticed when the response is sent.
                let _ = link.poll_flush(cx);
            }
            Poll::Pending
        })
        .await
    }

    /// Answers a head that never came in full.
    pub(super) async fn refuse(&self, refusal: Refusal) -> Next {
        let bytes = {
            let core = &mut *self.core.borrow_mut();
            let start = core.work.scan.start();
            core.input.skip(start);
            core.input.take(usize::MAX)
        };
        self.refuse_head(refusal, &bytes).await
    }

    /// Answers a head that cannot be read, and ends the connection.
    async fn refuse_head(&self, refusal: Refusal, bytes: &[u8]) -> Next {
        self.refuse_with(refusal, self.handler.error(refusal.status()), bytes).await
    }

    /// Answers with `response`, and ends the connection.
    pub(super) async fn refuse_with(
        &self,
        refusal: Refusal,
        mut response: Response,
        bytes: &[u8],
    ) -> Next {
        let limits = self.handler.limits();
        // The kind of request is unknown or does not matter: there is a body.
        let framing = Framing::of(&response, false, Version::Http10);
        response.close = true;
        let added = added(&response, framing, false, Version::Http11, &limits);
        let sent = self.respond(response, framing, &added, false, &limits).await;
        let line = memchr::memchr2(b'\r', b'\n', bytes).unwrap_or(bytes.len());
        self.handler.finished(&Finished {
            connection: &self.info,
            request: None,
            refused_line: bytes.get(..line.min(limits.max_line)).unwrap_or_default(),
            refusal: Some(refusal.reason()),
            status: sent.status,
            fields: &sent.fields,
            added,
            received: bytes.len() as u64,
            sent: sent.bytes,
            body_sent: sent.body,
            elapsed: self.begun.take().map_or(Duration::ZERO, |begun| begun.elapsed()),
            outcome: sent.outcome,
        });
        if sent.outcome == Outcome::Complete { Next::Linger } else { Next::Close }
    }

    /// Reports a head that the client left off. There is nobody to send an answer to.
    pub(super) fn incomplete(&self) -> Next {
        let core = &mut *self.core.borrow_mut();
        core.input.skip(core.work.scan.start());
        let bytes = core.input.take(usize::MAX);
        let line = memchr::memchr2(b'\r', b'\n', &bytes).unwrap_or(bytes.len());
        let limits = self.handler.limits();
        self.handler.finished(&Finished {
            connection: &self.info,
            request: None,
            refused_line: bytes.get(..line.min(limits.max_line)).unwrap_or_default(),
            refusal: Some(Refusal::Incomplete.reason()),
            status: Refusal::Incomplete.status(),
            fields: &FieldBlock::default(),
            added: Added::default(),
            received: bytes.len() as u64,
            sent: 0,
            body_sent: 0,
            elapsed: self.begun.take().map_or(Duration::ZERO, |begun| begun.elapsed()),
            outcome: Outcome::ClientGone,
        });
        Next::Close
    }

    /// Sends a response, or, if it is small and to `gather` with the next, puts it in the line.
    pub(super) async fn respond(
        &self,
        response: Response,
        framing: Framing,
        added: &Added<'_>,
        gather: bool,
        limits: &Rc<Limits>,
    ) -> Sent {
        let before = {
            let core = &mut *self.core.borrow_mut();
            core.work.send_pace = Pace::default();
            core.work.send_wait = Wait::default();
            let before = core.work.out.queued();
            put_head(&mut core.work.out, &response, added);
            before
        };
        let trailer = response.trailer().cloned();
        let Response { status, fields, body, .. } = response;
        let mut sender = self.sender(limits);
        sender.trailer = trailer;
        let mut result = Ok(());
        if framing.sends_body() {
            result = sender.send(body, framing).await;
        }
        if result.is_ok() && (!gather || self.core.borrow().work.out.waiting() > ENOUGH) {
            result = sender.flush().await;
        }
        if result == Err(Cut::Body) {
            // What came of the body is still the client's.
            let _ = sender.flush().await;
        }
        let core = &mut *self.core.borrow_mut();
        if result.is_err() {
            core.work.out.clear();
        }
        let outcome = match result {
            Ok(()) => Outcome::Complete,
            Err(Cut::Client) => Outcome::ClientGone,
            Err(Cut::Body) => Outcome::BodyFailed,
        };
        // What was put in the line earlier may be among what could not be sent.
        let bytes = core.work.out.queued().saturating_sub(before);
        Sent { status, fields, bytes, body: sender.sent.min(bytes), outcome }
    }

    /// How to end the connection: with patience if the client may be sending.
    fn end(&self, sending: bool) -> Next {
        if sending || !self.core.borrow().input.is_empty() { Next::Linger } else { Next::Close }
    }

    fn sender<'s>(&'s self, limits: &'s Limits) -> Sender<'s, I> {
        Sender { core: &self.core, limits, sent: 0, trailer: None }
    }
}

/// Reads the rest of a body that nobody wanted. Whether that worked.
async fn drop_body<I: Io>(link: &Link<'_, I>) -> bool {
    loop {
        match poll_fn(|cx| link.poll_body(cx)).await {
            Ok(Some(_)) => {}
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}
