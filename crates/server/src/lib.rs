//! The data plane: connections, routes, files, PHP dispatch, other servers.
//!
//! A request's way through this crate, in the order of the modules that it meets:
//! `listener` → (`tls`) → `conn` → `http1` → `route` → (`files` | `php` | `proxy`) → `respond`
//! → `compress`.
//!
//! `router` is the process around it: threads (`shard`), configuration, applications.
#![forbid(unsafe_code)]

mod access_log;
pub mod acme;
mod auth;
mod blame;
pub mod body;
mod buffered;
pub mod check;
pub mod compress;
mod conn;
mod eviction;
pub mod exchange;
pub mod fastcgi;
mod feed;
pub mod files;
pub mod http1;
pub mod http2;
pub mod limits;
mod listener;
pub mod message;
pub mod packets;
pub mod php;
pub mod proxy;
pub mod regular_file;
pub mod respond;
mod room;
pub mod route;
pub mod router;
mod shard;
pub mod snapshot;
pub mod status;
mod stream;
pub mod tls;
pub mod tunnel;
mod variables;
