//! Sites: a few lines and a directory become the parts of a document.
//!
//! [`compile`] finds out what is in the directory, as `howdah serve DIR` does, and writes the
//! routes, the application, the names and the certificates of the site in the grammar of the
//! document. Nothing that runs afterwards knows sites.
#![forbid(unsafe_code)]

mod compile;
pub mod composer;
mod encryption;
mod options;
pub mod sandbox;
mod shared;

use std::net::{Ipv6Addr, TcpListener};

pub use compile::{Machine, compile, php_version};

/// Returns true if sockets of this machine can listen on IPv6 addresses.
pub fn has_ipv6() -> bool {
    TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).is_ok()
}
