//! Sites: a few lines and a directory become the parts of a document.
//!
//! [`compile`] finds out what is in the directory, as `howdah serve DIR` does, and writes the
//! routes, the application, the names and the certificates of the site in the grammar of the
//! document. Nothing that runs afterwards knows sites.
#![forbid(unsafe_code)]

mod compile;
mod encryption;
mod options;
pub mod sandbox;

pub use compile::{Machine, compile};
