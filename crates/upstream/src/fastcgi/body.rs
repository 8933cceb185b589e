//! The body of a FastCGI server's response, decoded from its records.

use std::fmt;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use howdah_http::body::BodyStream;

use super::application::FastCgiApplication;
use super::connection_limit::ConnectionPermit;
use super::conversation::{Conversation, Part};
use crate::retry::Attempt;
use crate::servers::selection::ActiveRequest;
use crate::thread::UpstreamThread;
use crate::transfer::response_buffer::Abandon;

/// Context of a body that is being read: for the log, and for the reuse of the connection.
pub struct BodyContext {
    /// Thread that reads the body.
    pub thread: Rc<UpstreamThread>,
    /// The request.
    pub attempt: Attempt<Arc<FastCgiApplication>>,
    /// Permission for the connection.
    pub _permit: Option<ConnectionPermit>,
    /// The request counts as active until the end.
    pub _active: ActiveRequest,
}

/// Body of a response whose head is complete.
pub struct ResponseBody {
    /// `None` after the end of the body.
    active: Option<(Conversation<Attempt<Arc<FastCgiApplication>>>, BodyContext)>,
    /// The server has reported that an error has ended the script.
    is_cut: bool,
    /// Bytes that arrived with the head.
    first: Bytes,
    /// Remaining bytes of the script's `Content-Length`.
    remaining: Option<u64>,
}

impl ResponseBody {
    /// Creates the body that begins with `first` and has the announced `length`.
    pub fn new(
        conversation: Conversation<Attempt<Arc<FastCgiApplication>>>,
        first: Bytes,
        length: Option<u64>,
        context: BodyContext,
    ) -> Self {
        ResponseBody {
            active: Some((conversation, context)),
            is_cut: false,
            first,
            remaining: length,
        }
    }

    /// Ends a complete body: the connection can be used again.
    fn complete(&mut self) {
        let Some((conversation, context)) = self.active.take() else { return };
        let Attempt { owner: application, server, .. } = &context.attempt;
        self.is_cut = conversation.is_cut();
        let (idle, timer) = conversation.into_idle();
        context.thread.return_timer(timer);
        if let Some(stream) = idle {
            server.fastcgi_connections().put(
                stream,
                application.keepalive,
                application.timeouts.idle,
            );
        }
    }

    fn give(&mut self, bytes: Bytes) -> Poll<Option<io::Result<Bytes>>> {
        if let Some(remaining) = &mut self.remaining {
            *remaining = remaining.saturating_sub(bytes.len() as u64);
        }
        Poll::Ready(Some(Ok(bytes)))
    }
}

impl BodyStream for ResponseBody {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if !self.first.is_empty() {
            let first = std::mem::take(&mut self.first);
            return self.give(first);
        }
        let Some((conversation, context)) = &mut self.active else { return Poll::Ready(None) };
        match conversation.poll_part(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(Part::Output(bytes))) => self.give(bytes),
            Poll::Ready(Ok(Part::End)) => {
                self.complete();
                Poll::Ready(None)
            }
            Poll::Ready(Err(failure)) => {
                if failure.is_by_client() {
                    self.active = None
                } else {
                    let reason = context.attempt.reason(&failure);
                    self.abandon(format_args!("{reason}"));
                }
                let error = io::Error::other("the answer of the FastCGI server was cut");
                Poll::Ready(Some(Err(error)))
            }
        }
    }

    fn len(&self) -> Option<u64> {
        self.remaining
    }

    fn is_cut(&self) -> bool {
        self.is_cut
    }
}

impl Abandon for ResponseBody {
    fn abandon(&mut self, problem: fmt::Arguments<'_>) {
        if let Some((_, context)) = self.active.take() {
            context.attempt.log(&context.thread, problem);
        }
    }
}
