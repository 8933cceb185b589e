//! Connections that are passed on as they are: TCP, unix sockets, and what clients speak on them.
//!
//! 1. [`steps`] choose the upstream. If they ask for the name or the protocols of a TLS handshake,
//!    the first bytes are read up to the end of its hello ([`client_hello`]) and passed on
//!    unchanged.
//! 2. [`connect`] selects a server of the upstream, and another one if that cannot be reached.
//!    A connection that comes from this server itself, round and round, is noticed ([`hops`]).
//! 3. [`forward`](howdah_http::forward) passes bytes both ways until both ends have finished, or both are silent,
//!    no faster than it may ([`pace`]).
//!
//! The caller accepts connections, logs sessions, and gives the signal to stop.
#![forbid(unsafe_code)]

pub mod client_hello;
pub mod connect;
pub mod datagrams;
pub mod hops;
pub mod pace;
pub mod steps;
