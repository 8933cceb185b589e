//! The answers to the requests of a connection: given at once where nothing has to be waited for, as
//! for most files, and otherwise by tasks of their own. A task costs as much as a small answer.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::task::JoinSet;

use super::stream::Ended;

/// See the module. `F` gives one answer.
pub(super) struct Answers<F> {
    /// Those that wait for something.
    tasks: JoinSet<Ended>,
    /// How those ended that had not to wait.
    ended: Vec<Ended>,
    /// Room for the next one.
    room: Option<Pin<Box<Option<F>>>>,
}

impl<F> Default for Answers<F> {
    fn default() -> Self {
        Answers { tasks: JoinSet::new(), ended: Vec::new(), room: None }
    }
}

impl<F: Future<Output = Ended> + 'static> Answers<F> {
    /// Begins an answer.
    pub fn begin(&mut self, answer: F, cx: &mut Context<'_>) {
        let mut room = self.room.take().unwrap_or_else(|| Box::pin(None));
        room.set(Some(answer));
        if let Poll::Ready(ended) = poll(&mut room, cx) {
            room.set(None);
            self.room = Some(room);
            self.ended.push(ended);
        } else {
            self.tasks.spawn_local(async move { poll_fn(|cx| poll(&mut room, cx)).await });
        }
    }

    /// Keeps nothing that the next answers could use, as they may be long in coming.
    pub fn rest(&mut self) {
        self.room = None;
    }

    /// One that has ended.
    pub fn poll_ended(&mut self, cx: &mut Context<'_>) -> Option<Ended> {
        if let Some(ended) = self.ended.pop() {
            return Some(ended);
        }
        match self.tasks.poll_join_next(cx) {
            Poll::Ready(Some(ended)) => Some(ended.unwrap_or(Ended::GivenUp)),
            _ => None,
        }
    }

    /// How many there are that have not ended.
    pub fn waiting(&self) -> usize {
        self.tasks.len()
    }

    /// Whether all have ended.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Has those that wait go on by themselves.
    pub fn detach(mut self) {
        self.tasks.detach_all();
    }
}

fn poll<F: Future<Output = Ended>>(
    answer: &mut Pin<Box<Option<F>>>,
    cx: &mut Context<'_>,
) -> Poll<Ended> {
    match answer.as_mut().as_pin_mut() {
        Some(answer) => answer.poll(cx),
        None => Poll::Ready(Ended::GivenUp),
    }
}
