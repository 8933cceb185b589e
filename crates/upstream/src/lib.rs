//! Other servers that answer requests: HTTP upstreams and FastCGI servers.
//!
//! [`proxy`] and [`fastcgi`] each speak one protocol. What they share:
//!
//! - [`retry`]: the way of a request to a server, and to another one if that fails.
//! - [`servers`]: which server gets a request, and which servers fail.
//! - [`connections`]: how connections are made and kept.
//! - [`transfer`]: bodies, timeouts and buffers on a connection.
//! - [`names`]: addresses of servers that the configuration names.
#![forbid(unsafe_code)]

pub mod connections;
pub mod failure;
pub mod fastcgi;
pub mod log_limit;
pub mod names;
pub mod proxy;
pub mod queue;
pub mod retry;
pub mod script_cache;
pub mod servers;
pub mod thread;
pub mod transfer;

// Paths that crates/server uses; the modules themselves are in `servers` and `proxy`.
pub use self::proxy::health_checks as health;
pub use self::servers::direct as single;
pub use self::servers::resolved as known;

/// Upstreams with their status.
pub mod upstream {
    pub use crate::servers::server::ServerReport;
    pub use crate::servers::upstream::Upstream;
}
