//! Tasks that answer the requests of a connection. A request that need not wait for anything, as
//! for most files, is answered at once: a task costs as much as a short response.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::task::JoinSet;

/// Result of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamEnd {
    /// The response was sent.
    Answered,
    /// The client reset the stream or made a mistake before that.
    Abandoned,
    /// There was no memory for it.
    Refused,
}

/// The requests of a connection that are being answered. `F` is the future that answers one.
pub(crate) struct StreamTasks<F> {
    /// Futures that wait for something.
    tasks: JoinSet<StreamEnd>,
    /// Results of futures that were ready at once.
    ended: Vec<StreamEnd>,
    /// Memory for the next future.
    spare: Option<Pin<Box<Option<F>>>>,
}

impl<F> Default for StreamTasks<F> {
    fn default() -> Self {
        StreamTasks { tasks: JoinSet::new(), ended: Vec::new(), spare: None }
    }
}

impl<F: Future<Output = StreamEnd> + 'static> StreamTasks<F> {
    /// Polls a future once, and spawns a task for it if it is not ready. Each turn of the task
    /// begins with a call of `begin_turn`.
    pub fn start(&mut self, answer: F, begin_turn: impl Fn() + 'static, cx: &mut Context<'_>) {
        let mut future = self.spare.take().unwrap_or_else(|| Box::pin(None));
        future.set(Some(answer));
        if let Poll::Ready(end) = poll(&mut future, cx) {
            future.set(None);
            self.spare = Some(future);
            self.ended.push(end);
        } else {
            self.tasks.spawn_local(poll_fn(move |cx| {
                begin_turn();
                poll(&mut future, cx)
            }));
        }
    }

    /// Frees the memory for the next future, which may come much later.
    pub fn free_spare(&mut self) {
        self.spare = None;
    }

    /// Returns the result of a future that has ended.
    pub fn poll_ended(&mut self, cx: &mut Context<'_>) -> Option<StreamEnd> {
        if let Some(end) = self.ended.pop() {
            return Some(end);
        }
        match self.tasks.poll_join_next(cx) {
            Poll::Ready(Some(end)) => Some(end.unwrap_or(StreamEnd::Abandoned)),
            _ => None,
        }
    }

    /// Returns the number of tasks.
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Returns true if there is no task.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Lets the tasks run to their end without the connection.
    pub fn detach(mut self) {
        self.tasks.detach_all();
    }
}

fn poll<F: Future<Output = StreamEnd>>(
    future: &mut Pin<Box<Option<F>>>,
    cx: &mut Context<'_>,
) -> Poll<StreamEnd> {
    match future.as_mut().as_pin_mut() {
        Some(future) => future.poll(cx),
        None => Poll::Ready(StreamEnd::Abandoned),
    }
}
