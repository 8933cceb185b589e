//! Servers that requests are passed to: which one gets a request, and which ones fail.

pub mod balance;
pub mod direct;
pub mod passive_health;
pub mod resolved;
pub mod retry_budget;
pub mod round_robin;
pub mod upstream;
