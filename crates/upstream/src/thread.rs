//! State of one router thread for requests to other servers.
//!
//! Threads do not share this state, so that no request waits for another thread.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use howdah_http::timer::Timer;
use howdah_sys::log::{Level, Log};

use crate::connections::backlog::BacklogQueues;
use crate::connections::connection::Connection;
use crate::connections::http2_pool::{Http2Connection, Http2Pool};
use crate::connections::idle_pool::{IdlePool, PoolKey};
use crate::log_limit::LogLimit;
use crate::script_cache::ScriptCache;
use crate::servers::selector::Selector;
use crate::servers::upstream::Upstream;

/// Interval at which unusable idle connections are closed.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of timers that are kept.
const MAX_TIMERS: usize = 64;

/// Log, server selection, idle connections, timers and caches of one thread.
#[derive(Debug)]
pub struct UpstreamThread {
    log: Arc<Log>,
    selector: Selector<Upstream>,
    idle: IdlePool,
    http2: Http2Pool,
    /// Timers of finished conversations. Reusing a running timer is free.
    timers: RefCell<Vec<Timer>>,
    backlog: BacklogQueues,
    scripts: ScriptCache,
    /// A task closes unusable idle connections.
    is_sweeping: Cell<bool>,
    /// [`UpstreamThread::keep_awake`] was called since that task last ran.
    is_active: Cell<bool>,
}

impl UpstreamThread {
    /// Creates the state of a thread that writes to this log.
    pub fn new(log: Arc<Log>) -> Rc<Self> {
        // Threads that start at the same moment differ in the addresses of their stacks.
        let seed = std::ptr::from_ref(&log) as u64 ^ u64::from(std::process::id()) << 32;
        Rc::new(UpstreamThread {
            log,
            selector: Selector::new(seed),
            idle: IdlePool::default(),
            http2: Http2Pool::default(),
            timers: RefCell::default(),
            backlog: BacklogQueues::default(),
            scripts: ScriptCache::default(),
            is_sweeping: Cell::new(false),
            is_active: Cell::new(false),
        })
    }

    /// Logs an error, within the limit of its site or upstream.
    pub fn log_error(&self, limit: &LogLimit, message: std::fmt::Arguments<'_>) {
        limit.write_or_count(&self.log, Level::Error, message);
    }

    /// Logs a notice, within the limit of its site or upstream.
    pub fn log_notice(&self, limit: &LogLimit, message: std::fmt::Arguments<'_>) {
        limit.write_or_count(&self.log, Level::Notice, message);
    }

    /// Returns the log.
    pub fn log(&self) -> &Arc<Log> {
        &self.log
    }

    /// Returns the state for the choice of servers.
    pub fn selector(&self) -> &Selector<Upstream> {
        &self.selector
    }

    /// Returns the queues of requests that wait for room in the backlog of a FastCGI server.
    pub fn backlog(&self) -> &BacklogQueues {
        &self.backlog
    }

    /// Returns the cache of script files that exist on the disk.
    pub fn scripts(&self) -> &ScriptCache {
        &self.scripts
    }

    /// Returns a timer; reuses one of a finished conversation if there is any.
    pub fn timer(&self) -> Timer {
        self.timers.borrow_mut().pop().unwrap_or_default()
    }

    /// Keeps the timer of a finished conversation.
    pub fn return_timer(&self, timer: Timer) {
        let mut timers = self.timers.borrow_mut();
        if timers.len() < MAX_TIMERS {
            timers.push(timer);
        }
    }

    /// Takes an idle HTTP connection to a server, if there is a usable one.
    pub fn take_idle(&self, key: &PoolKey) -> Option<Connection> {
        self.idle.take(key)
    }

    /// Keeps an HTTP connection whose response is complete; see [`IdlePool::put`].
    pub fn put_idle(
        self: &Rc<Self>,
        key: &PoolKey,
        stream: Connection,
        max: usize,
        time: Duration,
    ) {
        self.idle.put(key, stream, max, time);
        self.start_sweeping();
    }

    /// Returns the HTTP/2 connections.
    pub fn http2(&self) -> &Http2Pool {
        &self.http2
    }

    /// Keeps a new HTTP/2 connection for further requests.
    pub fn put_http2(self: &Rc<Self>, key: &PoolKey, connection: Http2Connection) {
        self.http2.put(key, connection);
        self.start_sweeping();
    }

    /// Keeps a timer running that ends within a second. Then the runtime need not wake itself for
    /// each timer that is set for later, such as the timeout of a response.
    pub fn keep_awake(self: &Rc<Self>) {
        self.is_active.set(true);
        self.start_sweeping();
    }

    fn start_sweeping(self: &Rc<Self>) {
        if !self.is_sweeping.replace(true) {
            tokio::task::spawn_local(sweep(Rc::downgrade(self)));
        }
    }

    /// Closes unusable idle connections. Returns true if it must run again.
    fn sweep(&self) -> bool {
        let (has_idle, has_http2) = (self.idle.close_unusable(), self.http2.close_unusable());
        self.is_active.replace(false) || has_idle || has_http2
    }
}

/// Closes unusable idle connections while there are any.
async fn sweep(thread: Weak<UpstreamThread>) {
    loop {
        tokio::time::sleep(SWEEP_INTERVAL).await;
        let Some(thread) = thread.upgrade() else { return };
        if !thread.sweep() {
            thread.is_sweeping.set(false);
            return;
        }
    }
}
