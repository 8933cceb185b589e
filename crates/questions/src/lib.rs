//! Questions to the running server, and their answers: each fact that the control API shows is one
//! field here. The router fills the fields in, the command line reads them.
//!
//! Questions and answers travel as JSON between processes. A reader takes a missing member for its
//! default and ignores unknown ones, so that the commands of one version understand the server of
//! another.
#![forbid(unsafe_code)]

mod bytes;
mod purge;
mod question;

pub use purge::Purge;
pub use question::{Question, Subject};
