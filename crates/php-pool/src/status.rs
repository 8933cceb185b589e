//! What an application does and has done, with the meanings of PHP-FPM's status: counted where
//! requests come and go, read by whoever asks.

use std::sync::Arc;

use bytes::Bytes;
use howdah_config::{Dynamic, Processes};
use howdah_sys::clock;
use howdah_wire::frame::Done;
use howdah_wire::queue::Owner;

use super::instance::Worker;
use super::thread::RequestContext;

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

/// A request on its way: which one, and since when it waits.
#[derive(Debug)]
pub(super) struct About {
    pub(super) context: Arc<RequestContext>,
    /// On the monotonic clock.
    pub(super) queued: u64,
    /// That it is slow has been told.
    pub(super) told: bool,
}

/// A request that takes long.
#[derive(Debug)]
pub struct Slow {
    /// Number of the instance that runs it.
    pub instance: u32,
    /// The worker.
    pub worker: Owner,
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

impl About {
    /// `started` is what the worker says, and believed only as far as it can be true.
    pub(super) fn times(&self, started: u64, now: u64) -> Times {
        let started = if started == 0 { now } else { started.clamp(self.queued, now) };
        Times { waited: started - self.queued, ran: now - started }
    }
}

/// What is counted in an application's queue.
#[derive(Debug, Default)]
pub(super) struct Counts {
    start_time: u64,
    accepted: u64,
    max_queued: u32,
    max_active: u32,
    at_most: bool,
    max_children_reached: u64,
    memory_peak: u64,
    max_waiting_time: u64,
    /// Requests that were slow.
    pub(super) slow: u64,
    /// The most workers that there may be.
    pub(super) most: u32,
    /// What decides how many there are.
    pub(super) manager: &'static str,
}

impl Counts {
    /// Counts from `now` on, in seconds of the wall clock.
    pub(super) fn new(now: u64) -> Self {
        Counts { start_time: now, ..Counts::default() }
    }

    /// A request has come, and now there are so many of them and of workers.
    pub(super) fn submitted(&mut self, requests: u32, workers: u32) {
        self.accepted += 1;
        self.max_active = self.max_active.max(requests.min(workers));
        self.max_queued = self.max_queued.max(requests.saturating_sub(workers));
        let at_most = requests > workers && workers >= self.most;
        if at_most && !self.at_most && self.manager != "static" {
            self.max_children_reached += 1;
        }
        self.at_most = at_most;
    }

    /// A request is over.
    pub(super) fn finished(&mut self, times: Times, done: Done) {
        self.max_waiting_time = self.max_waiting_time.max(times.waited);
        self.memory_peak = self.memory_peak.max(done.peak_memory);
    }

    /// All that is counted; the rest is left to the caller.
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
            max_processes: self.most,
            max_waiting_time: self.max_waiting_time,
            ..PoolStatus::default()
        }
    }
}

/// What a worker has done: a copy, as what a request itself refers to is the connection's memory.
#[derive(Debug, Default)]
pub struct Last {
    requests: u64,
    id: Option<u64>,
    method: Vec<u8>,
    target: Vec<u8>,
    user: Option<Bytes>,
    script: Option<Arc<std::path::Path>>,
    length: u64,
    ran: u64,
    done: Done,
}

impl Last {
    /// Number of requests that the worker has ended.
    pub(super) fn requests(&self) -> u64 {
        self.requests
    }

    /// The worker has ended a request.
    pub(super) fn set(&mut self, context: &RequestContext, times: Times, done: Done) {
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
    fn of(worker: &Worker) -> Self {
        ProcessStatus {
            pid: worker.pid,
            start_time: worker.since,
            requests: worker.last.requests,
            ..ProcessStatus::default()
        }
    }

    /// Looks how much memory it has.
    pub(super) fn measure(&mut self) {
        self.memory = private_memory(self.pid);
    }

    /// A worker that waits for a request.
    pub(super) fn idle(worker: &Worker) -> Self {
        let last = &worker.last;
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
        ProcessStatus { request, ..ProcessStatus::of(worker) }
    }

    /// A worker with a request.
    pub(super) fn running(worker: &Worker, context: &RequestContext, times: Times) -> Self {
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
        let process = ProcessStatus::of(worker);
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
        Processes::Dynamic(Dynamic { spare: 0, .. }) => "ondemand",
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
        let mut counts = Counts { most: 2, manager: "dynamic", ..Counts::new(0) };
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
        let mut counts = Counts { most: 1, manager: "static", ..Counts::new(0) };
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
        let about = About { context: Arc::new(context), queued: 100, told: false };
        assert_eq!(about.times(130, 150), Times { waited: 30, ran: 20 });
        assert_eq!(about.times(1, 150), Times { waited: 0, ran: 50 });
        assert_eq!(about.times(u64::MAX, 150), Times { waited: 50, ran: 0 });
        assert_eq!(about.times(0, 150), Times { waited: 50, ran: 0 });
    }

    #[test]
    fn the_kernel_tells_how_much_memory_a_process_has() {
        assert!(private_memory(std::process::id()) > 0);
        assert_eq!(private_memory(0), 0);
    }
}
