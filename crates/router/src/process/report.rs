//! Reports about the running server, for the control API.

use std::time::{Duration, SystemTime};

use howdah_acme::AcmeReport;
use howdah_cluster::ClusterReport;
use howdah_config::Processes;
use howdah_limits::ranking::Ranked;
use howdah_limits::zone::ZoneReport;
use howdah_php_pool::sizing::{Decision, Measured};
use howdah_tls::CertificateInUse;
use howdah_upstream::servers::server::ServerReport;
use howdah_wire::frame::{OpcacheUsage, Retirement};

use super::out::OutPart;
use super::sandbox::{ProcessProtection, Protection};

/// State of the server at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Versions of PHP, and the programs that run them.
    pub php: Vec<(String, String)>,
    /// The time since which the router counts: the start of the server, or that of a router that replaced
    /// a failed one.
    pub started_at: Option<SystemTime>,
    /// Time since then.
    pub uptime: Duration,
    /// Names of all listeners.
    pub listeners: Vec<String>,
    /// Connections accepted since the start.
    pub accepted: u64,
    /// Open connections with a request in progress.
    pub active: u64,
    /// Open connections without a request.
    pub idle: u64,
    /// Connections closed since the start.
    pub closed: u64,
    /// Requests since the start.
    pub requests: u64,
    /// Parts of the configuration that are out.
    pub out: Vec<OutPart>,
    /// Applications.
    pub pools: PoolsReport,
    /// Names of upstreams, each with its servers.
    pub upstreams: Vec<(String, Vec<ServerReport>)>,
    /// Certificates that the server obtains itself.
    pub acme: Vec<AcmeReport>,
    /// Listeners with TLS.
    pub tls: Vec<TlsReport>,
    /// Limits, sorted by name.
    pub limits: Vec<LimitReport>,
    /// Caches, sorted by name.
    pub caches: Vec<CacheReport>,
    /// The server that several servers share, if the configuration names one.
    pub cluster: Option<ClusterReport>,
    /// Isolation of the server's processes from each other.
    pub protection: Protection,
    /// Names of applications, each with its isolation.
    pub protected: Vec<(String, ProcessProtection)>,
}

/// Name of a cache, and its counters by their names.
pub type CacheReport = (String, Vec<(&'static str, u64)>);

/// A zone of limits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LimitReport {
    /// Its counters.
    pub zone: ZoneReport,
    /// Keys with the most refusals, and the time since the last one of each.
    pub top: Vec<(Ranked, Duration)>,
}

/// TLS of a listener.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsReport {
    /// Name of the listener.
    pub name: String,
    /// Handshakes since the start.
    pub handshakes: u64,
    /// Handshakes that have resumed a session.
    pub resumed: u64,
    /// Handshakes that have failed.
    pub failed: u64,
    /// Configured certificates.
    pub certificates: Vec<CertificateInUse>,
}

/// State of the applications at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PoolsReport {
    /// Applications, sorted by name.
    pub applications: Vec<ApplicationReport>,
    /// Memory of all PHP processes.
    pub memory: MemoryReport,
}

/// Memory of all PHP processes at one moment, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryReport {
    /// Configured maximum; `None` without one.
    pub budget: Option<u64>,
    /// Memory in use, as last measured; shared pages in proportion. Includes that of former
    /// configurations.
    pub used: u64,
}

/// State of an application at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApplicationReport {
    /// Name of the application.
    pub name: String,
    /// `unloaded` (its next request loads PHP), `loading` or `loaded`.
    pub state: &'static str,
    /// Whether it shares the start of PHP with other applications; `None` unless PHP is loaded.
    pub shares_start: Option<bool>,
    /// Memory of the prototype in bytes, as last measured; shared pages in proportion.
    pub prototype_bytes: u64,
    /// Memory of all workers in bytes, as last measured; shared pages in proportion.
    pub worker_bytes: u64,
    /// Running workers.
    pub running: u64,
    /// Workers that are being started.
    pub starting: u64,
    /// Workers without a request.
    pub idle: u64,
    /// Requests that wait or run.
    pub active: u64,
    /// Reason for which it does not run, or for which its workers end.
    pub problem: Option<String>,
    /// Requests that were given up in an overloaded queue.
    pub given_up: u64,
    /// The last start of its worker script, if it is resident.
    pub boot: Option<BootReport>,
    /// Workers that have ended after a request, by the reason.
    pub retired: Vec<(Retirement, u64)>,
    /// State of OPcache, as a worker has last reported it.
    pub opcache: Option<OpcacheUsage>,
}

/// A start of the worker script of a resident application.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BootReport {
    /// Number of the instance of the application; higher after each restart.
    pub generation: u32,
    /// Time that the script took until it waited for a request, in microseconds.
    pub boot_us: u64,
    /// Workers are forked from a process in which the script has started.
    pub has_template: bool,
    /// Why workers run another script for each request; `None` if they do not.
    pub fallback: Option<String>,
}

/// Number of an application's workers, and the values that it is derived from.
#[derive(Debug, Clone, PartialEq)]
pub struct Tuning {
    /// Configured numbers.
    pub processes: Processes,
    /// Reason for which it does not run, or for which its workers end.
    pub problem: Option<String>,
    /// Running workers.
    pub running: u32,
    /// Measurements.
    pub measured: Measured,
    /// Result of automatic sizing.
    pub decision: Decision,
    /// Memory of the prototype in bytes, shared pages in proportion.
    pub prototype: u64,
    /// Memory of all workers in bytes, shared pages in proportion.
    pub workers: u64,
    /// Memory of all PHP processes.
    pub memory: MemoryReport,
}
