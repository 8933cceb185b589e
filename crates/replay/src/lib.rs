//! The proof of an import: asks the old server and the new one the same, and compares the responses.
//!
//! 1. [`requests`] takes requests from an access log or a list of URLs, [`links`] from the pages of
//!    the old server. All are GET or HEAD.
//! 2. [`moved`] turns a document into one that can be served beside the old server.
//! 3. [`client`] asks.
//! 4. [`compare`] names the differences in status, fields and body.
#![forbid(unsafe_code)]

mod client;
mod compare;
mod links;
pub mod moved;
pub mod requests;
mod run;

pub use client::Server;
pub use compare::Difference;
pub use requests::Request;
pub use run::{Outcome, Plan, run};
