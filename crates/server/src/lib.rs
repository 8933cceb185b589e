//! The router process: connections, routes, and the threads and configuration around them.
//!
//! A connection comes in through `listener`, is served by `connection`, and each request on it goes
//! through `pipeline`: `route` decides, and files, PHP or an upstream answers.
//!
//! `router` is the process around it: threads (`thread`), configuration, applications.
#![forbid(unsafe_code)]

mod access_log;
mod auth;
mod blame;
pub mod check;
mod connection;
mod filters;
mod listener;
pub mod packets;
mod pipeline;
mod room;
pub mod route;
pub mod router;
pub mod snapshot;
mod stream;
mod thread;
