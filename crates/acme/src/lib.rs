//! Certificates that the server gets by itself (ACME, RFC 8555).
//!
//! All of it runs in the router, without rights: what an authority says comes from a stranger. The
//! supervisor keeps the files and runs the program that changes DNS records; neither it nor a
//! process with PHP sees an answer of an authority.
//!
//! 1. [`keeper`] has one task for each certificate. It sleeps until `schedule` says that it is
//!    time, and tries one authority after the other.
//! 2. [`order`] has a certificate made: account, order, proofs, certificate.
//! 3. [`challenges`](howdah_tls::challenges) is where the authority looks for the proofs, and where connections ask for
//!    certificates on demand. It is all that router threads know of this module.
//! 4. The certificate is stored, and the listeners take it; connections notice nothing.
//!
//! Whatever goes wrong, the old certificate stays in use, and the next try comes later.

#![forbid(unsafe_code)]

mod accounts;
mod asking;
mod client;
mod commands;
mod hook;
mod keeper;
mod made;
mod order;
mod schedule;
mod status;

pub use commands::{Command, Commands, Secret};
pub use hook::Run;
pub use keeper::Keeper;
pub use status::AcmeReport;
pub use status::Board;

/// What the names of stored accounts begin with.
pub const ACCOUNT_PREFIX: &str = "acme-account:";

/// Whether the server itself keeps what is stored under a name.
pub fn is_reserved(name: &str) -> bool {
    name.starts_with(howdah_config::Acme::PREFIX) || name.starts_with(ACCOUNT_PREFIX)
}
