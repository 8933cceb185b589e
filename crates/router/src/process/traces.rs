//! Traces of slow requests: logs the PHP stack of their scripts.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::howdah_config as config;
use howdah_php_pool::queue::Queue;
use howdah_php_pool::request::RequestContext;
use howdah_php_pool::status::SlowRequest;
use howdah_sys::log::{Level, Log};
use howdah_wire::messages::{Stack, ToSupervisor};
use howdah_wire::queue::WorkerId;

use super::link::Link;
use super::out::{Extent, Found, PartKind};
use super::slow_scripts::KeptScripts;

/// Minimum time between two checks for slow requests of an application.
const MIN_INTERVAL: Duration = Duration::from_millis(25);

/// Pause before another attempt to open a slow log.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);

/// Maximum number of records that wait for their file to be opened. Further ones go to the error
/// log.
const MAX_WAITING_RECORDS: usize = 64;

/// Requested traces, and the slow logs.
#[derive(Debug)]
pub(super) struct Traces {
    link: Rc<Link>,
    /// The error log.
    log: Arc<Log>,
    /// The last slow scripts.
    pub(super) kept: KeptScripts,
    requested: HashMap<u32, Trace>,
    /// Number of the last requested trace.
    last_number: u32,
    /// Slow logs by path.
    files: HashMap<String, File>,
}

/// A requested trace.
#[derive(Debug)]
struct Trace {
    slow: SlowRequest,
    reason: Reason,
    /// Path of the slow log; `None` for the error log.
    file: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    /// The request is slower than `limits/slow`.
    Slow,
    /// The script has run longer than `limits/timeout`.
    Overdue,
}

/// A slow log.
#[derive(Debug)]
enum File {
    /// The supervisor was asked to open it; these records wait.
    Opening {
        waiting: Vec<Record>,
        /// Reason why the attempt before has failed.
        failed: Option<String>,
    },
    Open(Log),
    /// The file cannot be opened.
    Unusable {
        problem: String,
        /// Time of the next attempt.
        retry_at: Instant,
    },
}

/// A record that is complete.
#[derive(Debug)]
struct Record {
    context: Arc<RequestContext>,
    pid: u32,
    level: Level,
    text: String,
}

impl Record {
    /// Writes the record to the log of its site, of those that `log` knows.
    fn write(&self, log: &Log) {
        log.about(&*self.context).write_as(self.pid, self.level, &self.text);
    }
}

impl Traces {
    /// Starts without traces. Records without a slow log go to `log`.
    pub(super) fn new(link: Rc<Link>, log: Arc<Log>) -> Self {
        Traces {
            link,
            log,
            kept: KeptScripts::default(),
            requested: HashMap::new(),
            last_number: 0,
            files: HashMap::new(),
        }
    }

    /// Requests traces of an application's slow requests. Returns the time of the next check;
    /// `None` if `limits/slow` is 0.
    pub(super) fn trace_slow(
        &mut self,
        application: &config::Application,
        queue: &Queue,
        now: Instant,
    ) -> std::io::Result<Option<Instant>> {
        let Some(limit) = application.limits.slow else { return Ok(None) };
        let file = application.limits.slow_log.as_ref();
        let file = file.map(|path| path.to_string_lossy().into_owned());
        // Before it is needed: if it cannot be opened, that shows early.
        let mut retry = None;
        match file.as_ref().map(|path| (path, self.files.get(path))) {
            Some((path, None)) => self.open(path, None)?,
            Some((path, Some(File::Unusable { problem, retry_at }))) if *retry_at <= now => {
                self.open(path, Some(problem.clone()))?;
            }
            Some((_, Some(File::Unusable { retry_at, .. }))) => retry = Some(*retry_at),
            _ => {}
        }
        let (slow, pause) = queue.take_slow_requests(limit.as_micros() as u64);
        for slow in slow {
            self.request(Trace { slow, reason: Reason::Slow, file: file.clone() })?;
        }
        // A request that begins now is not slow before the limit has passed.
        let next = now + Duration::from_micros(pause).max(MIN_INTERVAL);
        Ok(Some(retry.map_or(next, |retry| retry.min(next))))
    }

    /// Requests the trace of a script that has run longer than it may. The caller kills its worker
    /// afterwards.
    pub(super) fn trace_overdue(&mut self, slow: SlowRequest) -> std::io::Result<()> {
        self.request(Trace { slow, reason: Reason::Overdue, file: None })
    }

    fn request(&mut self, trace: Trace) -> std::io::Result<()> {
        self.last_number = self.last_number.wrapping_add(1);
        let number = self.last_number;
        let (application, worker) = (trace.slow.instance, trace.slow.worker);
        self.requested.insert(number, trace);
        self.link.send(&ToSupervisor::Trace { application, worker, number })
    }

    /// Takes the stack of a requested trace.
    pub(super) fn on_traced(&mut self, instance: u32, number: u32, stack: &Stack) {
        if self.requested.get(&number).is_some_and(|trace| trace.slow.instance == instance)
            && let Some(trace) = self.requested.remove(&number)
        {
            self.write(&trace, stack);
        }
    }

    /// Writes the records of a worker that has died, or of all workers of an instance, without
    /// stacks.
    pub(super) fn on_gone(&mut self, instance: u32, worker: Option<WorkerId>) {
        let is_gone = |_: &u32, trace: &mut Trace| {
            trace.slow.instance == instance && worker.is_none_or(|w| w == trace.slow.worker)
        };
        let gone: Vec<_> = self.requested.extract_if(is_gone).collect();
        for (_, trace) in gone {
            self.write(&trace, &Err("its worker has ended".to_owned()));
        }
    }

    fn write(&mut self, trace: &Trace, stack: &Stack) {
        self.kept.add(&trace.slow, trace.reason == Reason::Overdue, stack);
        let SlowRequest { context, times, pid, .. } = &trace.slow;
        let seconds = |micros: u64| Duration::from_micros(micros).as_secs_f64();
        let (waited, ran) = (seconds(times.waited), seconds(times.ran));
        let (level, problem) = match trace.reason {
            Reason::Slow => (Level::Warn, "is slow".to_owned()),
            Reason::Overdue => {
                let key = howdah_config::limit_key(&context.application, "timeout");
                (Level::Error, format!("took longer than {key} allows and is ended"))
            }
        };
        let mut text =
            format!("{context}: {problem}: it waited {waited:.3} s and has run {ran:.3} s");
        match stack {
            Ok(calls) => calls.iter().for_each(|call| {
                text.push('\n');
                text.push_str(call);
            }),
            Err(why) => text += &format!("\nno stack: {why}"),
        }
        let record = Record { context: Arc::clone(context), pid: *pid, level, text };
        match trace.file.as_ref().and_then(|path| self.files.get_mut(path)) {
            Some(File::Open(log)) => record.write(log),
            Some(File::Opening { waiting, .. }) if waiting.len() < MAX_WAITING_RECORDS => {
                waiting.push(record)
            }
            _ => record.write(&self.log),
        }
    }

    // -- files --

    fn open(&mut self, path: &str, failed: Option<String>) -> std::io::Result<()> {
        self.files.insert(path.to_owned(), File::Opening { waiting: Vec::new(), failed });
        self.link.send(&ToSupervisor::OpenLog { path: path.to_owned() })
    }

    /// Returns the slow logs of a configuration that cannot be written or opened.
    pub(super) fn problems(&self, config: &config::Config) -> Vec<Found> {
        let named = config.applications.iter().filter_map(|app| app.limits.slow_log.as_deref());
        let found = named.filter_map(|path| {
            let name = path.to_string_lossy();
            let problem = match self.files.get(&*name)? {
                File::Open(log) => {
                    return Some(Found::out(PartKind::Log, log.name(), log.problem()?));
                }
                File::Opening { failed, .. } => failed.as_ref()?,
                File::Unusable { problem, .. } => problem,
            };
            let reason =
                format!("it cannot be opened, so the server's log has its records: {problem}");
            let part = Found::out(PartKind::Log, name, reason);
            Some(Found { extent: Extent::Stale, ..part })
        });
        found.collect()
    }

    /// Returns true if the supervisor was asked to open this slow log.
    pub(super) fn awaits(&self, path: &str) -> bool {
        matches!(self.files.get(path), Some(File::Opening { .. }))
    }

    /// Takes a slow log that was opened; without a file, `error` is the reason.
    pub(super) fn on_log_opened(&mut self, path: &str, error: &str, file: Option<OwnedFd>) {
        let state = match file {
            Some(file) => File::Open(Log::new(file).named(path)),
            None => {
                let retry_at = Instant::now() + RETRY_INTERVAL;
                File::Unusable { problem: error.to_owned(), retry_at }
            }
        };
        let log = match &state {
            File::Open(log) => log,
            _ => &self.log,
        };
        if let Some(File::Opening { waiting, .. }) = self.files.get(path) {
            waiting.iter().for_each(|record| record.write(log));
        }
        self.files.insert(path.to_owned(), state);
    }

    /// Closes all slow logs after log rotation. Each is opened again at the next check.
    pub(super) fn reopen(&mut self) {
        self.files.retain(|_, file| matches!(file, File::Opening { .. }));
    }
}
