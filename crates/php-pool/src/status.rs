//! Status of an application and its workers, with the meanings of PHP-FPM's status. The queue
//! updates the counters; the status page, the control API and scripts read them.

use std::sync::Arc;

use bytes::Bytes;
use howdah_config::{DynamicProcesses, Processes};
use howdah_sys::{clock, process_usage};
use howdah_wire::frame::{OpcacheUsage, RequestUsage, Retirement};
use howdah_wire::queue::WorkerId;

use super::request::RequestContext;
use super::times::Times;

/// Status of an application at one moment. Times are in microseconds unless stated otherwise.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PoolStatus {
    /// The way in which the number of workers is decided: `static`, `dynamic`, `ondemand` or
    /// `auto`.
    pub manager: &'static str,
    /// Start of the counters, in seconds since 1970.
    pub start_time: u64,
    /// Number of requests accepted since `start_time`.
    pub accepted: u64,
    /// Number of requests that no worker has taken.
    pub queued: u32,
    /// Maximum of `queued` since `start_time`.
    pub max_queued: u32,
    /// Maximum length of the queue.
    pub queue_limit: u32,
    /// Number of workers without a request.
    pub idle: u32,
    /// Number of workers with a request.
    pub active: u32,
    /// Maximum of `active` since `start_time`.
    pub max_active: u32,
    /// Number of times that requests began to wait while the number of workers was at its maximum;
    /// 0 for a fixed number of workers.
    pub max_children_reached: u64,
    /// Number of requests that took longer than `limits/slow`.
    pub slow: u64,
    /// Number of requests that were given up in an overloaded queue.
    pub given_up: u64,
    /// Maximum memory of a script, in bytes.
    pub memory_peak: u64,
    /// Processor time of finished requests.
    pub cpu_time: u64,
    /// Maximum number of workers.
    pub max_processes: u32,
    /// Waiting time of the oldest waiting request.
    pub waiting_time: u64,
    /// Run time of the request that has run longest of those that run.
    pub longest_run: u64,
    /// Maximum waiting time of a request since `start_time`.
    pub max_waiting_time: u64,
    /// Number of workers that have ended after a request, by the reason. Reasons without any are
    /// left out.
    pub retired: Vec<(Retirement, u64)>,
    /// State of OPcache, as a worker has last reported it; `None` if none has.
    pub opcache: Option<OpcacheUsage>,
    /// All workers, if requested.
    pub processes: Vec<ProcessStatus>,
}

/// Status of a worker at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProcessStatus {
    /// Process id.
    pub pid: u32,
    /// The worker has a request.
    pub running: bool,
    /// Start of the worker, in seconds since 1970.
    pub start_time: u64,
    /// Number of requests that the worker has taken.
    pub requests: u64,
    /// Private memory of the worker in bytes; 0 if unknown.
    pub memory: u64,
    /// Processor time of the worker since its start, in microseconds.
    pub cpu_time: u64,
    /// Current request of the worker, or its last one.
    pub request: RequestStatus,
}

/// Status of a request that a worker has or had.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RequestStatus {
    /// Id of the request in the log; `None` if there was no request yet.
    pub id: Option<u64>,
    /// Method.
    pub method: String,
    /// Request target with the query.
    pub target: String,
    /// Length of the body in bytes.
    pub length: u64,
    /// Authenticated user; empty if there is none.
    pub user: String,
    /// Path of the script.
    pub script: String,
    /// Run time in microseconds.
    pub duration: u64,
    /// Processor time in microseconds; 0 while the request runs.
    pub cpu: u64,
    /// Peak memory in bytes; 0 while the request runs.
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

/// A slow request.
#[derive(Debug)]
pub struct SlowRequest {
    /// Number of the instance that runs it.
    pub instance: u32,
    /// Name of the worker that runs it.
    pub worker: WorkerId,
    /// Process id of the worker; 0 if its start has not been reported yet.
    pub pid: u32,
    /// Description of the request.
    pub context: Arc<RequestContext>,
    /// Waiting and run time.
    pub times: Times,
}

impl RequestInfo {
    /// Returns the times at `now`. `started` is the worker's start mark, clamped to the possible
    /// range.
    pub(super) fn times(&self, started: u64, now: u64) -> Times {
        let started = if started == 0 { now } else { started.clamp(self.queued, now) };
        let queued = self.queued;
        Times { queued, waited: started - queued, ran: now - started }
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
    /// Fewer workers are idle than the configuration asks for, at the maximum number of workers.
    lacks_idle: bool,
    /// The maximum number of workers, if it was reached and that is not logged.
    pub(super) exhausted: Option<u32>,
    max_children_reached: u64,
    memory_peak: u64,
    cpu_time: u64,
    max_waiting_time: u64,
    /// Retired workers, in the order of [`Retirement::ALL`].
    retired: [u64; Retirement::ALL.len()],
    /// The last report of a worker of the present instance.
    opcache: Option<OpcacheUsage>,
    /// Number of slow requests.
    pub(super) slow: u64,
    /// Number of requests that were given up in an overloaded queue.
    pub(super) given_up: u64,
    /// Maximum number of workers.
    pub(super) max_workers: u32,
    /// The way in which the number of workers is decided, as in [`PoolStatus::manager`].
    pub(super) manager: &'static str,
}

impl Counters {
    /// Creates the counters; `now` is in seconds since 1970.
    pub(super) fn new(now: u64) -> Self {
        Counters { start_time: now, ..Counters::default() }
    }

    /// Counts a new request; `requests` and `workers` are the numbers of both afterwards.
    pub(super) fn submitted(&mut self, requests: u32, workers: u32) {
        self.accepted += 1;
        self.max_active = self.max_active.max(requests.min(workers));
        self.max_queued = self.max_queued.max(requests.saturating_sub(workers));
        self.look(requests, workers);
    }

    /// Counts how often requests begin to wait for the maximum number of workers.
    pub(super) fn look(&mut self, requests: u32, workers: u32) {
        let waits = requests > workers && workers >= self.max_workers;
        let is_at_max = waits || self.lacks_idle;
        if is_at_max && !self.is_at_max && self.manager != "static" {
            self.max_children_reached += 1;
            self.exhausted = Some(self.max_workers);
        }
        self.is_at_max = is_at_max;
    }

    /// Notes whether fewer workers than `spare` are idle at the maximum number of workers.
    pub(super) fn look_at_idle(&mut self, requests: u32, workers: u32, spare: u32) {
        let idle = workers.saturating_sub(requests);
        self.lacks_idle = idle < spare && workers >= self.max_workers;
        self.look(requests, workers);
    }

    /// Counts the end of a request.
    pub(super) fn finished(&mut self, times: Times, done: RequestUsage) {
        self.max_waiting_time = self.max_waiting_time.max(times.waited);
        let reason = Retirement::ALL.iter().position(|reason| done.retirement == Some(*reason));
        if let Some(count) = reason.and_then(|reason| self.retired.get_mut(reason)) {
            *count += 1;
        }
        self.memory_peak = self.memory_peak.max(done.peak_memory);
        // A worker could claim any time; requests use one processor while they run.
        self.cpu_time = self.cpu_time.saturating_add(done.cpu_us.min(times.ran));
        self.opcache = done.opcache.or(self.opcache);
    }

    /// Forgets the state of an instance.
    pub(super) fn instance_ended(&mut self) {
        self.opcache = None;
    }

    /// Returns a status with the counters; the caller adds the current state.
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
            given_up: self.given_up,
            memory_peak: self.memory_peak,
            cpu_time: self.cpu_time,
            max_processes: self.max_workers,
            max_waiting_time: self.max_waiting_time,
            retired: Retirement::ALL
                .into_iter()
                .zip(self.retired)
                .filter(|(_, count)| *count > 0)
                .collect(),
            opcache: self.opcache,
            ..PoolStatus::default()
        }
    }
}

/// Number of a worker's requests, and a copy of the last one: the request's own context refers to
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
    /// Returns the number of requests that the worker has finished.
    pub(super) fn requests(&self) -> u64 {
        self.requests
    }

    /// Stores a request that the worker has finished.
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

    /// Measures the worker's memory and processor time.
    pub(super) fn measure(&mut self) {
        self.memory = process_usage::private_memory(self.pid);
        self.cpu_time = process_usage::cpu_time(self.pid);
    }

    /// Returns the status of a worker without a request, started at `start_time`.
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

    /// Returns the status of a worker with a request, started at `start_time`.
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

    /// Returns the processor share of the last request in percent; 0 while a request runs.
    pub fn cpu_percent(&self) -> f64 {
        let request = &self.request;
        if request.duration == 0 {
            0.0
        } else {
            request.cpu as f64 / request.duration as f64 * 100.0
        }
    }
}

/// Returns PHP-FPM's name of the way in which the number of workers is decided; `auto` is Howdah's.
pub fn manager(processes: &Processes) -> &'static str {
    match processes {
        Processes::Automatic => "auto",
        Processes::Static(_) => "static",
        Processes::Dynamic(DynamicProcesses { spare: 0, .. }) => "ondemand",
        Processes::Dynamic(_) => "dynamic",
    }
}

impl PoolStatus {
    /// Counts a worker without a request as one with a request.
    pub(crate) fn count_one_more(&mut self) {
        let more = self.idle.min(1);
        self.idle -= more;
        self.active += more;
        self.max_active = self.max_active.max(self.active);
    }

    /// Returns the seconds since `start_time`.
    pub fn start_since(&self) -> u64 {
        clock::wall_seconds().saturating_sub(self.start_time)
    }
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
    fn the_limit_of_workers_is_reached_as_well_if_too_few_are_idle() {
        let mut counts = Counters { max_workers: 3, manager: "dynamic", ..Counters::new(0) };
        counts.look_at_idle(1, 3, 2);
        assert_eq!(counts.max_children_reached, 0);
        counts.look_at_idle(2, 3, 2);
        counts.look_at_idle(2, 3, 2);
        counts.submitted(5, 3);
        assert_eq!(counts.max_children_reached, 1, "it is the same time");
        counts.look_at_idle(1, 2, 2);
        counts.look_at_idle(2, 2, 2);
        assert_eq!(counts.max_children_reached, 1, "more workers may start");
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
            site: "a".into(),
            id: 1,
            trace: None,
            method: "GET".into(),
            target: "/".into(),
            script: std::path::Path::new("/a.php").into(),
            user: None,
            length: 0,
            times: Default::default(),
            process: Default::default(),
            usage: Default::default(),
            failure: Default::default(),
            has_started_php: Default::default(),
            flow: crate::request::Flow::default(),
            profile: None,
            messages: None,
            purger: None,
        };
        let info = RequestInfo { context: Arc::new(context), queued: 100, is_reported_slow: false };
        assert_eq!(info.times(130, 150), Times { queued: 100, waited: 30, ran: 20 });
        assert_eq!(info.times(1, 150), Times { queued: 100, waited: 0, ran: 50 });
        assert_eq!(info.times(u64::MAX, 150), Times { queued: 100, waited: 50, ran: 0 });
        assert_eq!(info.times(0, 150), Times { queued: 100, waited: 50, ran: 0 });
    }
}
