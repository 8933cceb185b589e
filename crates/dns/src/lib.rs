//! Addresses of servers that the configuration names.
//!
//! Names are looked up before a configuration is applied, and again when the TTL of the answer is
//! over. New addresses are compiled into the configuration. If a look-up fails, the name keeps its
//! addresses; if it never had any, only requests to its own server fail. Of a request, only the
//! address of the client is looked up, and only for a `.htaccess` file that names hosts
//! ([`clients`]).
//!
//! [`stream`] connects to an address.
#![forbid(unsafe_code)]

pub mod clients;
pub mod either;
pub mod files;
mod lookup;
mod names;
mod srv;
pub mod stream;
mod system;
pub mod target;
pub mod turns;

pub use names::{CHANGE_LOOK_UP_TIMEOUT, NameTable, Names, START_LOOK_UP_TIMEOUT, addresses};
