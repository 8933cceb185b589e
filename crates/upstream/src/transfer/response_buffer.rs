//! The body of another server's answer: taken as fast as the server writes it, sent at the
//! client's pace. What the client has not taken yet waits in bounded memory and then in an unlinked
//! file, so that a slow client holds no connection to a server. Nothing is held back: what has come
//! is the client's at once.

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use howdah_http::body::{Body, BodyStream};
use howdah_http::message::FieldBlock;
use howdah_http::spool::Spool;
use howdah_php_pool::pending::MAX_WAITING;
use tokio::task::{AbortHandle, spawn_local};

/// Pieces that are taken out of one answer before other connections have their turn.
pub const PIECES: usize = 64;
/// Bytes likewise.
const BYTES: usize = 1 << 20;

/// How much of an answer is taken apart at once. Whoever writes very short pieces must not keep the
/// thread from everybody else, even if all of them are there already.
#[derive(Debug, Default)]
pub struct Turn {
    taken: usize,
}

impl Turn {
    /// Counts a piece. `false`: it is the turn of others first ([`Turn::poll`]).
    pub fn take(&mut self) -> bool {
        let may = !self.is_over();
        self.taken += usize::from(may);
        may
    }

    /// Whether it is the turn of others.
    pub fn is_over(&self) -> bool {
        self.taken >= PIECES
    }

    /// Pending if the turn is over: the task is woken at once, and a new turn begins then.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.is_over() {
            return Poll::Ready(());
        }
        self.taken = 0;
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// There was nothing to take, so others have had theirs.
    pub fn begin(&mut self) {
        self.taken = 0;
    }
}

/// The body of an answer as its server writes it; it reports by itself why it cannot go on.
pub trait Answer: BodyStream + 'static {
    /// It is not wanted any more, because of a problem on our side.
    fn give_up(&mut self, problem: fmt::Arguments<'_>);
}

/// How the bodies of answers are taken.
#[derive(Debug, Clone, Copy)]
pub struct Taking<'a> {
    /// As fast as they come, if the configuration says so.
    pub buffering: bool,
    /// The directory for what the client does not take.
    pub directory: &'a Path,
}

impl Taking<'_> {
    /// The body that the client gets. As in nginx the answer itself may say how it is taken, with
    /// `X-Accel-Buffering`.
    pub fn body(&self, answer: impl Answer, fields: &FieldBlock) -> Body {
        let is_buffered = match fields.get("x-accel-buffering") {
            Some(says) if says.eq_ignore_ascii_case(b"no") => false,
            Some(says) if says.eq_ignore_ascii_case(b"yes") => true,
            _ => self.buffering,
        };
        match is_buffered {
            true => buffer(answer, self.directory),
            false => Body::Stream(Box::new(answer)),
        }
    }
}

fn buffer(mut answer: impl Answer, directory: &Path) -> Body {
    let remaining = answer.len();
    // Most answers are there with their head, and in one piece.
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
            return whole.into();
        }
        (first, second) => [first, second],
    };
    let spool = Spool::new(directory.into());
    let store = Rc::new(RefCell::new(Store { spool, end: None, client: None, reader: None }));
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
        Store { end: Some(Ok(())), spool, .. } => spool.take_all(),
        _ => None,
    };
    match whole {
        Some(bytes) if remaining.is_none_or(|length| length == bytes.len() as u64) => bytes.into(),
        // Another length than was announced: what is too much is cut, and if it is too little the
        // connection ends, so that nobody takes a part for the whole.
        whole => {
            if let Some(bytes) = whole {
                let _ = store.borrow_mut().spool.push(bytes); // one piece stays in memory
            }
            Body::Stream(Box::new(Buffered { store, remaining, task }))
        }
    }
}

/// What has come and is not sent yet.
struct Store {
    spool: Spool,
    end: Option<Result<(), io::ErrorKind>>,
    /// Who waits for more.
    client: Option<Waker>,
    /// Who waits for room.
    reader: Option<Waker>,
}

impl Store {
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

/// Takes an answer from its server.
struct Reader<A> {
    answer: A,
    store: Rc<RefCell<Store>>,
}

impl<A: Answer> Reader<A> {
    /// Ready when the answer is over.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut bytes = 0;
        for _ in 0..PIECES {
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
            if bytes >= BYTES {
                break;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Takes a part. Whether the answer is over.
    fn take(&mut self, part: Option<io::Result<Bytes>>) -> bool {
        let mut store = self.store.borrow_mut();
        let end = match part {
            Some(Ok(bytes)) => match store.spool.push(bytes) {
                Ok(()) => {
                    store.wake();
                    return false;
                }
                Err(error) => {
                    self.answer.give_up(format_args!("the answer cannot be kept: {error}"));
                    Err(error.kind())
                }
            },
            None => Ok(()),
            Some(Err(error)) => Err(error.kind()),
        };
        store.end(end);
        true
    }
}

/// What the client is sent.
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
}

impl Drop for Buffered {
    /// The client has left: the server is told by the end of the connection.
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

#[cfg(test)]
#[path = "response_buffer_tests.rs"]
mod tests;
