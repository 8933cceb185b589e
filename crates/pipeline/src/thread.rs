//! State of a router thread: its listeners, its cache of files, its requests to PHP and to other
//! servers, and its lines of the access log.
//!
//! `connection` serves connections with it, `accept` accepts them, and `router::thread_loop` runs
//! the thread. Threads share only the configuration and the queues ([`Shared`]).

mod command;
mod listeners;
mod shared;
mod spans;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use howdah_access_log::{AccessLog, LineBuffer, LogFile, Sent};
use howdah_files::{Files, Watched};
use howdah_http::exchange::RequestRecord;
use howdah_http::limits::Limits;
use howdah_limits::in_progress::InProgress;
use howdah_limits::rules::Admission;
use howdah_metrics::{Filter, FinishedRequest, KeptRequests, Ring, Tally};
use howdah_php_pool::thread::PhpThread;
use howdah_routing::htaccess_state::compiled::KnownDirectives;
use howdah_routing::htaccess_state::head::Head;
use howdah_routing::htaccess_state::site::Engines;
use howdah_routing::route::Scratch;
use howdah_routing::snapshot::Snapshot;
use howdah_sys::clock::wall_seconds;
use howdah_upstream::thread::UpstreamThread;
use tokio::task::spawn_local;

pub use self::command::{Counters, Handover, Http3Socket, Reading, ThreadCommand, ThreadHandle};
pub use self::listeners::{Accepting, Listeners};
pub use self::shared::Shared;
pub use self::spans::SpanSocket;
use self::spans::WaitingSpans;
use crate::descriptors::Shortage;

/// State of a request until its response has been sent.
pub struct Progress {
    /// Permits of limits.
    pub admission: Admission,
    /// Access logs of the request; `None` for those of the listener.
    pub logs: Option<Arc<[AccessLog]>>,
}

/// A router thread's own state.
pub struct RouterThread {
    /// State that all threads share.
    pub shared: Arc<Shared>,
    /// Cache of files.
    pub files: Files,
    /// Engines of sites with `.htaccess` files.
    pub engines: Engines,
    /// Directories of sites with `.htaccess` files, watched for changes.
    pub directories: Watched<KnownDirectives, Head>,
    /// Reusable memory for routing a request.
    pub scratch: RefCell<Scratch>,
    /// State of requests in progress, as far as they have any.
    pub in_progress: InProgress<Progress>,
    /// Requests to PHP.
    pub php: Rc<PhpThread>,
    /// Connections to HTTP servers.
    pub proxy: Rc<UpstreamThread>,
    /// Connections to FastCGI servers.
    pub fastcgi: Rc<UpstreamThread>,
    /// Shortage of descriptors.
    pub shortage: Shortage,
    /// All threads.
    pub handles: Arc<[ThreadHandle]>,
    /// Counters of this thread.
    pub counters: Arc<Counters>,
    /// Listeners and the signals of their connections.
    pub listeners: Listeners,
    /// Counts of finished requests.
    tally: Tally,
    /// The last requests.
    ring: Ring,
    /// Spans that wait for the telemetry process.
    spans: WaitingSpans,
    /// Lines of the access log that wait to be written.
    lines: RefCell<LineBuffer>,
    /// Time of the last write to an access log.
    lines_written: Cell<Option<Instant>>,
    /// Limits compiled from this snapshot.
    limits: RefCell<(Weak<Snapshot>, Rc<Limits>)>,
    next_request_id: Cell<u64>,
}

/// Memory of the file caches of all threads, in bytes.
const MAX_FILE_CACHE_BYTES: usize = 256 << 20;

impl RouterThread {
    /// Creates the state of thread `number`, which takes responses of PHP through `php`.
    pub fn new(
        number: u32,
        shared: Arc<Shared>,
        handles: Arc<[ThreadHandle]>,
        php: Rc<PhpThread>,
    ) -> Rc<Self> {
        let limits = howdah_files::Limits::default();
        let open = limits.open.min(shared.descriptors.cached_files(handles.len() as u64));
        let bytes = limits.bytes.min(MAX_FILE_CACHE_BYTES / handles.len().max(1));
        let files = Files::new(howdah_files::Limits { bytes, open, ..limits })
            .with_log(Arc::clone(&shared.denials));
        Rc::new(RouterThread {
            files,
            engines: Engines::default(),
            directories: Watched::default(),
            scratch: RefCell::default(),
            in_progress: InProgress::default(),
            php,
            proxy: UpstreamThread::new(Arc::clone(&shared.log)),
            fastcgi: UpstreamThread::new(Arc::clone(&shared.log)),
            shortage: Shortage::new(shared.descriptors),
            counters: Arc::clone(handles[number as usize].counters()),
            handles,
            listeners: Listeners::default(),
            tally: Tally::default(),
            // As of ids, below.
            ring: Ring::new(wall_seconds() << 20),
            spans: WaitingSpans::default(),
            lines: RefCell::default(),
            lines_written: Cell::new(None),
            limits: RefCell::default(),
            // Unique among the threads, and different after a restart.
            next_request_id: Cell::new(
                u64::from(number) << 56 | (wall_seconds() & 0xffff_ffff) << 24,
            ),
            shared,
        })
    }

    /// Returns the snapshot that routes the next request of a listener: the current one, or the
    /// last one with this listener.
    pub fn snapshot_for(&self, listener: &str) -> Arc<Snapshot> {
        let current = self.shared.snapshot.load_full();
        if current.listeners.contains_key(listener) {
            return current;
        }
        self.listeners.last_snapshot(listener).unwrap_or(current)
    }

    /// Returns the limits of the current configuration.
    pub fn limits(&self) -> Rc<Limits> {
        let snapshot = self.shared.snapshot.load();
        let mut cached = self.limits.borrow_mut();
        if !std::ptr::eq(cached.0.as_ptr(), Arc::as_ptr(&snapshot)) {
            *cached = (Arc::downgrade(&snapshot), Rc::new(snapshot.limits(&self.shared.tmp)));
        }
        Rc::clone(&cached.1)
    }

    /// Returns a new request id.
    pub fn request_id(&self) -> u64 {
        let id = self.next_request_id.get();
        self.next_request_id.set(id.wrapping_add(1));
        id
    }

    /// Keeps a request, traces it and counts it for its site, or for its listener if none is known:
    /// names of the document, and never of a client.
    pub fn count(self: &Rc<Self>, listener: &Arc<str>, record: &RequestRecord<'_>) {
        let snapshot = self.shared.snapshot.load();
        let wanted = snapshot.config.settings.last_requests;
        let places = wanted.div_ceil(self.shared.threads.load(Relaxed).max(1));
        FinishedRequest::of(listener, record, |request| {
            self.tally.add(&request);
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            self.ring.keep(&request, now, places);
            self.trace(&snapshot, &request, record, now);
        });
    }

    /// Returns the last requests of a filter.
    pub fn list_requests(&self, filter: &Filter) -> KeptRequests {
        let thread = self.php.number();
        let (requests, last) = self.ring.list(filter, thread as usize);
        KeptRequests { thread, requests, last }
    }

    /// Takes the counts since the last call.
    pub fn hand_over(&self) -> Handover {
        Handover {
            thread: self.php.number(),
            at: Instant::now(),
            requests: self.tally.take(),
            scripts: self.php.used.take(),
        }
    }

    /// Counts again what was taken, and reached nobody.
    pub fn count_again(&self, taken: Handover) {
        self.tally.add_again(&taken.requests);
        taken.scripts.into_iter().for_each(|(site, used)| self.php.used.add(&site, used));
    }

    /// Adds the lines of a request to these access logs, or without any to those of the listener.
    /// A line is written at once, or together with others at most [`AccessLog::flush`] later.
    pub fn log(
        self: &Rc<Self>,
        listener: &str,
        chosen: Option<Arc<[AccessLog]>>,
        record: &RequestRecord<'_>,
    ) {
        let snapshot = self.shared.snapshot.load();
        let logs = chosen.as_ref().or_else(|| {
            // A request that was routed has the logs of its listener already.
            let listener = snapshot.listeners.get(listener).filter(|_| record.request.is_none());
            listener?.access_log.as_ref()
        });
        for log in logs.unwrap_or(&snapshot.access_log).iter() {
            let is_first = self.lines.borrow_mut().add(log, record, &self.shared.log);
            self.retry_log(log.file());
            if !is_first {
                continue;
            }
            let age = self.lines_written.get().map_or(log.flush(), |at| at.elapsed());
            match log.flush().checked_sub(age).filter(|wait| !wait.is_zero()) {
                None => self.flush_log(log.file()),
                Some(wait) => {
                    let (thread, file) = (Rc::clone(self), Arc::clone(log.file()));
                    spawn_local(async move {
                        tokio::time::sleep(wait).await;
                        thread.flush_log(&file);
                    });
                }
            }
        }
    }

    fn flush_log(&self, file: &Arc<LogFile>) {
        self.lines_written.set(Some(Instant::now()));
        self.lines.borrow_mut().flush(file, &self.shared.log);
        self.retry_log(file);
    }

    /// Sends the lines that a log server has not taken, as soon as it takes them again.
    fn retry_log(&self, file: &Arc<LogFile>) {
        if !file.claim_retry() {
            return;
        }
        let (shared, file) = (Arc::clone(&self.shared), Arc::clone(file));
        spawn_local(async move {
            let mut pause = MIN_RETRY_PAUSE;
            loop {
                tokio::time::sleep(pause).await;
                pause = match file.retry(&shared.log) {
                    Sent::All => return,
                    Sent::Some => MIN_RETRY_PAUSE,
                    // The log has left the configuration, so it is not reconnected.
                    Sent::Nothing if Arc::strong_count(&file) == 1 => return,
                    Sent::Nothing => (2 * pause).min(MAX_RETRY_PAUSE),
                };
            }
        });
    }

    /// Writes the waiting lines of all access logs, and sends the waiting spans, at the end of the
    /// thread.
    pub fn flush_logs(&self) {
        let _ = self.send_spans();
        self.lines.borrow_mut().flush_all(&self.shared.log);
        self.shared.snapshot.load().logs.values().for_each(|file| file.finish(&self.shared.log));
    }
}

/// Pause before lines are sent again to a log server that is slow for a moment.
const MIN_RETRY_PAUSE: Duration = Duration::from_millis(1);

/// Maximum pause, for a server that takes no lines.
const MAX_RETRY_PAUSE: Duration = Duration::from_millis(100);
