//! Profiles: the stacks that the scripts of a site were found with.

use serde::{Deserialize, Serialize};

use crate::Word;

/// What a profile is made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfileOrder {
    /// Name of the site or of the application.
    pub site: String,
    /// Duration in seconds, from 1 to [`ProfileOrder::MAX_SECONDS`].
    pub seconds: u32,
    /// Only requests whose target begins so.
    pub url: String,
    /// Count the processor time of scripts instead of the time on the wall.
    pub is_processor_time: bool,
}

impl ProfileOrder {
    /// Maximum duration in seconds.
    pub const MAX_SECONDS: u32 = 300;
}

/// A call of a stack: numbers of strings, and a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProfileFrame(
    /// Name of the function.
    pub u32,
    /// Path of its file; the empty string for a function of PHP.
    pub u32,
    /// The line that ran; 0 if unknown.
    pub u32,
);

/// A node of the tree of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfileNode(
    /// Number of the node that has called it, counted from 1; 0 for none. Smaller than its own.
    pub u32,
    /// Number of its frame.
    pub u32,
    /// Ticks with this call as the innermost.
    pub u64,
);

/// The stacks of a profile, as a tree of calls.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Profile {
    /// Name of the site or of the application.
    pub site: String,
    /// `wall` or `processor`.
    pub clock: Word,
    /// Time of a tick in microseconds.
    pub period_us: u32,
    /// Duration in milliseconds.
    pub milliseconds: u64,
    /// The time at which it began, in seconds since 1970.
    pub began: u64,
    /// Number of requests that were sampled.
    pub requests: u64,
    /// Number of ticks, with those whose stacks are not known.
    pub ticks: u64,
    /// Ticks whose stacks are not known, or not whole, because there were too many of them.
    pub lost: u64,
    /// Names of functions and paths of files.
    pub strings: Vec<String>,
    /// Places in scripts.
    pub frames: Vec<ProfileFrame>,
    /// The tree of calls.
    pub nodes: Vec<ProfileNode>,
}
