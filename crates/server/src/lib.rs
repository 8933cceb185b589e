//! The data plane: connections, routes, files, PHP dispatch.
//!
//! A request's way through this crate, in the order of the modules that it meets:
//! `listener` → `conn` → `http1` → `route` → (`files` | `php`) → `respond`.
#![forbid(unsafe_code)]

pub mod body;
pub mod exchange;
pub mod http1;
pub mod limits;
pub mod message;
