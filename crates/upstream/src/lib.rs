//! Requests to other servers: HTTP upstreams and FastCGI servers.
//!
//! [`proxy`], [`http2`] and [`fastcgi`] each implement one protocol. Shared modules:
//!
//! - [`retry`]: passes a request to a server, and to another one if that fails.
//! - [`health_checks`]: asks servers whether they work.
//! - [`servers`]: selects the server of a request, and tracks failing servers.
//! - [`connections`]: opens and keeps connections.
//! - [`transfer`]: bodies, timeouts and buffers on a connection.
#![forbid(unsafe_code)]

mod attempt_facts;
pub mod connections;
pub mod failure;
pub mod fastcgi;
pub mod health_checks;
pub mod http2;
pub mod log_limit;
pub mod proxy;
pub mod queue;
pub mod retry;
mod retry_policy;
pub mod script_cache;
pub mod servers;
pub mod thread;
pub mod transfer;
