//! A request's body on its way from the client to a server that gets it as it comes.
//!
//! Who speaks with the client fills it ([`Feed::poll_fill`]): until there is a response, who waits
//! for that; then, who sends it. Who speaks with the server empties it ([`Taker`]). It holds what
//! one read brought, so that a client is never faster than the server.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;

use crate::exchange::{BodyError, Carrier};

/// See the module.
#[derive(Debug)]
pub struct Feed(RefCell<State>);

#[derive(Debug)]
struct State {
    /// Number of bytes of the whole body; `None` if only its end will tell.
    len: Option<u64>,
    /// Those of them that have come.
    come: u64,
    /// What waits for the server.
    piece: Bytes,
    /// The client's part is over: the lines of the trailer, or why there is no more.
    end: Option<Result<Bytes, BodyError>>,
    /// The server takes no more.
    unwanted: bool,
    /// Who waits for more of it.
    taker: Option<Waker>,
    /// Who waits for room.
    giver: Option<Waker>,
}

impl Feed {
    /// For a body of this length, of which nothing has come.
    pub fn new(len: Option<u64>) -> Rc<Feed> {
        let (piece, end) = (Bytes::new(), None);
        let state = State { len, come: 0, piece, end, unwanted: false, taker: None, giver: None };
        Rc::new(Feed(RefCell::new(state)))
    }

    /// Number of bytes of the whole body, if it is known.
    pub fn len(&self) -> Option<u64> {
        self.0.borrow().len
    }

    /// Whether nothing more is to be had from the client, or wanted of it.
    pub fn is_full(&self) -> bool {
        let state = self.0.borrow();
        state.end.is_some() || state.unwanted
    }

    /// Whether there is room for what the client sends next.
    pub fn is_waiting(&self) -> bool {
        !self.is_full() && self.0.borrow().piece.is_empty()
    }

    /// Takes from the client what there is room for. Ready at the end of the body, or when the
    /// server wants no more.
    pub fn poll_fill(
        &self,
        carrier: &dyn Carrier,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), BodyError>> {
        loop {
            {
                let state = &mut *self.0.borrow_mut();
                match &state.end {
                    Some(end) => {
                        return Poll::Ready(end.as_ref().map(|_| ()).map_err(|error| *error));
                    }
                    None if state.unwanted => return Poll::Ready(Ok(())),
                    None => {}
                }
                if !state.piece.is_empty() {
                    state.giver = Some(cx.waker().clone());
                    return Poll::Pending;
                }
            }
            let Poll::Ready(part) = carrier.poll_body(cx) else { return Poll::Pending };
            let state = &mut *self.0.borrow_mut();
            match part {
                Ok(Some(bytes)) => {
                    state.come += bytes.len() as u64;
                    state.piece = bytes;
                    if state.len == Some(state.come) {
                        state.end = Some(Ok(Bytes::new()));
                    }
                }
                Ok(None) => state.end = Some(Ok(carrier.trailer())),
                Err(error) => state.end = Some(Err(error)),
            }
            if let Some(taker) = state.taker.take() {
                taker.wake();
            }
        }
    }

    /// Fills it while something else is done.
    pub async fn fill_beside<T>(&self, carrier: &dyn Carrier, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        poll_fn(|cx| {
            // Who takes from it learns of a failure.
            let _ = self.poll_fill(carrier, cx);
            let done = work.as_mut().poll(cx);
            if done.is_pending() {
                // To see whether the client is there, it may have read ahead.
                let _ = self.poll_fill(carrier, cx);
            }
            done
        })
        .await
    }
}

/// The side of the server; when it is gone, nothing more is taken from the client.
#[derive(Debug)]
pub struct Taker(pub Rc<Feed>);

impl Taker {
    /// The next bytes, at most so many; none at the end.
    pub fn poll_next(
        &mut self,
        most: usize,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Bytes, BodyError>> {
        let state = &mut *self.0.0.borrow_mut();
        if !state.piece.is_empty() {
            let len = state.piece.len().min(most);
            let bytes = state.piece.split_to(len);
            if state.piece.is_empty()
                && let Some(giver) = state.giver.take()
            {
                giver.wake();
            }
            return Poll::Ready(Ok(bytes));
        }
        match &state.end {
            Some(Ok(_)) => Poll::Ready(Ok(Bytes::new())),
            Some(Err(error)) => Poll::Ready(Err(*error)),
            None => {
                state.taker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// The lines of the trailer, if everything was taken.
    pub fn end(&self) -> Option<Bytes> {
        let state = self.0.0.borrow();
        match &state.end {
            Some(Ok(trailer)) if state.piece.is_empty() => Some(trailer.clone()),
            _ => None,
        }
    }
}

impl Drop for Taker {
    fn drop(&mut self) {
        let state = &mut *self.0.0.borrow_mut();
        state.unwanted = true;
        state.piece = Bytes::new();
        if let Some(giver) = state.giver.take() {
            giver.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::task::Wake;
    use std::{cell::Cell, io};

    use super::*;
    use crate::exchange::Gone;
    use crate::message::FieldBlock;

    /// A client that has sent a body at once.
    struct Client(Cell<Option<Bytes>>);

    impl Carrier for Client {
        fn body_len(&self) -> Option<u64> {
            None
        }

        fn limit_body(&self, _: u64) {}

        fn poll_body(&self, _: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>> {
            self.0.take().map_or(Poll::Pending, |bytes| Poll::Ready(Ok(Some(bytes))))
        }

        fn queue_interim(&self, _: u16, _: &FieldBlock) -> io::Result<()> {
            Ok(())
        }

        fn poll_flush(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_gone(&self, _: &mut Context<'_>) -> Poll<Gone> {
            Poll::Pending
        }
    }

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    /// A server that took what waits in parts, as records of FastCGI are shorter than a read, had its
    /// client wait for ever.
    #[test]
    fn who_fills_it_is_woken_by_the_last_part_that_is_taken() {
        let woken = Arc::<Woken>::default();
        let waker = Waker::from(Arc::clone(&woken));
        let cx = &mut Context::from_waker(&waker);
        let feed = Feed::new(None);
        let mut taker = Taker(Rc::clone(&feed));
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
