//! Body of a response over HTTP/2.

use std::fmt;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use howdah_http::body::BodyStream;
use howdah_http::message::Trailer;

use super::conversation::{Conversation, Part};
use super::head;
use crate::failure::Failure;
use crate::retry::Attempt;
use crate::servers::selection::ActiveRequest;
use crate::servers::upstream::Upstream;
use crate::thread::UpstreamThread;
use crate::transfer::response_buffer::{Abandon, TurnLimit};

/// A body that is being read.
pub struct ResponseBody {
    /// `None` after the end.
    pub conversation: Option<Conversation>,
    /// Number of bytes that are still to come, if the length is announced.
    pub left: Option<u64>,
    /// Receiver of the trailer, if the client accepts one.
    pub trailer: Option<Trailer>,
    /// Limit of pieces in a turn.
    pub turn: TurnLimit,
    /// For the log.
    pub thread: Rc<UpstreamThread>,
    /// The request.
    pub attempt: Attempt<Arc<Upstream>>,
    /// The request counts as active until the end.
    pub _active: ActiveRequest,
}

impl ResponseBody {
    fn fail(&mut self, failure: &Failure) -> io::Error {
        if failure.is_by_client() {
            self.conversation = None
        } else {
            let reason = self.attempt.reason(failure);
            self.abandon(format_args!("{reason}"));
        }
        io::Error::other("the upstream's response was cut")
    }
}

impl Abandon for ResponseBody {
    fn abandon(&mut self, problem: fmt::Arguments<'_>) {
        if self.conversation.take().is_some() {
            self.attempt.log(&self.thread, problem);
        }
    }
}

impl BodyStream for ResponseBody {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        loop {
            ready!(self.turn.poll(cx));
            let Some(conversation) = &mut self.conversation else { return Poll::Ready(None) };
            let Poll::Ready(part) = conversation.poll_part(cx) else {
                self.turn.begin();
                return Poll::Pending;
            };
            self.turn.take();
            match part {
                Ok(Part::Data(bytes)) if bytes.is_empty() => {}
                Ok(Part::Data(bytes)) => {
                    self.left = self.left.map(|left| left.saturating_sub(bytes.len() as u64));
                    return Poll::Ready(Some(Ok(bytes)));
                }
                Ok(Part::End(fields)) => {
                    if let (Some(trailer), Some(fields)) = (&self.trailer, fields) {
                        trailer.set(head::decode_trailer(&fields));
                    }
                    self.conversation = None;
                    return Poll::Ready(None);
                }
                Err(failure) => return Poll::Ready(Some(Err(self.fail(&failure)))),
            }
        }
    }

    fn len(&self) -> Option<u64> {
        self.left
    }
}
