//! Questions to the running server, and their answers: each fact that the control API shows is one
//! field here. The router fills the fields in, the command line reads them.
//!
//! Questions and answers travel as JSON between processes. A reader takes a missing member for its
//! default and ignores unknown ones, so that the commands of one version understand the server of
//! another.
#![forbid(unsafe_code)]

mod applications;
mod bytes;
mod caches;
mod jobs;
mod last_requests;
mod profile;
mod purge;
mod question;
mod readiness;
mod slow_scripts;
mod status;
mod usage;

use std::borrow::Cow;

use indexmap::IndexMap;

pub use applications::*;
pub use caches::*;
pub use jobs::*;
pub use last_requests::*;
pub use profile::{Profile, ProfileFrame, ProfileNode, ProfileOrder};
pub use purge::Purge;
pub use question::{Question, Subject};
pub use readiness::obstacle;
pub use slow_scripts::{SlowScript, SlowScripts};
pub use status::*;
pub use usage::{SiteTotal, SiteTraffic, SiteUsage, Usage};

/// Parts by their names, in the order in which they are shown.
pub type Named<T> = IndexMap<String, T>;

/// A word of a fixed set, which the reader does not have to know.
pub type Word = Cow<'static, str>;
