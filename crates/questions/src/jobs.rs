//! Jobs of applications.

use serde::{Deserialize, Serialize};

use crate::{Named, Word};

/// The jobs of applications, by the names of the applications and of the jobs.
pub type Jobs = Named<Named<JobStatus>>;

/// The state of a job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobStatus {
    /// `running`: a process runs; `waiting`: one starts later; `paused`; `over`: the last one has
    /// ended, and no other one follows.
    pub state: Word,
    /// Process ids.
    pub processes: Vec<u32>,
    /// Number of runs since the start of the server or the last change of the job.
    pub runs: u64,
    /// Number of these that have failed.
    pub failed: u64,
    /// Number of runs of a timer that were left out, because another one was not over.
    pub left_out: u64,
    /// Start of the last run, in seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_start: Option<u64>,
    /// Duration of the last run that has ended, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_duration: Option<u64>,
    /// The last end in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_end: Option<String>,
    /// Next run of a timer, in seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_run: Option<u64>,
}

/// A line of the output of a job, or about its ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobLine {
    /// Seconds since 1970.
    pub at: u64,
    /// The text.
    pub text: String,
}

/// An order to a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobOrder {
    /// Start it now.
    Run,
    /// Start no process of it any more; end those of a job without times.
    Pause,
    /// End a pause.
    Resume,
}

/// Outcome of an order to a job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobOrdered {
    /// The reason why it is not carried out.
    pub problem: Option<String>,
}
