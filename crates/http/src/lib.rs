//! HTTP as the server speaks it with clients, whatever answers the requests.
//!
//! A connection of [`h1`] or [`h2`] reads a [`message::Request`], hands it to a
//! [`exchange::Handler`] as an [`exchange::Exchange`], and sends the [`message::Response`] that comes
//! back. Nothing in this crate knows configurations of sites, routes, files or applications.
#![forbid(unsafe_code)]

pub mod authority;
pub mod body;
pub mod compress;
pub mod date;
pub mod drain;
pub mod encoding;
pub mod eviction;
pub mod exchange;
pub mod feed;
#[cfg(any(test, feature = "fixture"))]
pub mod fixture;
pub mod framing;
pub mod h1;
pub mod h2;
pub mod handshake;
pub mod input;
pub mod limits;
pub mod message;
pub mod query;
pub mod reason;
pub mod request_body;
pub mod respond;
pub mod spool;
pub mod target;
pub mod timer;
pub mod tunnel;
pub mod variables;
