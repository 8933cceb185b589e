//! Transfer of a request body from the client to an upstream server while it arrives.
//!
//! The task that serves the client fills the feed ([`Feed::poll_fill`]), first while it waits for
//! the response, then while it sends the response. The task that serves the upstream connection
//! reads from it ([`FeedReader`]). A feed holds the bytes of one read, so that the client cannot
//! send faster than the upstream server reads.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;

use super::request::{BodyError, BodySource};

/// A request body in transfer.
#[derive(Debug)]
pub struct Feed(RefCell<State>);

#[derive(Debug)]
struct State {
    /// Length of the whole body in bytes; `None` for a chunked one.
    len: Option<u64>,
    /// Bytes received from the client.
    received: u64,
    /// Bytes for the upstream server.
    piece: Bytes,
    /// End of the body: the lines of the trailer, or the reason why no more can be read.
    end: Option<Result<Bytes, BodyError>>,
    /// The reader was dropped.
    is_unwanted: bool,
    /// Task that waits for bytes.
    reader: Option<Waker>,
    /// Task that waits for room.
    writer: Option<Waker>,
}

#[allow(clippy::len_without_is_empty)] // the length is that of the whole body
impl Feed {
    /// Creates a feed for a body of `len` bytes, `None` for a chunked one.
    pub fn new(len: Option<u64>) -> Rc<Feed> {
        Rc::new(Feed(RefCell::new(State {
            len,
            received: 0,
            piece: Bytes::new(),
            end: None,
            is_unwanted: false,
            reader: None,
            writer: None,
        })))
    }

    /// Returns the length of the whole body in bytes, if it is known.
    pub fn len(&self) -> Option<u64> {
        self.0.borrow().len
    }

    /// Returns true if no more is read from the client: the body has ended, or the reader was
    /// dropped.
    pub fn is_full(&self) -> bool {
        let state = self.0.borrow();
        state.end.is_some() || state.is_unwanted
    }

    /// Returns true if the feed has room for the next bytes of the client.
    pub fn is_waiting(&self) -> bool {
        !self.is_full() && self.0.borrow().piece.is_empty()
    }

    /// Reads from the client while there is room. Ready at the end of the body, or when the reader
    /// was dropped.
    pub fn poll_fill(
        &self,
        source: &(impl BodySource + ?Sized),
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), BodyError>> {
        loop {
            if let Some(end) = self.0.borrow_mut().poll_room(cx) {
                return end;
            }
            let Poll::Ready(part) = source.poll_body(cx) else { return Poll::Pending };
            let state = &mut *self.0.borrow_mut();
            match part {
                Ok(Some(bytes)) => {
                    state.received += bytes.len() as u64;
                    state.piece = bytes;
                    if state.len == Some(state.received) {
                        state.end = Some(Ok(Bytes::new()));
                    }
                }
                Ok(None) => state.end = Some(Ok(source.trailer())),
                Err(error) => state.end = Some(Err(error)),
            }
            if let Some(reader) = state.reader.take() {
                reader.wake();
            }
        }
    }

    /// Fills the feed while `work` runs, and returns the result of `work`.
    pub async fn fill_beside<T>(
        &self,
        source: &impl BodySource,
        work: impl Future<Output = T>,
    ) -> T {
        let mut work = pin!(work);
        poll_fn(|cx| {
            // The reader learns of a failure.
            let _ = self.poll_fill(source, cx);
            let done = work.as_mut().poll(cx);
            if done.is_pending() {
                // The work may have read ahead, to learn whether the client has disconnected.
                let _ = self.poll_fill(source, cx);
            }
            done
        })
        .await
    }
}

impl State {
    /// Returns `None` if there is room; otherwise the result of [`Feed::poll_fill`].
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Option<Poll<Result<(), BodyError>>> {
        match &self.end {
            Some(end) => {
                return Some(Poll::Ready(end.as_ref().map(|_| ()).map_err(|error| *error)));
            }
            None if self.is_unwanted => return Some(Poll::Ready(Ok(()))),
            None if self.piece.is_empty() => return None,
            None => {}
        }
        self.writer = Some(cx.waker().clone());
        Some(Poll::Pending)
    }
}

/// The reading end of a feed. Once it is dropped, no more is read from the client.
#[derive(Debug)]
pub struct FeedReader(pub Rc<Feed>);

impl FeedReader {
    /// Returns the next bytes, at most `max`; empty at the end of the body.
    pub fn poll_next(
        &mut self,
        max: usize,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Bytes, BodyError>> {
        let state = &mut *self.0.0.borrow_mut();
        if !state.piece.is_empty() {
            let len = state.piece.len().min(max);
            let bytes = state.piece.split_to(len);
            if state.piece.is_empty()
                && let Some(writer) = state.writer.take()
            {
                writer.wake();
            }
            return Poll::Ready(Ok(bytes));
        }
        match &state.end {
            Some(Ok(_)) => Poll::Ready(Ok(Bytes::new())),
            Some(Err(error)) => Poll::Ready(Err(*error)),
            None => {
                state.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Returns the lines of the trailer once all bytes were read.
    pub fn end(&self) -> Option<Bytes> {
        let state = self.0.0.borrow();
        match &state.end {
            Some(Ok(trailer)) if state.piece.is_empty() => Some(trailer.clone()),
            _ => None,
        }
    }
}

impl Drop for FeedReader {
    fn drop(&mut self) {
        let state = &mut *self.0.0.borrow_mut();
        state.is_unwanted = true;
        state.piece = Bytes::new();
        if let Some(writer) = state.writer.take() {
            writer.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::task::Wake;

    use super::*;

    /// A client that has sent a body at once.
    struct Client(Cell<Option<Bytes>>);

    impl BodySource for Client {
        fn poll_body(&self, _: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>> {
            self.0.take().map_or(Poll::Pending, |bytes| Poll::Ready(Ok(Some(bytes))))
        }
    }

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    /// Records of FastCGI are shorter than a read, so that a piece is read in parts. Scenario: the
    /// client was not read from after that.
    #[test]
    fn the_writer_is_woken_when_the_last_part_of_a_piece_is_read() {
        let woken = Arc::<Woken>::default();
        let waker = Waker::from(Arc::clone(&woken));
        let cx = &mut Context::from_waker(&waker);
        let feed = Feed::new(None);
        let mut taker = FeedReader(Rc::clone(&feed));
        assert!(feed.poll_fill(&Client(Cell::new(Some("abc".into()))), cx).is_pending());
        assert!(!feed.is_waiting());
        assert_eq!(taker.poll_next(2, cx), Poll::Ready(Ok("ab".into())));
        assert_eq!(woken.0.load(Relaxed), 0);
        assert_eq!(taker.poll_next(2, cx), Poll::Ready(Ok("c".into())));
        assert_eq!(woken.0.load(Relaxed), 1);
        assert!(feed.is_waiting());
        drop(taker);
        assert!(feed.is_full(), "nobody wants more");
    }
}
