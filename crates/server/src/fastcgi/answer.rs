//! The body of an answer: taken as fast as the server writes it, sent at the client's pace.

use std::cell::RefCell;
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use tokio::task::{AbortHandle, spawn_local};

use super::conversation::{Conversation, Part};
use super::{Attempt, Right};
use crate::body::{Body, BodyStream};
use crate::php::pending::MAX_WAITING;
use crate::php::spool::Spool;
use crate::proxy::thread::ProxyThread;

/// What lives as long as an answer is read.
pub struct Home {
    /// The thread's connections.
    pub thread: Rc<ProxyThread>,
    /// Whose answer it is; for the log.
    pub attempt: Attempt,
    /// The right to the connection.
    pub _right: Right,
}

/// What has come and is not sent yet.
struct Store {
    spool: Spool,
    end: Option<Result<(), &'static str>>,
    /// Who waits for more.
    client: Option<Waker>,
    /// Who waits for room.
    server: Option<Waker>,
}

/// The body of an answer whose head has come, together with `rest` of the body. `length` is what
/// the script has announced.
pub fn body(
    conversation: Conversation,
    rest: Bytes,
    length: Option<u64>,
    home: Home,
    spool: &Arc<Path>,
) -> Body {
    let mut spool = Spool::new(Arc::clone(spool));
    let kept = spool.push(rest);
    let store = Store { spool, end: None, client: None, server: None };
    let store = Rc::new(RefCell::new(store));
    let mut reader = Reader { active: Some((conversation, home)), store: Rc::clone(&store) };
    if let Err(error) = kept {
        reader.fail(&format!("the answer cannot be kept: {error}"));
    }
    // Most answers are there with their head.
    let mut cx = Context::from_waker(Waker::noop());
    let task = match reader.poll(&mut cx) {
        Poll::Ready(()) => None,
        Poll::Pending => Some(
            spawn_local(async move { std::future::poll_fn(|cx| reader.poll(cx)).await })
                .abort_handle(),
        ),
    };
    let whole = match &mut *store.borrow_mut() {
        Store { end: Some(Ok(())), spool, .. } => spool.take_all(),
        _ => None,
    };
    match whole {
        Some(bytes) if length.is_none_or(|length| length == bytes.len() as u64) => bytes.into(),
        // Another length than was announced: what is too much is cut, and if it is too little the
        // connection ends, so that nobody takes a part for the whole.
        whole => {
            if let Some(bytes) = whole {
                let _ = store.borrow_mut().spool.push(bytes); // one piece stays in memory
            }
            Body::Stream(Box::new(AnswerBody { store, remaining: length, task }))
        }
    }
}

/// Takes the answer from the server.
struct Reader {
    /// `None` after the end.
    active: Option<(Conversation, Home)>,
    store: Rc<RefCell<Store>>,
}

impl Reader {
    /// Ready when the answer is over.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let Some((conversation, home)) = &mut self.active else { return Poll::Ready(()) };
            {
                let mut store = self.store.borrow_mut();
                if store.spool.len() >= MAX_WAITING {
                    store.server = Some(cx.waker().clone());
                    return Poll::Pending;
                }
            }
            match conversation.poll_part(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(Part::Output(bytes))) => {
                    let mut store = self.store.borrow_mut();
                    let kept = store.spool.push(bytes);
                    store.wake();
                    drop(store);
                    if let Err(error) = kept {
                        self.fail(&format!("the answer cannot be kept: {error}"));
                    }
                }
                Poll::Ready(Ok(Part::Log(message))) => home.attempt.log(&home.thread, &message),
                Poll::Ready(Ok(Part::End)) => {
                    self.take_back();
                    self.end(Ok(()));
                }
                Poll::Ready(Err(failure)) => self.fail(&failure.to_string()),
            }
        }
    }

    /// The answer has ended well: the connection may serve again.
    fn take_back(&mut self) {
        let Some((conversation, home)) = self.active.take() else { return };
        let Attempt { site, server, .. } = &home.attempt;
        if site.keeps
            && let Some(stream) = conversation.into_idle()
        {
            site.keep(*server, stream);
        }
    }

    /// The answer has ended badly: the connection is closed, and the client's will be cut.
    fn fail(&mut self, problem: &str) {
        if let Some((_, home)) = self.active.take() {
            let attempt = &home.attempt;
            home.thread.complain(format_args!("{attempt}: {problem}"));
        }
        self.end(Err("the answer of the FastCGI server was cut"));
    }

    fn end(&self, end: Result<(), &'static str>) {
        let mut store = self.store.borrow_mut();
        store.end.get_or_insert(end);
        store.wake();
    }
}

impl Store {
    fn wake(&mut self) {
        if let Some(waker) = self.client.take() {
            waker.wake();
        }
    }
}

/// What the client is sent.
struct AnswerBody {
    store: Rc<RefCell<Store>>,
    remaining: Option<u64>,
    task: Option<AbortHandle>,
}

impl BodyStream for AnswerBody {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        let store = &mut *self.store.borrow_mut();
        match store.spool.pop() {
            Ok(Some(bytes)) => {
                if let Some(waker) = store.server.take() {
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
            Some(Err(problem)) => Poll::Ready(Some(Err(io::Error::other(problem)))),
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

impl Drop for AnswerBody {
    /// The client has left: the server is told by the end of the connection.
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}
