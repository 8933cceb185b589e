//! Spans of finished requests on their way to the telemetry process.
//!
//! A thread collects them for a moment, and sends them as packets that the process takes or not:
//! no request waits for it. What it does not take stays in memory up to a limit; beyond that, spans
//! are lost, counted and logged.

use std::cell::{Cell, RefCell};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use howdah_access_log::secrets;
use howdah_http::exchange::RequestRecord;
use howdah_metrics::FinishedRequest;
use howdah_routing::snapshot::Snapshot;
use howdah_sys::log::Level;
use howdah_sys::{clock, packet};
use howdah_traces::Moment;
use howdah_wire::lost_spans::LostSpans;
use howdah_wire::spans;
use tokio::task::spawn_local;

use super::RouterThread;

/// Time for which spans are collected.
const COLLECTING_TIME: Duration = Duration::from_millis(50);

/// Maximum bytes of a thread's spans that wait for the telemetry process.
const MAX_WAITING_BYTES: usize = 2 << 20;

/// Minimum time between two lines about lost spans, in seconds.
const LINE_INTERVAL: u64 = 60;

/// The socket of the telemetry process, which all threads share.
#[derive(Debug, Default)]
pub struct SpanSocket {
    socket: Option<OwnedFd>,
    /// Number of spans that this process has lost.
    lost: AtomicU64,
    /// Number of those that any process has lost.
    lost_by_all: LostSpans,
    /// The first number at the time of the last line about it.
    logged: AtomicU64,
    /// Time of the next line, in seconds since 1970.
    next_line: AtomicU64,
}

/// Spans of a thread that wait to be sent.
#[derive(Debug, Default)]
pub struct WaitingSpans {
    bytes: RefCell<Vec<u8>>,
    /// A task sends them later.
    is_scheduled: Cell<bool>,
    /// Names of arguments whose values are hidden, of this snapshot.
    secrets: RefCell<(Weak<Snapshot>, Rc<[String]>)>,
}

impl SpanSocket {
    /// Creates the socket; without a descriptor all spans are lost. `lost_by_all` has the number of
    /// spans that any process has lost.
    pub fn new(socket: Option<OwnedFd>, lost_by_all: LostSpans) -> SpanSocket {
        SpanSocket { socket, lost_by_all, ..SpanSocket::default() }
    }

    /// Returns the number of spans that were lost since the start of the server, by routers and
    /// telemetry processes.
    pub fn lost(&self) -> u64 {
        self.lost_by_all.get()
    }

    fn lose(&self, spans: u64) {
        self.lost.fetch_add(spans, Relaxed);
        self.lost_by_all.add(spans);
    }
}

impl RouterThread {
    /// Adds the spans of a request that has ended now, if they are wanted.
    pub(super) fn trace(
        self: &Rc<Self>,
        snapshot: &Arc<Snapshot>,
        finished: &FinishedRequest<'_>,
        record: &RequestRecord<'_>,
        wall: Duration,
    ) {
        let (Some(settings), Some(trace)) = (&snapshot.config.settings.telemetry, finished.trace)
        else {
            return;
        };
        if !howdah_traces::is_wanted(settings, &trace, record) {
            return;
        }
        let now = Moment { wall, instant: Instant::now(), monotonic_us: clock::monotonic_us() };
        let secrets = self.spans.secrets(snapshot);
        let mut bytes = self.spans.bytes.borrow_mut();
        let before = bytes.len();
        let written = howdah_traces::write(finished, record, &trace, now, &secrets, &mut bytes);
        if bytes.len() > MAX_WAITING_BYTES {
            bytes.truncate(before);
            self.shared.spans.lose(written);
        }
        drop(bytes);
        if !self.spans.is_scheduled.replace(true) {
            let thread = Rc::clone(self);
            spawn_local(async move {
                tokio::time::sleep(COLLECTING_TIME).await;
                while !thread.send_spans() {
                    tokio::time::sleep(COLLECTING_TIME).await;
                }
                thread.spans.is_scheduled.set(false);
            });
        }
    }

    /// Sends waiting spans. Returns false if some are left.
    pub fn send_spans(&self) -> bool {
        let shared = &self.shared.spans;
        let mut bytes = self.spans.bytes.borrow_mut();
        let mut sent = 0;
        while let Some(rest) = bytes.get(sent..).filter(|rest| !rest.is_empty()) {
            let packet = spans::first_packet(rest);
            let result = match &shared.socket {
                Some(socket) if !packet.is_empty() => packet::send(socket, packet, &[]),
                _ => Err(rustix::io::Errno::PIPE),
            };
            match result {
                Ok(()) => sent += packet.len(),
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::NOBUFS) => break,
                Err(_) => {
                    shared.lose(spans::count(rest));
                    sent = bytes.len();
                }
            }
        }
        bytes.drain(..sent);
        // A burst must not hold its memory.
        if bytes.is_empty() && bytes.capacity() > MAX_WAITING_BYTES / 16 {
            *bytes = Vec::new();
        }
        let is_empty = bytes.is_empty();
        drop(bytes);
        self.log_lost_spans();
        is_empty
    }

    fn log_lost_spans(&self) {
        let shared = &self.shared.spans;
        let (lost, logged) = (shared.lost.load(Relaxed), shared.logged.load(Relaxed));
        if lost == logged {
            return;
        }
        let (now, next) = (clock::wall_seconds(), shared.next_line.load(Relaxed));
        let is_ours = now >= next
            && shared
                .next_line
                .compare_exchange(next, now + LINE_INTERVAL, Relaxed, Relaxed)
                .is_ok();
        if is_ours {
            shared.logged.store(lost, Relaxed);
            let line = format_args!(
                "telemetry: {} spans were lost, because the telemetry process has not taken them; \
                 {lost} since the start",
                lost.saturating_sub(logged)
            );
            self.shared.log.write(Level::Warn, line);
        }
    }
}

impl WaitingSpans {
    fn secrets(&self, snapshot: &Arc<Snapshot>) -> Rc<[String]> {
        let mut cached = self.secrets.borrow_mut();
        if !std::ptr::eq(cached.0.as_ptr(), Arc::as_ptr(snapshot)) {
            *cached = (Arc::downgrade(snapshot), secrets(&snapshot.config).into());
        }
        Rc::clone(&cached.1)
    }
}
