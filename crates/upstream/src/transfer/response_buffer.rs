//! Body of a server's response: read as fast as the server writes it, sent at the client's pace.
//!
//! The part that the client has not taken yet waits in bounded memory and then in an unlinked file,
//! so that a slow client occupies no connection to a server. Bytes are sent to the client as soon
//! as they arrive.

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use howdah_http::body::{Body, BodyStream};
use howdah_http::memory::Owner;
use howdah_http::message::FieldBlock;
use howdah_http::spool::MAX_WAITING;
use howdah_http::spool::Spool;
use howdah_http::turn::{self, TURN_BYTES};
use howdah_sys::plain::Plain;
use tokio::task::{AbortHandle, spawn_local};

/// Maximum number of pieces of one response that are decoded in one turn; then other connections
/// get theirs.
pub const MAX_TURN_PIECES: usize = 64;

/// Limits the pieces of a response that are decoded in one turn. A server that writes very short
/// pieces must not block other connections of the thread.
#[derive(Debug, Default)]
pub struct TurnLimit {
    taken: usize,
}

impl TurnLimit {
    /// Counts a piece. Returns false if the turn is over ([`TurnLimit::poll`]).
    pub fn take(&mut self) -> bool {
        let may = !self.is_over();
        self.taken += usize::from(may);
        may
    }

    /// Returns true if the turn is over.
    pub fn is_over(&self) -> bool {
        self.taken >= MAX_TURN_PIECES
    }

    /// Returns pending if the turn is over; a new turn begins after those of others
    /// ([`turn::end`]).
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.is_over() {
            return Poll::Ready(());
        }
        self.taken = 0;
        turn::end(cx);
        Poll::Pending
    }

    /// Begins a new turn: other connections have theirs while this one waits.
    pub fn begin(&mut self) {
        self.taken = 0;
    }
}

/// Body of a response from its server. Logs its own failures.
pub trait Abandon: BodyStream + 'static {
    /// Ends the body early and closes the connection, because of a problem in the router, which is
    /// logged.
    fn abandon(&mut self, problem: fmt::Arguments<'_>);
}

/// Buffering of responses.
#[derive(Debug, Clone, Copy)]
pub struct ResponseBuffering<'a> {
    /// Bodies are read as fast as they arrive; otherwise at the client's pace.
    pub is_on: bool,
    /// Directory for the part that the client has not taken yet.
    pub directory: &'a Path,
    /// The owner of the memory of the other part.
    pub owner: &'a Owner,
}

impl ResponseBuffering<'_> {
    /// Returns the body for the client. As in nginx the response field `X-Accel-Buffering`
    /// overrides the setting.
    pub fn body(&self, answer: impl Abandon, fields: &FieldBlock) -> Body {
        let is_buffered = match fields.get("x-accel-buffering") {
            Some(says) if says.eq_ignore_ascii_case(b"no") => false,
            Some(says) if says.eq_ignore_ascii_case(b"yes") => true,
            _ => self.is_on,
        };
        if is_buffered {
            buffer(answer, self.directory, self.owner)
        } else {
            Body::Stream(Box::new(answer))
        }
    }
}

/// Reads a body as fast as it arrives, and returns the body for the client.
fn buffer(mut answer: impl Abandon, directory: &Path, owner: &Owner) -> Body {
    let remaining = answer.len();
    // Most bodies arrive with the head and in one piece.
    let mut cx = Context::from_waker(Waker::noop());
    let first = answer.poll_next(&mut cx);
    let second = match &first {
        Poll::Ready(Some(Ok(_))) => answer.poll_next(&mut cx),
        _ => Poll::Pending,
    };
    let come = match (first, second) {
        (Poll::Ready(Some(Ok(whole))), Poll::Ready(None))
            if remaining.is_none_or(|length| length == whole.len() as u64) =>
        {
            return if answer.is_cut() { Body::cut(whole, remaining) } else { whole.into() };
        }
        (first, second) => [first, second],
    };
    let spool = Spool::new(directory.into()).of(owner.clone());
    let store = Rc::new(RefCell::new(Store::new(spool)));
    let mut reader = Reader { answer, store: Rc::clone(&store) };
    let waits = matches!(come, [Poll::Pending, _] | [Poll::Ready(Some(Ok(_))), Poll::Pending]);
    let mut is_over = come.into_iter().any(|part| match part {
        Poll::Ready(part) => reader.take(part),
        Poll::Pending => false,
    });
    is_over = is_over || (!waits && reader.poll(&mut cx).is_ready());
    let task = (!is_over).then(|| {
        spawn_local(async move { std::future::poll_fn(|cx| reader.poll(cx)).await }).abort_handle()
    });
    let whole = match &mut *store.borrow_mut() {
        Store { end: Some(Ok(())), is_cut: false, spool, .. } => spool.take_all(),
        _ => None,
    };
    match whole {
        Some(bytes) if remaining.is_none_or(|length| length == bytes.len() as u64) => bytes.into(),
        // The length differs from `Content-Length`: excess bytes are cut, and after too few the
        // connection ends, so that the client notices the truncation.
        whole => {
            if let Some(bytes) = whole {
                let _ = store.borrow_mut().spool.push(bytes); // one piece stays in memory
            }
            Body::Stream(Box::new(Buffered { store, remaining, task }))
        }
    }
}

/// Bytes that have arrived and are not sent yet.
struct Store {
    spool: Spool,
    end: Option<Result<(), io::ErrorKind>>,
    /// The server has reported that an error has ended its program.
    is_cut: bool,
    /// Task that waits for more.
    client: Option<Waker>,
    /// Task that waits for room.
    reader: Option<Waker>,
}

impl Store {
    fn new(spool: Spool) -> Store {
        Store { spool, end: None, is_cut: false, client: None, reader: None }
    }

    fn end(&mut self, end: Result<(), io::ErrorKind>) {
        self.end.get_or_insert(end);
        self.wake();
    }

    fn wake(&mut self) {
        if let Some(waker) = self.client.take() {
            waker.wake();
        }
    }
}

/// Reads a body from its server.
struct Reader<A> {
    answer: A,
    store: Rc<RefCell<Store>>,
}

impl<A: Abandon> Reader<A> {
    /// Reads for one turn. Returns ready at the end of the body.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut bytes = 0;
        for _ in 0..MAX_TURN_PIECES {
            {
                let mut store = self.store.borrow_mut();
                if store.spool.len() >= MAX_WAITING {
                    store.reader = Some(cx.waker().clone());
                    return Poll::Pending;
                }
            }
            let Poll::Ready(part) = self.answer.poll_next(cx) else { return Poll::Pending };
            bytes += part.as_ref().map_or(0, |part| part.as_ref().map_or(0, Bytes::len));
            if self.take(part) {
                return Poll::Ready(());
            }
            if bytes >= TURN_BYTES {
                break;
            }
        }
        turn::end(cx);
        Poll::Pending
    }

    /// Stores a part. Returns true at the end of the body.
    fn take(&mut self, part: Option<io::Result<Bytes>>) -> bool {
        let mut store = self.store.borrow_mut();
        let end = match part {
            Some(Ok(bytes)) => match store.spool.push(bytes) {
                Ok(()) => {
                    store.wake();
                    return false;
                }
                Err(error) => {
                    self.answer
                        .abandon(format_args!("the response cannot be stored: {}", Plain(&error)));
                    Err(error.kind())
                }
            },
            None => Ok(()),
            Some(Err(error)) => Err(error.kind()),
        };
        store.is_cut = self.answer.is_cut();
        store.end(end);
        true
    }
}

/// Body for the client.
struct Buffered {
    store: Rc<RefCell<Store>>,
    remaining: Option<u64>,
    task: Option<AbortHandle>,
}

impl BodyStream for Buffered {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        let store = &mut *self.store.borrow_mut();
        match store.spool.pop() {
            Ok(Some(bytes)) => {
                if let Some(waker) = store.reader.take() {
                    waker.wake();
                }
                if let Some(remaining) = &mut self.remaining {
                    *remaining = remaining.saturating_sub(bytes.len() as u64);
                }
                return Poll::Ready(Some(Ok(bytes)));
            }
            Ok(None) => {}
            Err(error) => return Poll::Ready(Some(Err(error))),
        }
        match store.end {
            Some(Ok(())) => Poll::Ready(None),
            Some(Err(kind)) => Poll::Ready(Some(Err(kind.into()))),
            None => {
                store.client = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    fn len(&self) -> Option<u64> {
        self.remaining
    }

    fn is_cut(&self) -> bool {
        self.store.borrow().is_cut
    }

    fn is_counted(&self) -> bool {
        self.store.borrow().spool.is_counted()
    }
}

impl Drop for Buffered {
    /// Stops reading, because the client has left; the connection to the server is closed.
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

#[cfg(test)]
mod tests;
