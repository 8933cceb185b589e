//! A request and its response.

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep, timeout};

use super::connection::Connection;
use super::error::{Code, StreamError};
use super::incoming::{HeadError, MAX_AHEAD, RequestStream};
use super::outgoing::ResponseStream;
use super::qpack::Section;
use super::request;
use super::transport::Transport;
use crate::body_length::BodyLength;
use crate::exchange::Handler;
use crate::h1::Refusal;
use crate::h1::head::Head;
use crate::streams::{
    Answer, Incoming, Outgoing, Priority, Shared, StreamEnd, StreamMemory, body_length,
    discard_body,
};

/// Time for the end of a request with a short body or none. It comes with the head, unless a packet
/// was lost.
const END_GRACE: Duration = Duration::from_secs(1);

/// Answers the request of a stream.
pub(super) async fn answer<H: Handler, T: Transport>(
    handler: H,
    connection: Rc<Connection<T>>,
    sender: T::Sender,
    receiver: T::Receiver,
) -> StreamEnd {
    let started_at = Instant::now();
    let limits = handler.limits();
    let mut incoming = RequestStream::new(receiver, &connection, limits.max_head);
    let mut outgoing = ResponseStream::<T>::new(sender);
    let memory = StreamMemory::new(&connection.shared);
    let section = read_head(&mut incoming, &mut outgoing, &memory, limits.header_timeout).await;
    let refusal = match &section {
        Ok(section) => {
            connection.shared.phase.begin();
            connection.shared.budget.earn_request(section.bytes());
            None
        }
        Err(NoHead::Refused(refusal)) => Some(*refusal),
        Err(NoHead::Reset(code)) => {
            outgoing.reset_with(*code);
            incoming.stop(*code);
            let is_refused = *code == Code::RequestRejected;
            return if is_refused { StreamEnd::Refused } else { StreamEnd::Abandoned };
        }
    };
    let section = section.unwrap_or_default();
    let values = section.iter().filter(|(name, _)| *name == b"priority").map(|(_, value)| value);
    let priority = Priority::read(values);
    outgoing.set_priority(priority);
    let (head, text) = match refusal {
        Some(refusal) => (Err(refusal), Bytes::new()),
        None => request::read(&section, &limits),
    };
    drop(section);
    let head = match head {
        Ok(head) => {
            let length = begin_body(&mut incoming, &head).await;
            if incoming.is_malformed() {
                Err(Refusal::Body)
            } else {
                body_length(&head, length != Some(0), &limits).map(|length| (head, length))
            }
        }
        Err(refusal) => Err(refusal),
    };
    let info = connection.info();
    let answer = Answer::new(handler, memory, info, started_at, priority, text.len());
    let (head, length) = match head {
        Ok(head) => head,
        Err(refusal) => {
            let end = answer.refuse(refusal, &text, outgoing).await;
            incoming.stop(if is_malformed(refusal) { Code::MessageError } else { Code::NoError });
            return end;
        }
    };
    let (end, rest) = answer.exchange(head, length, incoming, outgoing).await;
    if let Some(mut rest) = rest {
        // The rest is read for its errors; a long one is not wanted (RFC 9114, 4.1).
        let is_whole = end == StreamEnd::Answered && discard_body(&mut rest).await;
        if !is_whole {
            let is_refused = end == StreamEnd::Refused;
            rest.stop(if is_refused { Code::RequestRejected } else { Code::NoError });
        }
    }
    end
}

/// Reason why a request has no head.
enum NoHead {
    /// It is answered with an error.
    Refused(Refusal),
    /// The stream is reset.
    Reset(Code),
}

/// Reads the head. While it has not arrived, it counts as memory, and the connection may be evicted.
async fn read_head<T: Transport>(
    incoming: &mut RequestStream<T>,
    outgoing: &mut ResponseStream<T>,
    memory: &StreamMemory,
    header_timeout: Duration,
) -> Result<Section, NoHead> {
    let mut waiting = Waiting { shared: memory.shared(), is_waiting: false };
    let head = poll_fn(|cx| match incoming.poll_head(cx) {
        Poll::Ready(head) => Poll::Ready(head.map_err(NoHead::from)),
        Poll::Pending if waiting.begins() && !memory.count_early() => {
            Poll::Ready(Err(NoHead::Reset(Code::RequestRejected)))
        }
        Poll::Pending => {
            outgoing.poll_reset(cx).map(|()| Err(NoHead::Reset(Code::RequestCancelled)))
        }
    });
    timeout(header_timeout, head).await.unwrap_or(Err(NoHead::Refused(Refusal::HeadTimeout)))
}

impl From<HeadError> for NoHead {
    fn from(error: HeadError) -> Self {
        match error {
            HeadError::Failed(StreamError::TooLong) => NoHead::Refused(Refusal::HeadTooLong),
            HeadError::Failed(StreamError::Incomplete) => NoHead::Reset(Code::RequestIncomplete),
            HeadError::Failed(StreamError::Malformed) => NoHead::Reset(Code::MessageError),
            HeadError::Gone | HeadError::Failed(StreamError::Connection(_)) => {
                NoHead::Reset(Code::RequestCancelled)
            }
        }
    }
}

/// A wait for the head of a request, until dropped.
struct Waiting<'c> {
    shared: &'c Shared,
    is_waiting: bool,
}

impl Waiting<'_> {
    /// Begins the wait. Returns false if it has begun before.
    fn begins(&mut self) -> bool {
        let begins = !std::mem::replace(&mut self.is_waiting, true);
        if begins {
            self.shared.phase.body(true);
        }
        begins
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.is_waiting {
            self.shared.phase.body(false);
        }
    }
}

/// Reads a short body, and what has arrived of a longer one, so that an error in it is known before
/// the response. Returns `Some(0)` if there is no body, otherwise the announced length.
async fn begin_body<T: Transport>(incoming: &mut RequestStream<T>, head: &Head) -> Option<u64> {
    let announced = match head.body {
        BodyLength::Known(length) if head.fields.get("content-length").is_some() => Some(length),
        _ => None,
    };
    let has_usually_none = matches!(&*head.method, b"GET" | b"HEAD" | b"OPTIONS" | b"DELETE");
    let is_short = announced.map_or(has_usually_none, |length| length <= MAX_AHEAD as u64);
    let waits = is_short && !head.expects_continue;
    incoming.announce(announced);
    let mut end_grace = pin!(sleep(END_GRACE));
    poll_fn(|cx| {
        let is_empty = match incoming.poll_ahead(cx) {
            Poll::Ready(is_empty) => is_empty,
            Poll::Pending if waits && end_grace.as_mut().poll(cx).is_pending() => {
                return Poll::Pending;
            }
            Poll::Pending => false,
        };
        Poll::Ready(if is_empty { Some(0) } else { announced })
    })
    .await
}

/// Returns true if a refused request is malformed, and not just too much.
fn is_malformed(refusal: Refusal) -> bool {
    crate::error_status::RequestError::from(refusal).status() == 400
}
