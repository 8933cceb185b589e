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

use howdah_http::timer::Timer;
use howdah_sys::log::{Level, Log};
use tokio::time::Instant;

use crate::connections::backlog::Lines;
use crate::connections::connection::{Connection, Place};
use crate::log_limit::LogLimit;
use crate::script_cache::Scripts;
use crate::servers::balance::{Candidate, Choice, choose};
use crate::servers::round_robin::Balance;
use crate::servers::upstream::Upstream;

/// How often idle connections are looked at.
const SWEEP: Duration = Duration::from_secs(1);
/// Timers that are kept.
const MOST_TIMERS: usize = 64;

/// Upstreams on one thread.
#[derive(Debug)]
pub struct ProxyThread {
    log: Arc<Log>,
    /// By the upstream, whose memory no other has as long as this knows of it.
    turns: RefCell<HashMap<*const Upstream, Turns>>,
    idle: RefCell<HashMap<Place, Vec<Idle>>>,
    /// Timers of conversations that are over. One that runs already costs nothing to take up again.
    timers: RefCell<Vec<Timer>>,
    lines: Lines,
    scripts: Scripts,
    random: Cell<u64>,
    /// A task looks after the idle connections.
    sweeping: Cell<bool>,
    /// A server was asked since it looked.
    asked: Cell<bool>,
}

/// The turns of an upstream.
#[derive(Debug)]
struct Turns {
    upstream: ArcWeak<Upstream>,
    balance: Balance,
}

#[derive(Debug)]
struct Idle {
    stream: Connection,
    until: Instant,
}

impl ProxyThread {
    /// Knows no upstream yet.
    pub fn new(log: Arc<Log>) -> Rc<Self> {
        // Threads that start at the same moment have different addresses of their stacks.
        let seed = std::ptr::from_ref(&log) as u64 ^ u64::from(std::process::id()) << 32;
        Rc::new(ProxyThread {
            log,
            turns: RefCell::default(),
            idle: RefCell::default(),
            timers: RefCell::default(),
            lines: Lines::default(),
            scripts: Scripts::default(),
            random: Cell::new(seed),
            sweeping: Cell::new(false),
            asked: Cell::new(false),
        })
    }

    /// Reports what went wrong with an upstream, unless that has brought too much into the log.
    pub fn complain(&self, limit: &LogLimit, message: std::fmt::Arguments<'_>) {
        limit.write_or_count(&self.log, Level::Error, message);
    }

    /// Reports what is not a request's failure, likewise.
    pub fn note(&self, limit: &LogLimit, message: std::fmt::Arguments<'_>) {
        limit.write_or_count(&self.log, Level::Notice, message);
    }

    /// Where it reports.
    pub fn log(&self) -> &Arc<Log> {
        &self.log
    }

    /// Chooses among the servers of an upstream.
    pub fn choose(&self, upstream: &Arc<Upstream>, candidates: &[Candidate]) -> Choice {
        let mut turns = self.turns.borrow_mut();
        let key = Arc::as_ptr(upstream);
        if !turns.contains_key(&key) {
            turns.retain(|_, turns| turns.upstream.strong_count() > 0);
            let balance = Balance::new(candidates.iter().map(|candidate| candidate.weight));
            turns.insert(key, Turns { upstream: Arc::downgrade(upstream), balance });
        }
        let Some(turns) = turns.get_mut(&key) else { return Choice::None };
        choose(candidates, upstream.method(&mut turns.balance, || self.random()))
    }

    /// A number that is different each time (SplitMix64); nothing depends on its being secret.
    pub fn random(&self) -> u64 {
        let seed = self.random.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.random.set(seed);
        let mixed = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A timer for a conversation.
    pub fn timer(&self) -> Timer {
        self.timers.borrow_mut().pop().unwrap_or_default()
    }

    /// Takes the timer of a conversation that is over.
    pub fn return_timer(&self, timer: Timer) {
        let mut timers = self.timers.borrow_mut();
        if timers.len() < MOST_TIMERS {
            timers.push(timer);
        }
    }

    /// Requests that wait for room in a server's backlog.
    pub fn lines(&self) -> &Lines {
        &self.lines
    }

    /// Scripts of FastCGI servers that are there.
    pub fn scripts(&self) -> &Scripts {
        &self.scripts
    }

    /// An idle connection to a server, if there is one.
    pub fn take(&self, place: &Place) -> Option<Connection> {
        let mut idle = self.idle.borrow_mut();
        let list = idle.get_mut(place)?;
        // The last one that was used is the least likely to be closed just now.
        while let Some(Idle { mut stream, until }) = list.pop() {
            if Instant::now() < until && stream.is_quiet() {
                return Some(stream);
            }
        }
        None
    }

    /// Keeps a connection on which a response has ended, for some time; at most `most` to the same
    /// server.
    pub fn keep(self: &Rc<Self>, place: &Place, stream: Connection, most: usize, time: Duration) {
        if most == 0 {
            return;
        }
        let mut idle = self.idle.borrow_mut();
        let list = idle.entry(place.clone()).or_default();
        if list.len() >= most {
            list.drain(..=list.len() - most); // the oldest
        }
        list.push(Idle { stream, until: Instant::now() + time });
        self.start_sweeping();
    }

    /// A server is about to be asked. While servers are, some timer always ends within a second:
    /// for each that is set for later, as for an answer, the runtime need not wake itself.
    pub fn asks(self: &Rc<Self>) {
        self.asked.set(true);
        self.start_sweeping();
    }

    fn start_sweeping(self: &Rc<Self>) {
        if !self.sweeping.replace(true) {
            tokio::task::spawn_local(sweep(Rc::downgrade(self)));
        }
    }

    /// Closes connections that cannot be used. Whether to look again.
    fn sweep(&self) -> bool {
        let now = Instant::now();
        let mut idle = self.idle.borrow_mut();
        idle.retain(|_, list| {
            list.retain_mut(|idle| now < idle.until && idle.stream.is_quiet());
            !list.is_empty()
        });
        self.asked.replace(false) || !idle.is_empty()
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
