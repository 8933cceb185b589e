//! The content of `/status`. The names that NGINX Unit has are those of Unit 1.35.

use serde::{Deserialize, Serialize};

use crate::applications::{ApplicationStatus, PhpStatus};
use crate::caches::CacheStatus;
use crate::jobs::Jobs;
use crate::usage::SiteTraffic;
use crate::{Named, Word};

/// The state of the server. Clients of Unit subtract the numbers of two states, so an unknown
/// number is left out rather than null.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    /// The versions of PHP that can run applications.
    pub modules: Modules,
    /// Connections of clients to all listeners.
    pub connections: Connections,
    /// Requests of clients.
    pub requests: Requests,
    /// The facts of applications that Unit has, too.
    pub applications: Named<ApplicationStatus>,
    /// The other facts of applications.
    pub php: Named<PhpStatus>,
    /// Memory of all PHP processes.
    pub memory: MemoryStatus,
    /// The server is about to end, and accepts connections for a last time.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_leaving: bool,
    /// The program that serves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<ProgramStatus>,
    /// Restrictions of the server's processes.
    pub protection: Protection,
    /// Upstreams.
    #[serde(skip_serializing_if = "Named::is_empty")]
    pub upstreams: Named<UpstreamStatus>,
    /// Listeners by their addresses, in the order of the document.
    #[serde(skip_serializing_if = "Named::is_empty")]
    pub listeners: Named<ListenerStatus>,
    /// Certificates that listeners use, and those that the server obtains itself.
    #[serde(skip_serializing_if = "Named::is_empty")]
    pub certificates: Named<CertificateStatus>,
    /// Caches.
    #[serde(skip_serializing_if = "Named::is_empty")]
    pub caches: Named<CacheStatus>,
    /// Limits: zones, and rules by their paths in the document.
    #[serde(skip_serializing_if = "Named::is_empty")]
    pub limits: Named<LimitStatus>,
    /// Jobs of applications.
    #[serde(skip_serializing_if = "Named::is_empty")]
    pub jobs: Jobs,
    /// Requests of each site in the last minute. Sites without any are missing.
    #[serde(skip_serializing_if = "Named::is_empty")]
    pub sites: Named<SiteTraffic>,
    /// The server through which several servers share purges and limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterStatus>,
    /// Spans and metrics for a server of OpenTelemetry; omitted without `settings/telemetry`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub telemetry: Option<TelemetryStatus>,
    /// Parts of the configuration that are out: they cannot run, alone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub out: Vec<PartStatus>,
    /// Parts of the configuration that will be out soon, or are busy.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<PartStatus>,
    /// The document in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub configuration: Option<ConfigurationStatus>,
    /// Files of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<FileStatus>,
    /// The document at its source, if another one is served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub document: Option<DocumentStatus>,
    /// The process of the server that was replaced last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replaced: Option<Replaced>,
}

/// Unit's modules of languages.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Modules {
    /// PHP.
    #[serde(skip_serializing_if = "Versions::is_empty")]
    pub php: Versions,
}

/// Versions: an object for one, an array for several, as in Unit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Versions {
    /// A single version.
    One(Module),
    /// None, or several versions.
    Several(Vec<Module>),
}

impl Default for Versions {
    fn default() -> Self {
        Versions::Several(Vec::new())
    }
}

impl FromIterator<Module> for Versions {
    fn from_iter<I: IntoIterator<Item = Module>>(modules: I) -> Self {
        let mut all: Vec<_> = modules.into_iter().collect();
        match all.pop() {
            Some(only) if all.is_empty() => Versions::One(only),
            last => Versions::Several(all.into_iter().chain(last).collect()),
        }
    }
}

impl Versions {
    /// Returns all versions.
    pub fn all(&self) -> &[Module] {
        match self {
            Versions::One(only) => std::slice::from_ref(only),
            Versions::Several(all) => all,
        }
    }

    fn is_empty(&self) -> bool {
        self.all().is_empty()
    }
}

/// A version of PHP.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Module {
    /// The version, as `8.2.30`.
    pub version: String,
    /// The program that runs it.
    pub lib: String,
}

/// Connections of clients.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Connections {
    /// Accepted since the start.
    pub accepted: u64,
    /// Open, with a request in progress.
    pub active: u64,
    /// Open, without a request.
    pub idle: u64,
    /// Closed since the start.
    pub closed: u64,
}

/// Requests of clients.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Requests {
    /// Requests since the start.
    pub total: u64,
}

/// Memory of all PHP processes, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryStatus {
    /// Memory in use, as last measured; shared pages count in proportion. Includes that of former
    /// configurations.
    pub used: u64,
    /// The maximum from `settings.memory`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<u64>,
}

/// The program that serves.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProgramStatus {
    /// Version of the program, such as `1.2.3`.
    pub version: String,
    /// Seconds since the start of the router.
    pub uptime: u64,
    /// Start of the router, with which all counters begin, as an HTTP date.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<String>,
}

/// The document in use.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConfigurationStatus {
    /// Its number, which grows with each change.
    pub generation: u32,
    /// The time at which it came into use, as an HTTP date.
    pub applied: Option<String>,
}

/// Files of the server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FileStatus {
    /// The file or directory that a reload reads the document from; left out if the control API is
    /// its source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub document: Option<String>,
    /// The log: a file, `stderr` or `journald`.
    pub log: String,
}

/// Restrictions of the server's processes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Protection {
    /// Version of the kernel's Landlock ABI; 0 if it has none.
    pub landlock: u32,
    /// The router.
    pub router: ProcessProtection,
    /// The applications.
    pub applications: Named<ProcessProtection>,
}

/// Restrictions of a process. Clients of Unit compare strings and lists, and subtract all other
/// values.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessProtection {
    /// Names of the restrictions.
    pub restrictions: Vec<Word>,
    /// Namespaces of its own.
    pub namespaces: Vec<Word>,
    /// Its user; left out for an application whose document names none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

/// An upstream.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct UpstreamStatus {
    /// Its servers by their addresses.
    pub servers: Named<ServerStatus>,
}

/// A server of an upstream.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerStatus {
    /// `up`, `failing` (in a pause after failed requests), `unhealthy` (health checks), `draining`,
    /// or `unknown` if its name has no address.
    pub state: Word,
    /// Requests that were passed to it.
    pub requests: ServerRequests,
    /// Requests that failed.
    pub failures: u64,
}

/// Requests to a server of an upstream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerRequests {
    /// Requests in progress.
    pub active: u64,
    /// Requests since the start.
    pub total: u64,
}

/// A listener.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ListenerStatus {
    /// Its handshakes, with TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<Handshakes>,
}

/// TLS handshakes of a listener since the start.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Handshakes {
    /// All handshakes that succeeded.
    pub handshakes: u64,
    /// Handshakes that have resumed a session.
    pub resumed: u64,
    /// Handshakes that have failed.
    pub failed: u64,
    /// Handshakes that succeeded, by version of TLS.
    #[serde(skip_serializing_if = "Named::is_empty")]
    pub versions: Named<u64>,
}

/// A certificate.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CertificateStatus {
    /// The names in the certificate.
    pub names: Vec<String>,
    /// The time of expiry as an HTTP date; `None` if the certificate does not exist yet.
    pub expires: Option<String>,
    /// The state of renewal, if the server obtains the certificate itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub renewal: Option<Renewal>,
}

/// The state of a certificate that the server obtains itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Renewal {
    /// The time of the next attempt as an HTTP date; `None` if an attempt is running.
    pub next: Option<String>,
    /// Number of failures since the last success.
    pub failures: u32,
    /// The error of the last attempt.
    pub error: Option<String>,
}

/// Counters of a limit since its zone was made.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LimitStatus {
    /// Requests with a key, of the rules of the zone.
    pub requests: u64,
    /// Requests that had to wait.
    pub delayed: u64,
    /// Refused requests.
    pub refused: u64,
    /// Refused requests that were not answered.
    pub closed: u64,
    /// Requests that a dry run would have refused.
    pub dry_run: u64,
    /// Penalties that began.
    pub penalties: u64,
    /// Keys with a debt or a refusal that is not forgotten.
    pub keys: u64,
    /// Requests whose key was not kept because the table was full.
    pub untracked: u64,
    /// Keys with the most refusals, those with most first.
    pub top: Vec<RefusedKey>,
}

/// A key with refusals.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RefusedKey {
    /// The key.
    pub key: String,
    /// Refusals, at most.
    pub refused: u64,
    /// Number by which `refused` may be too high.
    pub error: u64,
    /// Seconds since the last refusal.
    pub seconds: u64,
}

/// The server through which several servers share purges and limits. Counters begin when the
/// configuration names it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClusterStatus {
    /// Its address.
    pub server: String,
    /// The server answers in time.
    pub connected: bool,
    /// Requests that were counted for limits.
    pub requests: CountedRequests,
    /// Purges of the other servers and for them.
    pub purges: SharedPurges,
    /// Messages and answers that were invalid.
    pub invalid: u64,
}

/// Spans and metrics for a server of OpenTelemetry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TelemetryStatus {
    /// Spans that were lost since the start of the server.
    pub spans_lost: u64,
}

/// Requests that were counted for limits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CountedRequests {
    /// Requests that were counted for all servers together.
    pub counted: u64,
    /// Requests that were counted for this server alone, as the other one did not answer.
    pub alone: u64,
}

/// Purges that several servers share.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SharedPurges {
    /// Purges that were passed on.
    pub sent: u64,
    /// Purges that came from other servers.
    pub received: u64,
    /// Number of times that more was purged, as purges may have been missed.
    pub missed: u64,
}

/// A part of the configuration that cannot run, or about which there is a warning.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PartStatus {
    /// Kind: `application`, `listener`, `certificate` and others.
    pub kind: Word,
    /// Name in the configuration.
    pub name: String,
    /// File of a site.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Reason why it is out, and the remedy.
    pub reason: String,
    /// Since when, as an HTTP date.
    pub since: Option<String>,
}

/// The document at its source.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DocumentStatus {
    /// Since when it is refused, and why.
    pub refused: Refused,
}

/// The refusal of a document.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Refused {
    /// Since when, as a date of RFC 3339.
    pub since: String,
    /// The reason.
    pub reason: String,
}

/// A process of the server that was replaced.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Replaced {
    /// When, as a date of RFC 3339.
    pub at: String,
    /// Its kind and number, and why it was replaced.
    pub reason: String,
}

#[cfg(test)]
mod tests;
