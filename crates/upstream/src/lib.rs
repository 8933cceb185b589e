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
