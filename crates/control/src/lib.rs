//! The control process, and the control API that it serves: from requests to commands, and from
//! outcomes to responses.
//!
//! Paths, statuses and texts are NGINX Unit's, so that its clients work.
//!
//! 1. [`guard`] refuses requests of browsers, and requests without the [`Token`] where one is
//!    required.
//! 2. [`translate`] turns method, path and body into one [`Command`].
//! 3. [`process`] executes the command. For a change, [`Store::prepare`] makes the next
//!    configuration; it becomes the running one only when sockets and applications are ready and it
//!    is stored, and a failure at any step leaves everything as it was. Changes are carried out one
//!    at a time.
//! 4. The outcome is a [`Done`], a [`Refusal`] or a value; each becomes a [`Reply`].
//!
//! The dashboard process asks the router through [`Reader`], which only reads.
//!
//! Only [`process`] and the files of the [`socket`] and of its token do I/O. Requests are untrusted
//! input: none makes this crate panic, recurse without bound or take memory out of proportion to
//! its size.
#![forbid(unsafe_code)]

#[macro_use(eprintln)]
extern crate howdah_sys;

mod bundle;
mod caches;
mod certificate;
mod change;
mod command;
mod guard;
mod own_sites;
mod path;
mod print;
mod private_key;
pub mod process;
mod refusal;
mod reply;
mod requests;
pub mod socket;
mod store;
mod token;
pub mod token_file;
mod translate;
mod validity;

pub use bundle::{Bundle, MAX_BUNDLE};
pub use certificate::{CertificateName, list_certificates};
pub use change::Change;
pub use command::Command;
pub use guard::{Transport, guard, is_this_machine, needs_token};
pub use path::Path;
pub use print::print;
pub use process::connections::{ConnectionSlot, Connections};
pub use process::reader::Reader;
pub use refusal::Refusal;
pub use reply::{Done, Reply};
pub use store::{Next, Prepared, Store};
pub use token::{MAX_TOKEN, Token};
pub use translate::translate;
pub use validity::{Validity, validity};

/// Maximum size of a request body in bytes: that of a document.
pub const MAX_BODY: usize = howdah_config::json::MAX_SIZE;

#[cfg(test)]
mod tests;
