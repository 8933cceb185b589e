//! The last slow scripts.

use serde::{Deserialize, Serialize};

/// The last slow scripts, the newest first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SlowScripts {
    /// The scripts.
    pub scripts: Vec<SlowScript>,
}

/// A script that has run longer than `limits/slow`, or that `limits/timeout` has ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SlowScript {
    /// When its stack was read, as a date of RFC 3339.
    pub time: String,
    /// Id of its request, as in the log.
    pub id: String,
    /// The application.
    pub application: String,
    /// The site that its request counts for.
    pub site: String,
    /// Method of its request.
    pub method: String,
    /// Target of its request with masked secrets, cut if it is long.
    pub target: String,
    /// Path of the script.
    pub script: String,
    /// Seconds that the request waited for a process.
    pub waited: f64,
    /// Seconds that the script had run.
    pub ran: f64,
    /// `limits/timeout` has ended it.
    pub is_ended: bool,
    /// Its calls, the innermost first.
    pub stack: Vec<String>,
    /// Reason why the stack is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}
