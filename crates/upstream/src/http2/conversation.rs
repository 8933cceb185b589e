//! One request and its response on a stream of a connection, with their timeouts.

use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use h2::client::ResponseFuture;
use h2::{Reason, RecvStream};
use howdah_config::Timeouts;
use howdah_http::timer::Timer;
use http::HeaderMap;
use tokio::time::Instant;

use super::head::{self, Head};
use super::upload::Upload;
use crate::connections::http2_pool::Http2Slot;
use crate::failure::{Failure, Malformed};
use crate::transfer::upload::State;

/// Maximum number of interim responses to a request.
const MAX_INTERIM: u32 = 32;

/// A request that is sent, and its response.
pub struct Conversation {
    upload: Upload,
    response: Option<ResponseFuture>,
    body: Option<RecvStream>,
    timeouts: Timeouts,
    timer: Timer,
    deadline: Option<Instant>,
    interim: u32,
    /// The request counts as active on its connection until the end.
    _slot: Http2Slot,
}

/// A part of a response's body.
pub enum Part {
    /// Bytes.
    Data(Bytes),
    /// The end, with the trailer.
    End(Option<HeaderMap>),
}

impl Conversation {
    /// Creates the conversation of a request whose head was sent.
    pub fn new(
        upload: Upload,
        response: ResponseFuture,
        timeouts: &Timeouts,
        timer: Timer,
        slot: Http2Slot,
    ) -> Self {
        Conversation {
            upload,
            response: Some(response),
            body: None,
            timeouts: timeouts.clone(),
            timer,
            deadline: None,
            interim: 0,
            _slot: slot,
        }
    }

    /// Returns true if the server has answered something.
    pub fn has_input(&self) -> bool {
        self.interim > 0 || self.body.is_some()
    }

    /// Returns true if the response has no body and no trailer.
    pub fn is_ended(&self) -> bool {
        self.body.as_ref().is_some_and(RecvStream::is_end_stream)
    }

    /// Returns the next head, interim or final.
    pub fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<Head, Failure>> {
        self.poll_upload(cx)?;
        let Some(response) = &mut self.response else {
            return Poll::Ready(Err(Failure::ServerClosed));
        };
        if let Poll::Ready(Some(interim)) = response.poll_informational(cx) {
            let interim = interim.map_err(failure)?;
            self.interim += 1;
            if self.interim > MAX_INTERIM {
                return Poll::Ready(Err(Malformed("too many interim responses").into()));
            }
            return Poll::Ready(Ok(head::decode(interim.status(), interim.headers())?));
        }
        match std::pin::Pin::new(response).poll(cx) {
            Poll::Ready(Ok(found)) => {
                let (parts, body) = found.into_parts();
                (self.response, self.body, self.deadline) = (None, Some(body), None);
                Poll::Ready(Ok(head::decode(parts.status, &parts.headers)?))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(failure(error))),
            Poll::Pending => {
                let (limit, timeout) = (self.timeouts.first_byte, Failure::HeadTimeout);
                self.poll_timeout(cx, limit, timeout).map(Err)
            }
        }
    }

    /// Returns the next part of the body.
    pub fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Result<Part, Failure>> {
        self.poll_upload(cx)?;
        let Some(body) = &mut self.body else { return Poll::Ready(Ok(Part::End(None))) };
        let part = match body.poll_data(cx) {
            Poll::Ready(Some(Ok(bytes))) => {
                // The window of the stream grows by the bytes that are taken. It cannot grow too
                // far.
                let _ = body.flow_control().release_capacity(bytes.len());
                Poll::Ready(Ok(Part::Data(bytes)))
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Err(failure(error))),
            Poll::Ready(None) => body.poll_trailers(cx).map_ok(Part::End).map_err(failure),
            Poll::Pending => Poll::Pending,
        };
        if part.is_ready() {
            self.deadline = None;
            return part;
        }
        let (limit, timeout) = (self.timeouts.read, Failure::ReadTimeout);
        self.poll_timeout(cx, limit, timeout).map(Err)
    }

    /// Sends more of the request.
    fn poll_upload(&mut self, cx: &mut Context<'_>) -> Result<(), Failure> {
        if self.upload.poll_send(cx) {
            self.deadline = None;
        }
        self.upload.take_client_failure().map_or(Ok(()), Err)
    }

    /// Returns the failure once `limit` has passed without progress.
    fn poll_timeout(
        &mut self,
        cx: &mut Context<'_>,
        limit: Duration,
        timeout: Failure,
    ) -> Poll<Failure> {
        let (limit, timeout) = match self.upload.state() {
            State::Sending => (self.timeouts.send, Failure::SendTimeout),
            // The client's connection has its own timeout.
            State::Starved => {
                self.deadline = None;
                return Poll::Pending;
            }
            _ => (limit, timeout),
        };
        let deadline = *self.deadline.get_or_insert_with(|| Instant::now() + limit);
        self.timer.poll(cx, deadline).map(|()| timeout)
    }
}

/// Returns the failure that an error of a stream or its connection is.
fn failure(error: h2::Error) -> Failure {
    if error.is_remote() && error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM) {
        return Failure::RefusedStream;
    }
    if error.is_library() {
        Malformed("the response breaks the rules of HTTP/2").into()
    } else {
        Failure::Read(io::Error::other(error.to_string()))
    }
}
