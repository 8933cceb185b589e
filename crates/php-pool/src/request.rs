//! Identifiers of a request: its key for threads and workers, and its description for the log.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use howdah_config::Variable;
use howdah_config::include::SHARED;
use howdah_http::handling::{Fact, Facts, ScriptFacts, ScriptMessages};
use howdah_http::message::{ShownRequestId, shown_target};
use howdah_http::trace_context::TraceId;
use howdah_sys::log::{Level, Log, Subject};
use howdah_sys::log_rate::LogRate;
use howdah_wire::frame::RequestUsage;

use crate::profile::Profile;
use crate::times::Times;

pub use super::queue_order::Flow;

/// Identifies a request: router thread, generation and index of its entry there. Never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RequestKey(pub(super) u64);

impl RequestKey {
    /// Returns the key of entry `index` of router thread `thread` (below 64) in its `generation`th
    /// use.
    pub fn new(thread: u32, generation: u32, index: u32) -> Self {
        let generation = u64::from(generation & 0x00ff_ffff);
        RequestKey(u64::from(thread + 1) << 56 | generation << 32 | u64::from(index))
    }

    /// Returns the number of the router thread.
    pub fn thread(self) -> u32 {
        ((self.0 >> 56) as u32).wrapping_sub(1)
    }

    /// Returns the index of the entry.
    pub fn index(self) -> usize {
        self.0 as u32 as usize
    }
}

/// Maximum length in bytes of what is remembered about the death of a worker.
const MAX_FAILURE: usize = 200;

/// The caches whose responses a script may purge.
pub trait Purger: fmt::Debug + Send + Sync {
    /// Purges the responses with one of the tags; `is_all`: all. `is_soft`: they become stale
    /// instead of being removed.
    fn purge(&self, is_all: bool, is_soft: bool, tags: Vec<Vec<u8>>);
}

/// Description of a request for the log and the status page.
#[derive(Debug, Clone)]
pub struct RequestContext {
    /// Name of the application.
    pub application: Arc<str>,
    /// Site that the request counts for; several sites may share an application.
    pub site: Arc<str>,
    /// Request id.
    pub id: u64,
    /// Id of the trace, if another server has begun it; one that begins here has the id of the
    /// request.
    pub trace: Option<TraceId>,
    /// Method.
    pub method: Bytes,
    /// Request target.
    pub target: Bytes,
    /// Path of the script.
    pub script: Arc<Path>,
    /// Authenticated user.
    pub user: Option<Bytes>,
    /// Length of the body in bytes.
    pub length: u64,
    /// Flow in the queue.
    pub flow: Flow,
    /// Waiting and run time, once the script has ended.
    pub times: OnceLock<Times>,
    /// Process id of the worker, once the script has ended.
    pub process: OnceLock<u32>,
    /// Processor time and memory, once the script has ended.
    pub usage: OnceLock<RequestUsage>,
    /// How its worker has died, in a line.
    pub failure: OnceLock<Box<str>>,
    /// The application had no process when the request was queued.
    pub has_started_php: OnceLock<()>,
    /// The profile that its samples belong to.
    pub profile: Option<Arc<Profile>>,
    /// Place for messages of the script for its web server; `None` if they are only for the log.
    pub messages: Option<Arc<ScriptMessages>>,
    /// The caches of the request's application; `None` if there are none.
    pub purger: Option<Arc<dyn Purger>>,
}

impl RequestContext {
    /// Remembers how the worker has died, from the text for the log: its first line, and the innermost
    /// call if the worker has told it.
    pub(crate) fn note_failure(&self, reason: &str) {
        let mut lines = reason.lines();
        let mut failure = lines.next().unwrap_or_default().to_owned();
        if let Some(call) = lines.find_map(|line| line.strip_prefix("#0 ")) {
            failure.push_str(", in ");
            failure.push_str(call);
        }
        failure.truncate(failure.floor_char_boundary(MAX_FAILURE));
        let _ = self.failure.set(failure.into());
    }

    /// Logs a problem with the request, within the limit of its application's queue.
    pub(crate) fn log_error(&self, log: &Log, limit: &LogRate, problem: fmt::Arguments<'_>) {
        let problem = format_args!("{self}: {problem}");
        log.about(self).write_shortened(limit, Level::Error, problem);
    }
}

impl Subject for RequestContext {
    fn site(&self) -> &str {
        &self.site
    }

    fn application(&self) -> Option<&str> {
        Some(&self.application)
    }

    fn request_id(&self) -> Option<String> {
        Some(ShownRequestId(self.id).to_string())
    }
}

impl Facts for RequestContext {
    fn value(&self, variable: &Variable) -> Option<Fact<'_>> {
        let time = match variable {
            Variable::QueueTime => self.times.get()?.waited,
            Variable::PhpTime => self.times.get()?.ran,
            Variable::ScriptFilename => return self.script.to_str().map(Fact::Text),
            _ => return None,
        };
        Some(Fact::Time(Duration::from_micros(time)))
    }

    fn failure(&self) -> Option<&str> {
        self.failure.get().map(|failure| &**failure)
    }

    fn process(&self) -> Option<u32> {
        self.process.get().copied()
    }

    fn script(&self) -> Option<ScriptFacts> {
        let (times, usage) = (self.times.get()?, self.usage.get().copied().unwrap_or_default());
        Some(ScriptFacts {
            queued_at_us: times.queued,
            waited_us: times.waited,
            has_started_php: self.has_started_php.get().is_some(),
            ran_us: times.ran,
            cpu_us: usage.cpu_us,
            peak_memory: usage.peak_memory,
        })
    }
}

impl fmt::Display for RequestContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\" request {}", self.application, ShownRequestId(self.id))?;
        if let Some(trace) = self.trace {
            write!(f, " of trace {trace}")?;
        }
        if self.application.starts_with(SHARED) {
            write!(f, " of site \"{}\"", self.site)?;
        }
        write!(
            f,
            ": {} {} ({})",
            shown_target(&self.method),
            shown_target(&self.target),
            self.script.display()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_remembered_in_a_short_line_and_the_first_one_counts() {
        let noted = |reasons: &[&str]| {
            let context = RequestContext {
                application: "a".into(),
                site: "a".into(),
                id: 1,
                trace: None,
                method: Bytes::from_static(b"GET"),
                target: Bytes::from_static(b"/?token=s3cret"),
                script: Path::new("/a.php").into(),
                user: None,
                length: 0,
                flow: Flow::default(),
                times: OnceLock::new(),
                process: OnceLock::new(),
                usage: OnceLock::new(),
                failure: OnceLock::new(),
                has_started_php: OnceLock::new(),
                profile: None,
                messages: None,
                purger: None,
            };
            assert!(context.to_string().ends_with("GET /?token=*** (/a.php)"), "{context}");
            reasons.iter().for_each(|reason| context.note_failure(reason));
            context.failure().unwrap_or_default().to_owned()
        };
        let report =
            "worker process 8 exited on signal 11\nlast messages:\nx\nsignal 11\n#0 f()\n#1 g()";
        assert_eq!(noted(&[report, "x"]), "worker process 8 exited on signal 11, in f()");
        assert_eq!(noted(&["it has ended"]), "it has ended");
        assert_eq!(noted(&[]), "");
        let long = noted(&[&format!("x\n#0 {}", "é".repeat(500))]);
        assert!(long.len() <= MAX_FAILURE && long.starts_with("x, in éé"), "{long}");
    }
}
