//! TLS with clients and with upstream servers, and the store of ACME challenges.
//!
//! - A [`TlsListener`] is built from a listener's settings and the files that they name
//!   ([`CertificateFiles`]). Its certificates can be replaced while it runs
//!   ([`TlsListener::renew`]).
//! - [`handshake()`] reads a client's hello and completes the handshake with the certificate
//!   ([`certificates`]) and the client certificate rule ([`clients`]) for the name in it.
//!   [`sessions`] and [`tickets`] resume sessions.
//! - A [`TlsClient`] connects to upstream servers.
//! - A [`AnonymousClient`] connects to mail servers.
//! - [`challenges`] has the answers to ACME challenges, for handshakes and requests.
//!
//! Keys stay in this process and are never part of a message or of a `Debug` text.

#![forbid(unsafe_code)]

mod anonymous_client;
pub mod authorities;
mod certificates;
pub mod challenge_answers;
mod client;
mod clients;
mod facts;
mod handshake;
mod http3;
mod listener;
mod material;
mod parameters;
pub mod proof;
mod sessions;
pub mod stored;
mod stream;
mod tickets;
mod validity;

pub use anonymous_client::AnonymousClient;
pub use certificates::{CertificateInUse, UnusableCertificate, certified, names};
pub use client::{ClientProtocol, TlsClient, TlsClients, client_sources};
pub use facts::Negotiated;
pub use handshake::{HandshakeOutcome, handshake};
pub use http3::Choice;
pub use listener::{Counters, TlsListener, sources};
pub use material::{CertificateFiles, Source};
pub use stream::TlsConnection;
pub use validity::{Untimely, Validity};

#[cfg(test)]
mod tests;
