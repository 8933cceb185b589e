//! What a router thread knows of upstreams: whose turn it is, and which connections are idle.
//!
//! Threads share nothing, so that a request waits for no other thread. A connection is kept only
//! for a while and only a number of them per server; one that the server has closed, or on which
//! something came that nobody asked for, is never used again.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::{Rc, Weak};
use std::sync::{Arc, Weak as ArcWeak};
use std::time::Duration;

use howdah_config::Address;
use howdah_sys::log::{Level, Log};
use tokio::time::Instant;

use super::Timeouts;
use super::balance::Balance;
use super::transport::Stream;
use super::upstream::Upstream;

/// How often idle connections are looked at.
const SWEEP: Duration = Duration::from_secs(1);

/// Upstreams on one thread.
#[derive(Debug)]
pub struct ProxyThread {
    log: Arc<Log>,
    timeouts: Timeouts,
    turns: RefCell<HashMap<Box<str>, Turns>>,
    idle: RefCell<HashMap<Address, Vec<Idle>>>,
    /// A task looks after the idle connections.
    sweeping: Cell<bool>,
}

/// The turns of an upstream of one configuration.
#[derive(Debug)]
struct Turns {
    upstream: ArcWeak<Upstream>,
    balance: Balance,
}

#[derive(Debug)]
struct Idle {
    stream: Stream,
    since: Instant,
}

impl ProxyThread {
    /// Knows no upstream yet.
    pub fn new(log: Arc<Log>, timeouts: Timeouts) -> Rc<Self> {
        Rc::new(ProxyThread {
            log,
            timeouts,
            turns: RefCell::default(),
            idle: RefCell::default(),
            sweeping: Cell::new(false),
        })
    }

    /// Reports what went wrong with an upstream.
    pub fn complain(&self, message: std::fmt::Arguments<'_>) {
        self.log.write(Level::Error, message);
    }

    /// How long to wait for upstreams.
    pub fn timeouts(&self) -> &Timeouts {
        &self.timeouts
    }

    /// The server whose turn it is, but for those that were `tried`.
    pub fn next_server(&self, upstream: &Arc<Upstream>, tried: &[usize]) -> Option<usize> {
        if let [_] = &*upstream.servers
            && upstream.servers.iter().all(|server| server.weight > 0.0)
        {
            return tried.is_empty().then_some(0);
        }
        let mut turns = self.turns.borrow_mut();
        let known = turns.get(&upstream.name);
        if !known.is_some_and(|known| std::ptr::eq(known.upstream.as_ptr(), Arc::as_ptr(upstream)))
        {
            turns.retain(|_, turns| turns.upstream.strong_count() > 0);
            let balance = Balance::new(upstream.servers.iter().map(|server| server.weight));
            let fresh = Turns { upstream: Arc::downgrade(upstream), balance };
            turns.insert(upstream.name.clone(), fresh);
        }
        turns.get_mut(&upstream.name)?.balance.next(tried)
    }

    /// An idle connection to a server, if there is one.
    pub fn take(&self, address: &Address) -> Option<Stream> {
        let mut idle = self.idle.borrow_mut();
        let list = idle.get_mut(address)?;
        // The last one that was used is the least likely to be closed just now.
        while let Some(Idle { stream, since }) = list.pop() {
            if since.elapsed() < self.timeouts.idle && stream.is_quiet() {
                return Some(stream);
            }
        }
        None
    }

    /// Keeps a connection on which a response has ended; at most `most` to the same server.
    pub fn keep(self: &Rc<Self>, address: &Address, stream: Stream, most: usize) {
        if most == 0 {
            return;
        }
        let mut idle = self.idle.borrow_mut();
        let list = idle.entry(address.clone()).or_default();
        if list.len() >= most {
            list.drain(..=list.len() - most); // the oldest
        }
        list.push(Idle { stream, since: Instant::now() });
        if !self.sweeping.replace(true) {
            tokio::task::spawn_local(sweep(Rc::downgrade(self)));
        }
    }

    /// Closes connections that cannot be used. Whether some are left.
    fn sweep(&self) -> bool {
        let mut idle = self.idle.borrow_mut();
        idle.retain(|_, list| {
            list.retain(|idle| idle.since.elapsed() < self.timeouts.idle && idle.stream.is_quiet());
            !list.is_empty()
        });
        !idle.is_empty()
    }
}

/// Lets go of what servers have closed, for as long as there are idle connections.
async fn sweep(thread: Weak<ProxyThread>) {
    loop {
        tokio::time::sleep(SWEEP).await;
        let Some(thread) = thread.upgrade() else { return };
        if !thread.sweep() {
            thread.sweeping.set(false);
            return;
        }
    }
}
