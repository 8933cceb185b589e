//! Servers that requests are passed to: which of them gets a request, and which of them fail.
//!
//! - [`upstream`], [`server`]: what the configuration names, with the state that all threads share.
//! - [`selection`]: the server for a request. [`balance`] decides by the upstream's method,
//!   [`round_robin`] and [`selector`] hold what a thread needs for that.
//! - [`passive_health`]: servers that failed requests. Active health checks are in
//!   [`crate::proxy::health_checks`].
//! - [`retry_budget`]: the share of requests that may be sent again.
//! - [`direct`], [`resolved`]: from the configuration to upstreams.

pub mod balance;
pub mod direct;
pub mod passive_health;
pub mod resolved;
pub mod retry_budget;
pub mod round_robin;
pub mod selection;
pub mod selector;
pub mod server;
pub mod upstream;
