//! Answering the requests whose heads have arrived, one after the other.

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use tokio::task::coop::consume_budget;
use tokio::time::Instant;

use super::carrier::{RequestCarrier, UnreadBody};
use super::connection::{Connection, Next};
use super::head::{Head, Scan, Scanned};
use super::response_head::{Framing, connection_fields};
use super::transport::Io;
use super::upgrade::Upgrade;
use crate::body::{BodyError, BodySource};
use crate::drain::Phase;
use crate::exchange::{Carrier, Exchange, Handler, RequestRecord, SendOutcome};
use crate::limits::Limits;
use crate::message::Response;

impl<I: Io, H: Handler> Connection<I, H> {
    /// Answers all requests whose heads have arrived.
    pub(super) async fn answer_requests(&self) -> Next {
        loop {
            let limits = self.handler.limits();
            let head = {
                let transport = &mut *self.transport.borrow_mut();
                match transport.scan(&limits) {
                    Scanned::Complete(range) => {
                        transport.work.scan = Scan::default();
                        transport.work.head = None;
                        transport.input.skip(range.start);
                        Ok(transport.input.take(range.len()))
                    }
                    Scanned::Refused(refusal) => Err(refusal),
                    Scanned::Partial => return Next::Wait,
                }
            };
            let next = match head {
                Ok(bytes) => self.answer_head(bytes, &limits).await,
                Err(refusal) => self.refuse(refusal).await,
            };
            if next != Next::Wait {
                return next;
            }
            // Many short requests of one client must not keep other connections waiting.
            consume_budget().await;
        }
    }

    /// Lets the handler answer the request with this head, and sends the response.
    async fn answer_head(&self, bytes: Bytes, limits: &Rc<Limits>) -> Next {
        let started_at = self.started_at.take().unwrap_or_else(Instant::now);
        let head_len = bytes.len() as u64;
        let head = match Head::parse(bytes.clone(), limits) {
            Ok(head) => head,
            Err(refusal) => return self.refuse_head(refusal, &bytes).await,
        };
        drop(bytes);
        self.drain.set_busy();
        let carrier = RequestCarrier::new(&self.transport, &self.drain, limits, &head);
        let (keep_alive, is_head) = (head.keep_alive, head.method.as_ref() == b"HEAD");
        let keep_alive = !self.count_request(limits) && keep_alive;
        let request = head.into_request(Arc::clone(&self.info), self.handler.next_id());
        let mut exchange = Exchange::new(request, started_at.into_std(), &carrier);
        let mut response = self.call_handler(&mut exchange, &carrier).await;
        let request = exchange.request;

        if let Some(tunnel) = response.take_tunnel() {
            let received = head_len + carrier.received();
            let upgrade = Upgrade::new(tunnel, request, started_at, received, &response, limits);
            return self.upgrade(upgrade, response).await;
        }
        // An upstream server that still reads the body gets all of it, and may stop at any time.
        let feed = response.take_feed();
        let mut unread = match feed {
            None => carrier.discard_received(),
            Some(_) => UnreadBody::Long,
        };
        let framing = Framing::of(&response, is_head, request.version);
        let keep_alive = keep_alive && self.may_keep(&response, framing, unread);
        let gather = keep_alive && unread == UnreadBody::None && self.has_next_head(limits);
        let added = connection_fields(&response, framing, keep_alive, request.version, limits);
        let sending = self.respond(Some(&request), response, framing, &added, gather, limits);
        let sent = match feed {
            None => sending.await,
            Some(feed) => {
                let sent = Box::pin(feed.fill_beside(&carrier, sending)).await;
                unread = carrier.discard_received();
                sent
            }
        };
        let received = head_len + carrier.received();
        self.handler.log_request(&RequestRecord {
            request: Some(&request),
            ..sent.record(&self.info, added, received, started_at.elapsed())
        });
        if sent.outcome != SendOutcome::Complete {
            return Next::Close;
        }
        if keep_alive { self.keep(unread, &carrier).await } else { self.end(unread) }
    }

    /// Counts a request. Returns true if it is the last one that the connection may have.
    fn count_request(&self, limits: &Limits) -> bool {
        let served = &mut self.transport.borrow_mut().served;
        *served = served.saturating_add(1);
        limits.max_requests.is_some_and(|max| u64::from(*served) >= max)
    }

    /// Returns true if the connection can be kept after a response.
    fn may_keep(&self, response: &Response, framing: Framing, unread: UnreadBody) -> bool {
        !response.close
            && !self.drain.is_draining()
            && unread != UnreadBody::Long
            && framing.keeps_alive()
    }

    /// Returns true if the head of the next request has arrived, so that the response may wait for
    /// the next one.
    fn has_next_head(&self, limits: &Limits) -> bool {
        matches!(self.transport.borrow_mut().scan(limits), Scanned::Complete(_))
    }

    /// Lets the handler answer. Output of earlier responses is sent when the handler waits.
    async fn call_handler(&self, exchange: &mut Exchange<'_>, carrier: &dyn Carrier) -> Response {
        let mut handling = pin!(self.handler.handle(exchange));
        poll_fn(|cx| {
            if let Poll::Ready(response) = handling.as_mut().poll(cx) {
                return Poll::Ready(response);
            }
            let has_output = !self.transport.borrow().work.out.is_empty();
            if has_output {
                // An error shows again when the response is sent.
                let _ = carrier.poll_flush(cx);
            }
            Poll::Pending
        })
        .await
    }

    /// Keeps the connection for the next request.
    async fn keep(&self, unread: UnreadBody, carrier: &RequestCarrier<'_, I>) -> Next {
        if unread == UnreadBody::Short {
            self.drain.set_phase(Phase::Idle); // the request has its response
            if discard_body(carrier).await.is_err() {
                return Next::Close;
            }
        }
        Next::Wait
    }

    /// Ends the connection, with time to read the response if the client may be sending.
    fn end(&self, unread: UnreadBody) -> Next {
        if unread == UnreadBody::Long || !self.transport.borrow().input.is_empty() {
            Next::Linger
        } else {
            Next::Close
        }
    }
}

/// Reads the rest of a body and discards it.
async fn discard_body<I: Io>(carrier: &RequestCarrier<'_, I>) -> Result<(), BodyError> {
    while poll_fn(|cx| carrier.poll_body(cx)).await?.is_some() {}
    Ok(())
}
