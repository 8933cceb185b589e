//! A body that is collected for the cache while a client gets it.
//!
//! A task reads the body as fast as it arrives, so that a slow client delays no request that waits
//! for the stored response. A client that leaves does not end the task. Once the body is longer
//! than can be stored, or there is no memory to collect it, it is read at the client's pace. The
//! bytes that the client has not read wait in a [`Spool`]: a few in memory, the rest in a temporary
//! file.

use std::cell::RefCell;
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use howdah_http::body::spool::Spool;
use howdah_http::body::{Body, BodyStream, Piece};
use howdah_http::memory::{COLLECTED, Charge, Owner};
use tokio::task::spawn_local;

use crate::storing::Refusal;

/// Receives a complete body, or the reason why there is none to store.
pub type Done = Box<dyn FnOnce(Result<Bytes, Refusal>)>;

/// Collects a body of at most `max` bytes for `done`, and returns the body for the client. The
/// memory counts for the owner; the part that the client does not read goes to a file in
/// `directory`.
pub fn collect(body: Body, max: u64, owner: Owner, directory: &Arc<Path>, done: Done) -> Body {
    let fits = |len: u64| len <= max;
    match body {
        Body::Empty => {
            done(Ok(Bytes::new()));
            Body::Empty
        }
        Body::Bytes(bytes) => {
            // A copy: the bytes may be a small part of a large buffer.
            let is_short = fits(bytes.len() as u64);
            done(is_short.then(|| Bytes::copy_from_slice(&bytes)).ok_or(Refusal::TooLarge));
            Body::Bytes(bytes)
        }
        Body::Pieces(pieces) => {
            done(memory_of(&pieces, max).ok_or(Refusal::TooLarge));
            Body::Pieces(pieces)
        }
        Body::Stream(stream) if stream.len().is_some_and(|len| !fits(len)) => {
            done(Err(Refusal::TooLarge));
            Body::Stream(stream)
        }
        Body::Stream(stream) => {
            let charge = Charge::new(&COLLECTED, owner.clone());
            let collected = Some(Collected { bytes: Vec::new(), max, charge, done });
            let shared = Rc::new(RefCell::new(Shared {
                stream: Some(stream),
                queue: Spool::new(Arc::clone(directory)).of(owner),
                end: None,
                is_cut: false,
                collected,
                client: None,
                reader: None,
                has_client: true,
            }));
            let reader = Rc::clone(&shared);
            spawn_local(std::future::poll_fn(move |cx| reader.borrow_mut().poll_read(cx)));
            Body::Stream(Box::new(ClientBody(shared)))
        }
    }
}

/// Returns the content of pieces in memory.
fn memory_of(pieces: &[Piece], max: u64) -> Option<Bytes> {
    let mut all = BytesMut::new();
    for piece in pieces {
        match piece {
            Piece::Bytes(bytes) => all.extend_from_slice(bytes),
            Piece::File { .. } => return None,
        }
        if all.len() as u64 > max {
            return None;
        }
    }
    Some(all.freeze())
}

/// The part of a body that is stored.
struct Collected {
    bytes: Vec<u8>,
    max: u64,
    charge: Charge,
    done: Done,
}

impl Collected {
    fn add(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        let (len, capacity) = (self.bytes.len() + bytes.len(), self.bytes.capacity());
        if len as u64 > self.max {
            return Err(Refusal::TooLarge);
        }
        if len > capacity {
            let max = usize::try_from(self.max).unwrap_or(usize::MAX);
            let capacity = len.max(max.min(2 * capacity));
            if !self.charge.hold(capacity) {
                return Err(Refusal::NoMemory);
            }
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }
}

struct Shared {
    /// `None` after its end.
    stream: Option<Box<dyn BodyStream>>,
    /// Bytes for the client.
    queue: Spool,
    end: Option<Result<(), io::ErrorKind>>,
    /// Its producer has reported a failure with the end.
    is_cut: bool,
    /// `None` once the body is not going to be stored.
    collected: Option<Collected>,
    client: Option<Waker>,
    reader: Option<Waker>,
    has_client: bool,
}

impl Shared {
    /// Reads the stream. Ready at its end.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if !self.has_client && self.collected.is_none() {
                self.stream = None;
            }
            let Some(stream) = &mut self.stream else { return Poll::Ready(()) };
            if self.collected.is_none() && !self.queue.is_empty() {
                self.reader = Some(cx.waker().clone());
                return Poll::Pending;
            }
            let Poll::Ready(next) = stream.poll_next(cx) else {
                // The client may leave while the stream waits.
                self.reader = Some(cx.waker().clone());
                return Poll::Pending;
            };
            match next {
                Some(Ok(bytes)) => self.take(bytes),
                Some(Err(error)) => self.finish(Err(error.kind()), false),
                None => {
                    let is_cut = stream.is_cut();
                    self.finish(Ok(()), is_cut);
                }
            }
            if let Some(client) = self.client.take() {
                client.wake();
            }
        }
    }

    fn take(&mut self, bytes: Bytes) {
        if let Some(collected) = &mut self.collected
            && let Err(refusal) = collected.add(&bytes)
            && let Some(collected) = self.collected.take()
        {
            (collected.done)(Err(refusal));
        }
        if self.has_client
            && let Err(error) = self.queue.push(bytes)
        {
            // The client must not take the part that it has for the whole.
            self.end = Some(Err(error.kind()));
            self.leave();
        }
    }

    /// Continues for the cache alone.
    fn leave(&mut self) {
        self.has_client = false;
        self.queue.clear();
    }

    fn finish(&mut self, end: Result<(), io::ErrorKind>, is_cut: bool) {
        self.stream = None;
        self.end.get_or_insert(end);
        self.is_cut = is_cut;
        if let Some(Collected { bytes, done, charge, .. }) = self.collected.take() {
            drop(charge); // from here it is the memory of the cache
            done(match end {
                Ok(()) if is_cut => Err(Refusal::Failed),
                Ok(()) => Ok(Bytes::from(bytes.into_boxed_slice())),
                Err(_) => Err(Refusal::Incomplete),
            });
        }
    }
}

/// The body for the client.
struct ClientBody(Rc<RefCell<Shared>>);

impl BodyStream for ClientBody {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        let shared = &mut *self.0.borrow_mut();
        let next = shared.queue.pop();
        if let Some(next) = next.transpose() {
            if shared.queue.is_empty()
                && let Some(reader) = shared.reader.take()
            {
                reader.wake();
            }
            return Poll::Ready(Some(next));
        }
        match shared.end {
            Some(Ok(())) => Poll::Ready(None),
            Some(Err(kind)) => Poll::Ready(Some(Err(kind.into()))),
            None => {
                shared.client = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    fn len(&self) -> Option<u64> {
        let shared = self.0.borrow();
        let rest = match &shared.stream {
            Some(stream) => stream.len()?,
            None => 0,
        };
        Some(shared.queue.len() + rest)
    }

    fn is_cut(&self) -> bool {
        self.0.borrow().is_cut
    }

    fn is_counted(&self) -> bool {
        self.0.borrow().queue.is_counted()
    }
}

impl Drop for ClientBody {
    fn drop(&mut self) {
        let shared = &mut *self.0.borrow_mut();
        shared.leave();
        if let Some(reader) = shared.reader.take() {
            reader.wake();
        }
    }
}

#[cfg(test)]
mod tests;
