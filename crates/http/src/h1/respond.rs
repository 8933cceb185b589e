//! Sending a response: head and body.

use std::rc::Rc;

use super::connection::Connection;
use super::output::FLUSH_SIZE;
use super::record::SentResponse;
use super::response_head::{Framing, put_head};
use super::sender::Sender;
use super::transport::Io;
use crate::body::SendError;
use crate::exchange::SendOutcome;
use crate::limits::Limits;
use crate::message::{ConnectionFields, Request, Response};
use crate::timer::{ProgressDeadline, Throughput};

impl<I: Io, H> Connection<I, H> {
    /// Sends a response to a request, if that could be read. With `gather` a short one stays in the
    /// output, to be sent with the next.
    pub(super) async fn respond(
        &self,
        request: Option<&Request>,
        response: Response,
        framing: Framing,
        added: &ConnectionFields<'_>,
        gather: bool,
        limits: &Rc<Limits>,
    ) -> SentResponse {
        if response.is_unsent() {
            // Earlier responses may still be in the output.
            let transport = &self.transport;
            let mut sender = Sender {
                transport,
                limits,
                sent: 0,
                trailer: None,
                in_kernel: None,
                request: None,
                charge: None,
                counted: 0,
            };
            let _ = sender.flush().await;
            let Response { status, fields, .. } = response;
            let outcome = SendOutcome::ClientGone;
            return SentResponse { status, fields, bytes: 0, body: 0, outcome };
        }
        let queued_before = {
            let work = &mut *self.transport.borrow_mut().work;
            work.send_rate = Throughput::default();
            work.send_deadline = ProgressDeadline::default();
            let queued = work.out.queued();
            put_head(&mut work.out, &response, added);
            queued
        };
        let trailer = response.trailer().cloned();
        let Response { status, fields, body, extras, .. } = response;
        let is_counted = extras.as_ref().is_some_and(|extras| extras.is_counted);
        let request = request.filter(|_| !is_counted);
        let in_kernel = extras.and_then(|extras| extras.in_kernel);
        let transport = &self.transport;
        let mut sender = Sender {
            transport,
            limits,
            sent: 0,
            trailer,
            in_kernel,
            request,
            charge: None,
            counted: 0,
        };
        let mut result = Ok(());
        if framing.sends_body() {
            result = sender.send_body(body, framing).await;
        }
        let is_kept = gather && self.transport.borrow().work.out.waiting() <= FLUSH_SIZE;
        if result.is_ok() && !is_kept {
            result = sender.flush().await;
        }
        if result == Err(SendError::BodyFailed) {
            // The client gets the part that the body had before it failed.
            let _ = sender.flush().await;
        }
        let transport = &mut *self.transport.borrow_mut();
        if result.is_err() {
            transport.work.out.clear();
        }
        // Output of earlier responses may be among the bytes that could not be sent.
        let bytes = transport.work.out.queued().saturating_sub(queued_before);
        let body = sender.sent.min(bytes);
        SentResponse { status, fields, bytes, body, outcome: result.into() }
    }
}
