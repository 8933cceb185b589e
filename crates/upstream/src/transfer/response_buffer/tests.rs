use std::collections::VecDeque;
use std::future::poll_fn;

use tokio::task::{LocalSet, yield_now};

use super::*;

/// A response with these parts; it ends completely, or is cut off.
struct Parts {
    parts: VecDeque<Bytes>,
    length: Option<u64>,
    /// Each part arrives separately.
    one_by_one: bool,
    came: bool,
    cut: bool,
    taken: Rc<RefCell<usize>>,
    problem: Rc<RefCell<String>>,
}

impl Parts {
    fn new(parts: impl IntoIterator<Item = Vec<u8>>, length: Option<u64>) -> Self {
        let parts = parts.into_iter().map(Bytes::from).collect();
        let (taken, problem) = Default::default();
        Parts { parts, length, one_by_one: false, came: false, cut: false, taken, problem }
    }
}

impl BodyStream for Parts {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if self.one_by_one && std::mem::replace(&mut self.came, false) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.came = true;
        *self.taken.borrow_mut() += 1;
        match self.parts.pop_front() {
            Some(part) => Poll::Ready(Some(Ok(part))),
            None if std::mem::take(&mut self.cut) => {
                Poll::Ready(Some(Err(io::Error::other("cut"))))
            }
            None => Poll::Ready(None),
        }
    }

    fn len(&self) -> Option<u64> {
        self.length
    }
}

impl Abandon for Parts {
    fn abandon(&mut self, problem: fmt::Arguments<'_>) {
        *self.problem.borrow_mut() = problem.to_string();
    }
}

fn with<F: Future<Output = ()>>(test: impl FnOnce(tempfile::TempDir) -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let directory = tempfile::tempdir().unwrap();
    LocalSet::new().block_on(&runtime, async { test(directory).await });
}

async fn all(body: Body) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    match body {
        Body::Stream(mut stream) => {
            while let Some(bytes) = poll_fn(|cx| stream.poll_next(cx)).await {
                all.extend_from_slice(&bytes?);
            }
        }
        Body::Bytes(bytes) => all.extend_from_slice(&bytes),
        _ => {}
    }
    Ok(all)
}

fn parts() -> Vec<Vec<u8>> {
    (0..100u8).map(|n| vec![n; 9000]).collect()
}

#[test]
fn an_answer_is_taken_to_its_end_though_nobody_reads_it() {
    with(|directory| async move {
        let mut answer = Parts::new(parts(), Some(900_000));
        answer.one_by_one = true;
        let taken = Rc::clone(&answer.taken);
        let body = buffer(answer, directory.path(), &Owner::default());
        while *taken.borrow() < 101 {
            yield_now().await;
        }
        assert_eq!(body.len(), Some(900_000));
        assert!(all(body).await.unwrap() == parts().concat());
    });
}

#[test]
fn an_answer_that_is_there_is_one_piece() {
    with(|directory| async move {
        let body = buffer(
            Parts::new([vec![1; 10], vec![2; 10]], None),
            directory.path(),
            &Owner::default(),
        );
        assert!(matches!(&body, Body::Bytes(bytes) if bytes.len() == 20), "{body:?}");
        // A body with another length than announced is not complete.
        let body = buffer(Parts::new([vec![1; 10]], Some(20)), directory.path(), &Owner::default());
        assert!(matches!(body, Body::Stream(_)) && body.len() == Some(20));
        assert_eq!(all(body).await.unwrap(), [1; 10]);
    });
}

#[test]
fn what_came_before_a_cut_is_the_clients() {
    with(|directory| async move {
        let mut answer = Parts::new(parts(), None);
        answer.cut = true;
        let Body::Stream(mut stream) = buffer(answer, directory.path(), &Owner::default()) else {
            panic!()
        };
        let mut got = 0;
        let end = loop {
            match poll_fn(|cx| stream.poll_next(cx)).await {
                Some(Ok(bytes)) => got += bytes.len(),
                end => break end,
            }
        };
        assert_eq!(got, 900_000);
        assert!(matches!(end, Some(Err(_))));
    });
}

#[test]
fn a_full_disk_ends_an_answer_and_its_server_is_told() {
    with(|_| async move {
        let answer = Parts::new(parts(), None);
        let problem = Rc::clone(&answer.problem);
        let body = buffer(answer, Path::new("/nonexistent"), &Owner::default());
        assert!(problem.borrow().contains("cannot be stored"), "{}", problem.borrow());
        assert!(all(body).await.is_err());
    });
}

#[test]
fn an_answer_that_nobody_waits_for_is_not_taken_on() {
    with(|directory| async move {
        let mut answer = Parts::new(parts(), None);
        answer.one_by_one = true;
        let taken = Rc::clone(&answer.taken);
        drop(buffer(answer, directory.path(), &Owner::default()));
        for _ in 0..1000 {
            yield_now().await;
        }
        assert_eq!(*taken.borrow(), 1);
        assert_eq!(Rc::strong_count(&taken), 1, "the answer is gone");
    });
}

#[test]
fn an_answer_may_say_how_it_is_taken() {
    with(|directory| async move {
        for (setting, says, buffered) in [
            (true, "", true),
            (true, "no", false),
            (true, "No", false),
            (false, "", false),
            (false, "yes", true),
            (false, "x", false),
        ] {
            let mut fields = FieldBlock::default();
            if !says.is_empty() {
                fields.push("X-Accel-Buffering", says);
            }
            let taking = ResponseBuffering {
                is_on: setting,
                directory: directory.path(),
                owner: &Owner::default(),
            };
            let body = taking.body(Parts::new([vec![1]], None), &fields);
            assert_eq!(matches!(body, Body::Bytes(_)), buffered, "{setting} {says}");
        }
    });
}

#[test]
fn of_short_pieces_few_are_taken_at_once_and_they_leave_together() {
    with(|directory| async move {
        let pieces = 100 * MAX_TURN_PIECES;
        let answer = Parts::new((0..pieces).map(|n| vec![n as u8]), None);
        let taken = Rc::clone(&answer.taken);
        let spool = Spool::new(directory.path().into());
        let store = Store::new(spool);
        let store = Rc::new(RefCell::new(store));
        let mut reader = Reader { answer, store: Rc::clone(&store) };
        let (mut before, mut cx) = (0, Context::from_waker(Waker::noop()));
        while reader.poll(&mut cx).is_pending() {
            let now = *taken.borrow();
            assert!(now - before <= MAX_TURN_PIECES, "{before} {now}");
            before = now;
        }
        let mut stream = Buffered { store, remaining: None, task: None };
        let mut got = Vec::new();
        while let Some(bytes) = poll_fn(|cx| stream.poll_next(cx)).await {
            got.push(bytes.unwrap());
        }
        assert!(got.len() <= 4, "{} pieces", got.len());
        assert!(got.concat() == (0..pieces).map(|n| n as u8).collect::<Vec<_>>());
    });
}

#[test]
fn of_long_pieces_some_are_taken_in_a_turn() {
    with(|directory| async move {
        const LENGTH: usize = 64 << 10;
        let answer = Parts::new((0..100).map(|_| vec![7; LENGTH]), None);
        let taken = Rc::clone(&answer.taken);
        let store = Rc::new(RefCell::new(Store::new(Spool::new(directory.path().into()))));
        let mut reader = Reader { answer, store };
        let (mut before, mut cx) = (0, Context::from_waker(Waker::noop()));
        while reader.poll(&mut cx).is_pending() {
            let now = *taken.borrow();
            assert!((now - before) * LENGTH <= TURN_BYTES, "{before} {now}");
            before = now;
        }
    });
}
