//! Counters, and log lines when the server begins or ceases to answer.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use howdah_questions::{ClusterStatus, CountedRequests, SharedPurges};
use howdah_sys::log::{Level, Log};

/// Minimum time between two log lines about purges that were missed.
const MISSED_LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Counters since the configuration named the server, and whether it answers.
#[derive(Debug)]
pub struct State {
    log: Arc<Log>,
    /// Address of the server, for the log.
    address: String,
    /// The last problem was logged, and the server has not answered since.
    is_troubled: AtomicBool,
    /// Requests that were counted by the server.
    pub counted: AtomicU64,
    /// Requests that this server decided alone.
    pub alone: AtomicU64,
    /// Purges that were passed on.
    pub sent: AtomicU64,
    /// Purges of other servers.
    pub received: AtomicU64,
    /// Messages that were no purges, and answers that were none.
    pub invalid: AtomicU64,
    /// Number of times that purges may have been missed.
    pub missed: AtomicU64,
    /// Time of the last log line about that.
    missed_logged_at: Mutex<Option<Instant>>,
}

impl State {
    /// Creates the state of a server that was not asked yet.
    pub fn new(log: Arc<Log>, address: String) -> State {
        State {
            log,
            address,
            is_troubled: AtomicBool::new(false),
            counted: AtomicU64::new(0),
            alone: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            invalid: AtomicU64::new(0),
            missed: AtomicU64::new(0),
            missed_logged_at: Mutex::default(),
        }
    }

    /// Logs the first problem since the server answered last.
    pub fn fails(&self, problem: &str) {
        if !self.is_troubled.swap(true, Relaxed) {
            let address = &self.address;
            let line = format_args!(
                "cluster: the server {address} cannot be used: {problem}; until it can be, limits \
                 count the requests of this server alone, and purges and shared timers wait"
            );
            self.log.write(Level::Error, line);
        }
    }

    /// Logs that the server answers again.
    pub fn answers(&self) {
        if self.is_troubled.swap(false, Relaxed) {
            let line = format_args!("cluster: the server {} answers again", self.address);
            self.log.write(Level::Notice, line);
        }
    }

    /// Logs that purges may have been missed: those of some applications, or of all if `None`.
    pub fn misses(&self, applications: Option<usize>) {
        self.missed.fetch_add(1, Relaxed);
        let logged_at = self.missed_logged_at.lock();
        let mut logged_at = logged_at.unwrap_or_else(|poisoned| poisoned.into_inner());
        if logged_at.is_some_and(|at| at.elapsed() < MISSED_LOG_INTERVAL) {
            return;
        }
        *logged_at = Some(Instant::now());
        let which = match applications {
            None => "all cached responses".to_owned(),
            Some(count) => {
                format!(
                    "the cached responses of the origins that have purged since (number: {count})"
                )
            }
        };
        let line = format_args!(
            "cluster: the server {} no longer has all purges since the last one that was \
             received; {which} are purged",
            self.address
        );
        self.log.write(Level::Notice, line);
    }

    /// Returns the counters.
    pub fn report(&self, connected: bool) -> ClusterStatus {
        ClusterStatus {
            server: self.address.clone(),
            connected,
            requests: CountedRequests {
                counted: self.counted.load(Relaxed),
                alone: self.alone.load(Relaxed),
            },
            purges: SharedPurges {
                sent: self.sent.load(Relaxed),
                received: self.received.load(Relaxed),
                missed: self.missed.load(Relaxed),
            },
            invalid: self.invalid.load(Relaxed),
        }
    }
}
