//! The last requests of clients.

use serde::{Deserialize, Serialize};

use crate::Word;

/// Maximum number of requests in an answer.
pub const MAX_REQUESTS: usize = 10_000;

/// Which of the last requests are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RequestFilter {
    /// The sites; any if `None`.
    pub sites: Option<Vec<String>>,
    /// The first and the last status; any if `None`.
    pub status: Option<(u16, u16)>,
    /// Minimum time of a request in microseconds.
    pub min_us: u64,
    /// `next` of a former answer: only later requests are wanted. Empty for all.
    pub after: String,
    /// Maximum number of requests: the last ones, at most [`MAX_REQUESTS`].
    pub max: usize,
}

/// The last requests, the oldest first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LastRequests {
    /// The requests.
    pub requests: Vec<LastRequest>,
    /// Where the next requests begin.
    pub next: String,
}

/// A finished request. Times are in seconds; those that it did not have are left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LastRequest {
    /// Its end, as a date of RFC 3339.
    pub time: String,
    /// Its id, as in the log; left out if its head was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Id of its trace; left out without telemetry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// The site, application or upstream, else the directory or listener.
    pub site: String,
    /// The listener.
    pub listener: String,
    /// The method.
    pub method: String,
    /// The target with masked secrets, cut if it is long.
    pub target: String,
    /// The status.
    pub status: u16,
    /// Bytes of the request.
    pub received: u64,
    /// Bytes of the response.
    pub sent: u64,
    /// Time from its first byte to the last one of the response.
    pub seconds: f64,
    /// Waiting for a process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<f64>,
    /// Waiting for the start of PHP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub php_start: Option<f64>,
    /// Run time of the script.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script: Option<f64>,
    /// Time with upstream servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream: Option<f64>,
    /// Time from the head of the response of a script or upstream to its last byte.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sending: Option<f64>,
    /// Processor time of the script.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<f64>,
    /// Peak memory of the script in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_peak: Option<u64>,
    /// Addresses of the upstream servers that got it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<String>,
    /// Reason why its script's process has died.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Result of the cache, in nginx's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<String>,
    /// `client` or `server`, whichever has not brought the response to its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut_by: Option<Word>,
}
