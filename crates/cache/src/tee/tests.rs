use std::cell::Cell;
use std::collections::VecDeque;
use std::future::poll_fn;

use tokio::task::{LocalSet, yield_now};

use super::*;

/// A stream that ends with this after some pieces, each after a wait.
struct Pieces(VecDeque<&'static str>, io::Result<()>, bool, bool);

impl BodyStream for Pieces {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        self.2 = !self.2;
        if self.2 {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(match self.0.pop_front() {
            Some(piece) => Some(Ok(piece.into())),
            None => std::mem::replace(&mut self.1, Ok(())).err().map(Err),
        })
    }

    fn len(&self) -> Option<u64> {
        None
    }

    fn is_cut(&self) -> bool {
        self.3 && self.0.is_empty()
    }
}

/// Collects a body without an owner.
fn collect(body: Body, max: u64, done: Done) -> Body {
    super::collect(body, max, Owner::default(), &std::env::temp_dir().into(), done)
}

type Stored = Rc<Cell<Option<Result<Bytes, Refusal>>>>;

fn tee(pieces: &[&'static str], end: io::Result<()>, max: u64) -> (Body, Stored) {
    let stored = Stored::default();
    let own = Rc::clone(&stored);
    let stream = Pieces(pieces.iter().copied().collect(), end, false, false);
    let done: Done = Box::new(move |body| own.set(Some(body)));
    (collect(Body::Stream(Box::new(stream)), max, done), stored)
}

async fn read(body: &mut Body) -> io::Result<String> {
    let Body::Stream(stream) = body else { panic!("{body:?}") };
    let mut all = Vec::new();
    while let Some(bytes) = poll_fn(|cx| stream.poll_next(cx)).await {
        all.extend_from_slice(&bytes?);
    }
    Ok(String::from_utf8(all).unwrap())
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    LocalSet::new().block_on(&runtime, test);
}

async fn turns() {
    for _ in 0..50 {
        yield_now().await;
    }
}

#[test]
fn client_and_cache_get_the_whole_body() {
    run(async {
        let (mut body, stored) = tee(&["ab", "c", "def"], Ok(()), 6);
        assert_eq!(read(&mut body).await.unwrap(), "abcdef");
        assert_eq!(stored.take(), Some(Ok(Bytes::from("abcdef"))));
    });
}

#[test]
fn the_cache_does_not_wait_for_the_client() {
    run(async {
        let (mut body, stored) = tee(&["ab", "c"], Ok(()), 6);
        turns().await;
        assert_eq!(stored.take(), Some(Ok(Bytes::from("abc"))));
        assert_eq!(body.len(), Some(3));
        assert_eq!(read(&mut body).await.unwrap(), "abc");
    });
}

#[test]
fn a_client_that_leaves_does_not_keep_the_body_from_the_cache() {
    run(async {
        let (body, stored) = tee(&["ab", "c"], Ok(()), 6);
        drop(body);
        turns().await;
        assert_eq!(stored.take(), Some(Ok(Bytes::from("abc"))));
    });
}

#[test]
fn a_body_that_is_too_long_is_sent_but_not_stored() {
    run(async {
        let (mut body, stored) = tee(&["ab", "cde", "f", "g", "h"], Ok(()), 4);
        turns().await;
        assert_eq!(stored.take(), Some(Err(Refusal::TooLarge)));
        // The rest is read at the client's pace.
        let Body::Stream(stream) = &body else { panic!() };
        assert_eq!(stream.len(), None);
        assert_eq!(read(&mut body).await.unwrap(), "abcdefgh");
    });
    run(async {
        let (body, stored) = tee(&["ab", "cde", "f"], Ok(()), 4);
        turns().await;
        drop(body);
        turns().await;
        assert_eq!(stored.take(), Some(Err(Refusal::TooLarge)));
    });
}

#[test]
fn a_body_that_fails_is_cut_for_the_client_and_not_stored() {
    run(async {
        let (mut body, stored) = tee(&["ab"], Err(io::ErrorKind::ConnectionReset.into()), 9);
        assert_eq!(read(&mut body).await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
        assert_eq!(stored.take(), Some(Err(Refusal::Incomplete)));
    });
}

#[test]
fn a_client_whose_rest_cannot_be_kept_is_cut_off_and_the_body_is_stored() {
    run(async {
        let stored = Stored::default();
        let own = Rc::clone(&stored);
        const PART: &str = concat!("0123456789abcdef", "0123456789abcdef");
        let stream = Pieces([PART; 9000].into(), Ok(()), false, false);
        let done: Done = Box::new(move |body| own.set(Some(body)));
        let directory = Path::new("/nonexistent").into();
        let body = Body::Stream(Box::new(stream));
        let mut body = super::collect(body, 1 << 20, Owner::default(), &directory, done);
        turns().await;
        let first = poll_fn(|cx| match &mut body {
            Body::Stream(stream) => stream.poll_next(cx),
            other => panic!("{other:?}"),
        });
        assert!(first.await.unwrap().is_ok());
        while stored
            .take()
            .inspect(|body| assert!(body.as_ref().unwrap().len() == 32 * 9000))
            .is_none()
        {
            yield_now().await;
        }
        assert!(read(&mut body).await.is_err());
    });
}

#[test]
fn bytes_are_stored_at_once_and_in_memory_of_their_own() {
    let stored = Stored::default();
    let own = Rc::clone(&stored);
    let bytes = Bytes::from("x".repeat(1000)).slice(1..3);
    let body = collect(Body::Bytes(bytes), 5, Box::new(move |body| own.set(Some(body))));
    assert_eq!(body.len(), Some(2));
    assert_eq!(stored.take(), Some(Ok(Bytes::from("xx"))));
    let own = Rc::clone(&stored);
    collect(Body::from("abcdef"), 5, Box::new(move |body| own.set(Some(body))));
    assert_eq!(stored.take(), Some(Err(Refusal::TooLarge)));
}

#[test]
fn a_body_that_an_error_has_cut_is_sent_to_its_end_but_not_stored() {
    run(async {
        let stored = Stored::default();
        let own = Rc::clone(&stored);
        let stream = Pieces(["ab", "c"].into(), Ok(()), false, true);
        let done: Done = Box::new(move |body| own.set(Some(body)));
        let mut body = collect(Body::Stream(Box::new(stream)), 9, done);
        assert_eq!(read(&mut body).await.unwrap(), "abc");
        assert_eq!(stored.take(), Some(Err(Refusal::Failed)));
        // Another cache in front learns of it as well.
        assert!(body.is_cut());
    });
}
