//! The status of an application and its workers, with the meanings of PHP-FPM's status. The queue
//! counts; the status page, the control API and scripts read.

use std::sync::Arc;

use bytes::Bytes;
use howdah_config::{DynamicProcesses, Processes};
use howdah_sys::clock;
use howdah_wire::frame::RequestUsage;
use howdah_wire::queue::WorkerId;

use super::request::RequestContext;

/// An application at one moment. Times are in microseconds unless they say otherwise.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PoolStatus {
    /// What decides the number of workers: `static`, `dynamic`, `ondemand` or `auto`.
    pub manager: &'static str,
    /// When the counting began, in seconds of the wall clock.
    pub start_time: u64,
    /// Requests that were taken since then.
    pub accepted: u64,
    /// Requests that no worker has.
    pub queued: u32,
    /// The most of them so far.
    pub max_queued: u32,
    /// The most that there may be.
    pub queue_limit: u32,
    /// Workers without a request.
    pub idle: u32,
    /// Workers with a request.
    pub active: u32,
    /// The most of them so far.
    pub max_active: u32,
    /// How often requests had to wait because there were as many workers as there may be; only of
    /// an application whose number of workers varies.
    pub max_children_reached: u64,
    /// Requests that took longer than `limits/slow`.
    pub slow: u64,
    /// The most memory that a script has used, in bytes.
    pub memory_peak: u64,
    /// The most workers that there may be.
    pub max_processes: u32,
    /// How long the oldest of those that wait has waited.
    pub waiting_time: u64,
    /// The longest that one has waited so far.
    pub max_waiting_time: u64,
    /// Every worker, if asked for.
    pub processes: Vec<ProcessStatus>,
}

/// A worker at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProcessStatus {
    /// Process id.
    pub pid: u32,
    /// Whether it has a request.
    pub running: bool,
    /// When it started, in seconds of the wall clock.
    pub start_time: u64,
    /// Requests that it has been given.
    pub requests: u64,
    /// Bytes of memory that it has for itself; 0 if the kernel does not say.
    pub memory: u64,
    /// The request that it has, or the last one that it had.
    pub request: RequestStatus,
}

/// A request that a worker has or had.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RequestStatus {
    /// Its id in the log; `None` if there was none yet.
    pub id: Option<u64>,
    /// Its method.
    pub method: String,
    /// Its target, query included.
    pub target: String,
    /// Bytes of its body.
    pub length: u64,
    /// Who it is from.
    pub user: String,
    /// The script.
    pub script: String,
    /// How long it has run, in microseconds.
    pub duration: u64,
    /// Processor time that it took, in microseconds; 0 while it runs.
    pub cpu: u64,
    /// The most memory that it took, in bytes; 0 while it runs.
    pub memory: u64,
}

/// A queued or running request.
#[derive(Debug)]
pub(super) struct RequestInfo {
    pub(super) context: Arc<RequestContext>,
    /// Time of its submission, in microseconds of the monotonic clock.
    pub(super) queued: u64,
    /// The request was reported as slow.
    pub(super) is_reported_slow: bool,
}

/// A request that takes long.
#[derive(Debug)]
pub struct SlowRequest {
    /// Number of the instance that runs it.
    pub instance: u32,
    /// The worker.
    pub worker: WorkerId,
    /// The worker's process id; 0 if its start has not been reported yet.
    pub pid: u32,
    /// Which request it is.
    pub context: Arc<RequestContext>,
    /// How long it has waited and run.
    pub times: Times,
}

/// How long a request has waited and run, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Times {
    /// Before a worker took it.
    pub waited: u64,
    /// Since then.
    pub ran: u64,
}

impl RequestInfo {
    /// The times at `now`. `started` is the worker's start mark; it is clamped to the possible range.
    pub(super) fn times(&self, started: u64, now: u64) -> Times {
        let started = if started == 0 { now } else { started.clamp(self.queued, now) };
        Times { waited: started - self.queued, ran: now - started }
    }
}

/// Counters of an application's queue.
#[derive(Debug, Default)]
pub(super) struct Counters {
    start_time: u64,
    accepted: u64,
    max_queued: u32,
    max_active: u32,
    is_at_max: bool,
    max_children_reached: u64,
    memory_peak: u64,
    max_waiting_time: u64,
    /// Requests that were slow.
    pub(super) slow: u64,
    /// Maximum number of workers.
    pub(super) max_workers: u32,
    /// What decides the number of workers, as in [`PoolStatus::manager`].
    pub(super) manager: &'static str,
}

impl Counters {
    /// Counters from `now` on, in seconds of the wall clock.
    pub(super) fn new(now: u64) -> Self {
        Counters { start_time: now, ..Counters::default() }
    }

    /// Counts a new request; `requests` and `workers` are the numbers of both afterwards.
    pub(super) fn submitted(&mut self, requests: u32, workers: u32) {
        self.accepted += 1;
        self.max_active = self.max_active.max(requests.min(workers));
        self.max_queued = self.max_queued.max(requests.saturating_sub(workers));
        let is_at_max = requests > workers && workers >= self.max_workers;
        if is_at_max && !self.is_at_max && self.manager != "static" {
            self.max_children_reached += 1;
        }
        self.is_at_max = is_at_max;
    }

    /// Counts the end of a request.
    pub(super) fn finished(&mut self, times: Times, done: RequestUsage) {
        self.max_waiting_time = self.max_waiting_time.max(times.waited);
        self.memory_peak = self.memory_peak.max(done.peak_memory);
    }

    /// A status with the counters; the caller adds the present state.
    pub(super) fn status(&self, queue_limit: usize) -> PoolStatus {
        PoolStatus {
            manager: self.manager,
            start_time: self.start_time,
            accepted: self.accepted,
            max_queued: self.max_queued,
            queue_limit: u32::try_from(queue_limit).unwrap_or(u32::MAX),
            max_active: self.max_active,
            max_children_reached: self.max_children_reached,
            slow: self.slow,
            memory_peak: self.memory_peak,
            max_processes: self.max_workers,
            max_waiting_time: self.max_waiting_time,
            ..PoolStatus::default()
        }
    }
}

/// The number of a worker's requests, and a copy of the last one: the request's own context refers to
/// the connection's memory.
#[derive(Debug, Default)]
pub struct LastRequest {
    requests: u64,
    id: Option<u64>,
    method: Vec<u8>,
    target: Vec<u8>,
    user: Option<Bytes>,
    script: Option<Arc<std::path::Path>>,
    length: u64,
    ran: u64,
    done: RequestUsage,
}

impl LastRequest {
    /// Number of requests that the worker has ended.
    pub(super) fn requests(&self) -> u64 {
        self.requests
    }

    /// Notes a request that the worker has ended.
    pub(super) fn set(&mut self, context: &RequestContext, times: Times, done: RequestUsage) {
        let copy = |to: &mut Vec<u8>, from: &[u8]| {
            to.clear();
            to.extend_from_slice(from);
        };
        self.requests += 1;
        self.id = Some(context.id);
        copy(&mut self.method, &context.method);
        copy(&mut self.target, &context.target);
        self.user = context.user.as_ref().map(|user| Bytes::copy_from_slice(user));
        self.script = Some(Arc::clone(&context.script));
        self.length = context.length;
        self.ran = times.ran;
        self.done = done;
    }
}

impl ProcessStatus {
    fn new(pid: u32, start_time: u64, last: &LastRequest) -> Self {
        ProcessStatus { pid, start_time, requests: last.requests, ..ProcessStatus::default() }
    }

    /// Measures the worker's memory.
    pub(super) fn measure(&mut self) {
        self.memory = private_memory(self.pid);
    }

    /// The status of a worker without a request, started at `start_time`.
    pub(super) fn idle(pid: u32, start_time: u64, last: &LastRequest) -> Self {
        let request = RequestStatus {
            id: last.id,
            method: text(&last.method),
            target: text(&last.target),
            length: last.length,
            user: last.user.as_deref().map(text).unwrap_or_default(),
            script: last.script.as_deref().map(script).unwrap_or_default(),
            duration: last.ran,
            cpu: last.done.cpu_us,
            memory: last.done.peak_memory,
        };
        ProcessStatus { request, ..ProcessStatus::new(pid, start_time, last) }
    }

    /// The status of a worker with a request, started at `start_time`.
    pub(super) fn running(
        pid: u32,
        start_time: u64,
        last: &LastRequest,
        context: &RequestContext,
        times: Times,
    ) -> Self {
        let request = RequestStatus {
            id: Some(context.id),
            method: text(&context.method),
            target: text(&context.target),
            length: context.length,
            user: context.user.as_deref().map(text).unwrap_or_default(),
            script: script(&context.script),
            duration: times.ran,
            ..RequestStatus::default()
        };
        let process = ProcessStatus::new(pid, start_time, last);
        ProcessStatus { running: true, requests: process.requests + 1, request, ..process }
    }

    /// How much of a processor the last request took, in percent; 0 while one runs.
    pub fn cpu_percent(&self) -> f64 {
        let request = &self.request;
        if request.duration == 0 {
            0.0
        } else {
            request.cpu as f64 / request.duration as f64 * 100.0
        }
    }
}

/// PHP-FPM's name for how the number of workers is decided, or ours.
pub fn manager(processes: &Processes) -> &'static str {
    match processes {
        Processes::Automatic => "auto",
        Processes::Static(_) => "static",
        Processes::Dynamic(DynamicProcesses { spare: 0, .. }) => "ondemand",
        Processes::Dynamic(_) => "dynamic",
    }
}

impl PoolStatus {
    /// Seconds since the counting began.
    pub fn start_since(&self) -> u64 {
        clock::wall_seconds().saturating_sub(self.start_time)
    }
}

/// Resident memory that is no file's and not shared on purpose. The kernel tells everybody.
fn private_memory(pid: u32) -> u64 {
    let statm = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    let mut pages = statm.split(' ').skip(1).map_while(|number| number.parse::<u64>().ok());
    let (Some(resident), Some(shared)) = (pages.next(), pages.next()) else { return 0 };
    resident.saturating_sub(shared) * rustix::param::page_size() as u64
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn script(path: &std::path::Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_workers_is_reached_once_for_each_time_that_requests_wait() {
        let mut counts = Counters { max_workers: 2, manager: "dynamic", ..Counters::new(0) };
        for requests in [1, 2, 3, 4, 3] {
            counts.submitted(requests, 2);
        }
        assert_eq!((counts.max_children_reached, counts.max_queued, counts.max_active), (1, 2, 2));
        counts.submitted(1, 2);
        counts.submitted(3, 2);
        assert_eq!(counts.max_children_reached, 2);
    }

    #[test]
    fn a_fixed_number_of_workers_is_not_reached() {
        let mut counts = Counters { max_workers: 1, manager: "static", ..Counters::new(0) };
        counts.submitted(2, 1);
        assert_eq!(counts.max_children_reached, 0);
    }

    #[test]
    fn a_worker_cannot_make_a_request_older_or_younger_than_it_is() {
        let context = RequestContext {
            application: "a".into(),
            id: 1,
            method: "GET".into(),
            target: "/".into(),
            script: std::path::Path::new("/a.php").into(),
            user: None,
            length: 0,
        };
        let info = RequestInfo { context: Arc::new(context), queued: 100, is_reported_slow: false };
        assert_eq!(info.times(130, 150), Times { waited: 30, ran: 20 });
        assert_eq!(info.times(1, 150), Times { waited: 0, ran: 50 });
        assert_eq!(info.times(u64::MAX, 150), Times { waited: 50, ran: 0 });
        assert_eq!(info.times(0, 150), Times { waited: 50, ran: 0 });
    }

    #[test]
    fn the_kernel_tells_how_much_memory_a_process_has() {
        assert!(private_memory(std::process::id()) > 0);
        assert_eq!(private_memory(0), 0);
    }
}
