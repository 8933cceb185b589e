//! Certificates from ACME authorities (RFC 8555): orders, accounts, renewal.
//!
//! All of this runs in the router, which has no privileges: an authority's responses are input from
//! the network. The supervisor stores certificates without parsing them and runs the program that
//! changes DNS records; neither the supervisor nor a process with PHP parses an authority's
//! response.
//!
//! 1. [`renewer`] starts one task for each certificate of the configuration, and for on-demand
//!    names that [`on_demand`] approves.
//! 2. [`renewal`] is that task. It sleeps until [`schedule`] says that renewal is due, and tries
//!    one authority after the other.
//! 3. [`order`] obtains one certificate with an account of [`accounts`]; [`challenges`] proves the
//!    names. Router threads serve the proofs from
//!    [`ChallengeStore`](howdah_tls::challenge_answers::ChallengeStore).
//! 4. The certificate is stored, and the listeners take it; open connections are not affected.
//!
//! After any failure the old certificate stays in use, and the next attempt comes later.

#![forbid(unsafe_code)]

mod accounts;
mod authorizations;
mod certificate;
mod client;
mod commands;
mod context;
mod dns_record;
mod failure;
mod gate;
mod on_demand;
mod order;
mod renewal;
mod renewer;
mod request;
mod schedule;
mod signing_request;
mod status;

pub use commands::{Command, Commands, Run, Secret};
pub use renewer::Renewer;
pub use status::{AcmeReport, AcmeReports};
