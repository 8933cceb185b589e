//! Connections to servers: how one is made, and where idle ones are kept.

pub mod backlog;
pub mod connection;
pub mod either;
pub mod shared_pool;
pub mod stream;
