//! Facts about applications: their parts of `/status`, and the reasons for the number of their
//! processes.

use serde::{Deserialize, Serialize};

use crate::{Named, Word};

/// The facts of an application that Unit has, too.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ApplicationStatus {
    /// Its processes.
    pub processes: Processes,
    /// Its requests.
    pub requests: ActiveRequests,
    /// Reason why it does not run, or its processes end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Processes of an application.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Processes {
    /// Processes that run, idle ones included.
    pub running: u64,
    /// Processes that are starting.
    pub starting: u64,
    /// Processes that run and have no request.
    pub idle: u64,
}

/// Requests of an application.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ActiveRequests {
    /// Requests that wait or run.
    pub active: u64,
}

/// The other facts of an application.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PhpStatus {
    /// `unloaded` (its next request loads PHP), `loading` or `loaded`.
    pub state: Word,
    /// Memory of its processes.
    pub memory: ApplicationMemory,
    /// `shared` if it shares the start of PHP with other applications, otherwise `own`; left out
    /// unless PHP is loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<Word>,
    /// Requests that were given up in an overloaded queue.
    #[serde(skip_serializing_if = "is_zero")]
    pub given_up: u64,
    /// Limits of all its processes together, if it has any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<LimitsStatus>,
    /// The worker script, if the application is resident and the script has started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<WorkerStatus>,
    /// OPcache, as a process has last reported it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opcache: Option<OpcacheStatus>,
    /// Its requests and processes since the start.
    pub activity: PhpActivity,
    /// Its processes, with the programs that scripts have started.
    pub processes: ProcessUse,
}

/// Processes of an application as the kernel lists them, at most a second ago: its prototype, those
/// that run scripts, and programs that scripts have started and that still run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessUse {
    /// Number of all these processes.
    pub all: u64,
    /// Those of them that scripts have started.
    pub programs: u64,
    /// Those of all that run on a processor or wait for one.
    pub runnable: u64,
    /// Their processor time in microseconds, those included that have ended. In contrast to that of
    /// finished requests, it grows during a request.
    pub cpu_us: u64,
    /// Their private memory in bytes, resident, neither files nor shared memory.
    pub private: u64,
}

/// Requests and processes of an application since the start, or since its settings have changed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PhpActivity {
    /// Requests that it was given.
    pub accepted: u64,
    /// Scripts that ran longer than the limit for slow ones.
    pub slow: u64,
    /// Scripts that were ended by the time limit.
    pub timed_out: u64,
    /// Times that requests began to wait while the number of processes was at its maximum.
    pub exhausted: u64,
    /// Processor time of finished requests in microseconds.
    pub cpu_us: u64,
    /// Maximum memory of a script in bytes.
    pub memory_peak: u64,
    /// Run time in microseconds of the script that has run longest of those that run.
    pub longest_us: u64,
    /// Bytes that scripts have written for the log, those included that were left out.
    pub log_bytes: u64,
    /// Lines of scripts, and about their requests, that were left out of the log.
    pub dropped_lines: u64,
    /// Processes that have ended after a request or with an error, by the reason.
    #[serde(skip_serializing_if = "Named::is_empty")]
    pub ends: Named<u64>,
    /// Processes that have ended with an error in the last minute, by the reason.
    #[serde(skip_serializing_if = "Named::is_empty")]
    pub failed_last_minute: Named<u64>,
    /// Times that all processes were replaced, by the reason: `asked` or `failed`.
    #[serde(skip_serializing_if = "Named::is_empty")]
    pub restarts: Named<u64>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Limits of all processes of an application together; null for none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LimitsStatus {
    /// Maximum memory in bytes.
    pub memory: Option<u64>,
    /// Maximum number of processors.
    pub cpu: Option<f64>,
    /// Maximum number of processes and threads.
    pub processes: Option<u32>,
    /// True if no control group keeps them, so that the server counts by itself; null if that is
    /// not known before PHP is loaded.
    pub approximate: Option<bool>,
}

/// Memory of an application in bytes, as last measured; shared pages count in proportion.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ApplicationMemory {
    /// Memory of its prototype.
    pub prototype: u64,
    /// Memory of all its processes.
    pub processes: u64,
}

/// The worker script of a resident application.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkerStatus {
    /// Number of the instance of the application; higher after each restart.
    pub generation: u32,
    /// Time that the script took until it waited for a request, in milliseconds.
    pub boot_ms: u64,
    /// Processes are forked from one in which the script has started.
    pub template: bool,
    /// Processes that have ended after a request since the start of the server, by the reason.
    pub retired: Named<u64>,
    /// Reason why processes run another script for each request; left out if they do not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
}

/// OPcache of an application, with the figures of `opcache_get_status()`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OpcacheStatus {
    /// OPcache keeps scripts.
    pub enabled: bool,
    /// Its memory.
    pub memory: OpcacheMemory,
    /// Number of scripts.
    pub scripts: u64,
    /// Number of scripts that were found.
    pub hits: u64,
    /// Number of scripts that were not found.
    pub misses: u64,
    /// Number of times that it was emptied.
    pub restarts: u64,
}

/// Memory of OPcache in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OpcacheMemory {
    /// Memory in use.
    pub used: u64,
    /// Memory that is free.
    pub free: u64,
    /// Memory of scripts that have changed.
    pub wasted: u64,
}

/// The number of an application's processes, and the reasons for it. Sizes are in bytes; unknown
/// values are null.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tuning {
    /// The application.
    pub application: String,
    /// `auto`, `static`, `ondemand` or `dynamic`.
    pub configured: Word,
    /// Maximum number of processes.
    pub max: u32,
    /// Processes that run.
    pub running: u32,
    /// Reason why the application does not run, or its processes end.
    pub problem: Option<String>,
    /// Measurements.
    pub measured: Measured,
    /// The result of automatic sizing.
    pub automatic: Automatic,
    /// The effect of more memory; null if there is none.
    pub more_memory: Option<MoreMemory>,
}

/// Measurements for the number of processes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Measured {
    /// Number of processors.
    pub processors: u32,
    /// Idle share of the processors' time.
    pub processors_idle: Option<f64>,
    /// Memory of the machine or of the control group.
    pub memory: u64,
    /// Configured maximum for all applications.
    pub memory_budget: Option<u64>,
    /// Memory of all applications.
    pub memory_used: u64,
    /// Memory for processes of this application.
    pub memory_for_processes: u64,
    /// Share for processes while other applications have requests.
    pub memory_share: Option<u64>,
    /// Percentage of the time during which processes wait for memory.
    pub memory_pressure: Option<f64>,
    /// The most that a process has recently taken.
    pub process_peak: Option<u64>,
    /// Share of the time of a request during which its process is on a processor.
    pub process_on_processor: Option<f64>,
    /// The most that a process can take, by `memory_limit`.
    pub script_may_take: u64,
    /// Memory of the prototype; shared pages count in proportion.
    pub prototype: u64,
    /// Memory of all processes; shared pages count in proportion.
    pub processes: u64,
}

/// The result of automatic sizing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Automatic {
    /// Maximum number of processes.
    pub processes: u32,
    /// The limit of the number: `memory`, `share`, `pressure`, `measurement`, `processors` or
    /// `max`.
    pub limit: Word,
    /// Number of processes that the memory is enough for.
    pub by_memory: u32,
    /// Number of processes that the processors are enough for.
    pub by_processors: u32,
    /// Memory that stays free.
    pub kept_free: u64,
}

/// The effect of more memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MoreMemory {
    /// Number of processes.
    pub processes: u32,
    /// Memory that is missing for them.
    pub bytes: u64,
}
