//! The router process: connections, routes, and the threads and configuration around them.
//!
//! A connection comes in through `accept`, is served by `connection`, and each request on it goes
//! through `pipeline`: `route` decides, and files, PHP or an upstream answers.
//!
//! `thread` is the state of one router thread. `router` is the process around it: it runs the
//! threads, applies configurations and manages applications.
#![forbid(unsafe_code)]

mod accept;
mod auth;
pub mod check;
mod connection;
mod context;
mod descriptor_shortage;
mod descriptors;
mod disk_progress;
mod filters;
pub mod geo_databases;
mod htaccess;
mod htaccess_state;
mod listener;
mod listings;
pub mod packets;
mod pipeline;
mod refusals;
pub mod request_log;
pub mod route;
pub mod router;
pub mod snapshot;
mod stream;
mod thread;
