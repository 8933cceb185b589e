//! Servers that requests are passed to: their selection and their failures.
//!
//! - [`upstream`], [`server`]: the configured servers, with the state that all threads share.
//! - [`selection`]: selects the server of a request. [`balance`] decides by the upstream's method,
//!   [`round_robin`] and [`selector`] have the per-thread state for it.
//! - [`passive_health`]: servers that failed requests. Active health checks are in
//!   [`crate::health_checks`].
//! - [`retry_budget`]: the share of requests that may be sent again.
//! - [`direct`], [`resolved`]: compile upstreams from the configuration.

pub mod addresses;
pub mod balance;
pub mod direct;
pub mod passive_health;
pub mod retry_budget;
pub mod round_robin;
pub mod selection;
pub mod selector;
pub mod server;
pub mod upstream;
