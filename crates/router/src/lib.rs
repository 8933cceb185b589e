//! The router process: connections, and the threads and configuration around them.
//!
//! A connection comes in through `accept` and is served by `connection`; its requests go through
//! the pipeline. `process` runs the threads, applies configurations and manages applications.
#![forbid(unsafe_code)]

mod accept;
pub mod check;
mod connection;
mod descriptor_shortage;
mod disk_progress;
pub mod geo_databases;
mod http3;
pub mod process;
mod session;
mod stream;
