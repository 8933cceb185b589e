//! Turns of look-ups: a maximum number at once, of which each site has a share.
//!
//! 1. A site may use as many turns as are free beside it, and always one. So one site alone has
//!    half of them, a second one a quarter, and names whose servers do not answer delay the
//!    look-ups of their own site only.
//! 2. A turn that ends goes to the waiting site that uses the fewest, and there to the look-up that
//!    waits longest.

use std::collections::{BTreeMap, VecDeque};
use std::mem::ManuallyDrop;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// For whom a look-up is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Asker {
    /// The server itself.
    Server,
    /// A site with `.htaccess` files, by its number.
    Htaccess(u64),
    /// The application, share, upstream or listener that has a limit.
    Limit(Option<Arc<str>>),
    /// A proxy of mail.
    Mail(Arc<str>),
}

/// The turns of all look-ups.
#[derive(Debug)]
pub(super) struct Turns {
    max: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    used: usize,
    askers: BTreeMap<Asker, Share>,
}

/// The share of an asker.
#[derive(Debug, Default)]
struct Share {
    used: usize,
    waiting: VecDeque<oneshot::Sender<Turn>>,
}

/// A turn, until dropped.
#[derive(Debug)]
pub(super) struct Turn {
    turns: &'static Turns,
    asker: Asker,
}

impl Turns {
    pub(super) const fn new(max: usize) -> Turns {
        Turns { max, state: Mutex::new(State { used: 0, askers: BTreeMap::new() }) }
    }

    /// Waits for a turn.
    pub(super) async fn wait(&'static self, asker: Asker) -> Option<Turn> {
        let (sender, receiver) = oneshot::channel();
        {
            let mut state = self.lock();
            let share = state.askers.entry(asker).or_default();
            share.leave_out_closed();
            share.waiting.push_back(sender);
            self.grant(&mut state);
        }
        receiver.await.ok()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Grants the free turns.
    fn grant(&'static self, state: &mut State) {
        while state.used < self.max {
            let free = self.max - state.used;
            let next = state.askers.iter_mut().filter_map(|(asker, share)| {
                share.leave_out_closed();
                let may = !share.waiting.is_empty() && (share.used == 0 || share.used < free);
                may.then_some((share.used, asker, share))
            });
            let Some((_, asker, share)) = next.min_by_key(|(used, ..)| *used) else { break };
            let Some(sender) = share.waiting.pop_front() else { break };
            let turn = Turn { turns: self, asker: asker.clone() };
            match sender.send(turn) {
                Ok(()) => {
                    share.used += 1;
                    state.used += 1;
                }
                // The asker has just given up, and its turn was never counted.
                Err(turn) => turn.forget(),
            }
        }
        state.askers.retain(|_, share| share.used > 0 || !share.waiting.is_empty());
    }
}

impl Share {
    /// Removes the first ones that no longer wait; those behind them have waited less.
    fn leave_out_closed(&mut self) {
        while self.waiting.front().is_some_and(oneshot::Sender::is_closed) {
            self.waiting.pop_front();
        }
    }
}

impl Turn {
    /// Drops a turn that does not count.
    fn forget(self) {
        let mut turn = ManuallyDrop::new(self);
        turn.asker = Asker::Server;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.turns.lock();
        if let Some(share) = state.askers.get_mut(&self.asker) {
            share.used -= 1;
            state.used -= 1;
        }
        self.turns.grant(&mut state);
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    type Waiting = Pin<Box<dyn Future<Output = Option<Turn>>>>;

    fn turns(max: usize) -> &'static Turns {
        Box::leak(Box::new(Turns::new(max)))
    }

    fn poll(waiting: &mut Waiting) -> Poll<Option<Turn>> {
        waiting.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    }

    /// Asks `count` times; returns the turns that were granted, and the others.
    fn ask(turns: &'static Turns, site: u64, count: usize) -> (Vec<Turn>, Vec<Waiting>) {
        let (mut granted, mut waiting) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let mut next: Waiting = Box::pin(turns.wait(Asker::Htaccess(site)));
            match poll(&mut next) {
                Poll::Ready(turn) => granted.extend(turn),
                Poll::Pending => waiting.push(next),
            }
        }
        (granted, waiting)
    }

    #[test]
    fn a_site_leaves_others_as_many_turns_as_it_uses() {
        let turns = turns(64);
        let mut all = Vec::new();
        for (site, share) in [32, 16, 8, 4, 2, 1, 1].into_iter().enumerate() {
            let (granted, waiting) = ask(turns, site as u64, 100);
            assert_eq!(granted.len(), share, "site {site}");
            all.push((granted, waiting));
        }
        // All are in use. The next one goes to the site that has none.
        let (granted, mut late) = ask(turns, 99, 2);
        assert!(granted.is_empty());
        all[0].0.pop();
        assert!(matches!(poll(&mut late[0]), Poll::Ready(Some(_))));
        drop((all, late));
        let state = turns.lock();
        assert!(state.used == 0 && state.askers.is_empty(), "{state:?}");
    }

    #[test]
    fn turns_of_look_ups_that_were_given_up_go_to_others() {
        let turns = turns(2);
        let (first, _) = ask(turns, 1, 1);
        let (_second, _) = ask(turns, 2, 1);
        let (_, mut waiting) = ask(turns, 3, 3);
        drop(waiting.remove(0));
        drop(first);
        // The granted turn is given up before it is used.
        drop(waiting.remove(0));
        assert!(matches!(poll(&mut waiting[0]), Poll::Ready(Some(_))));
        assert_eq!(turns.lock().used, 1, "that one is over, too");
    }
}
