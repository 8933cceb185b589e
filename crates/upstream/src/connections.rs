//! Connections to other servers: opening them, and pools of idle ones.
//!
//! - [`connection`]: TCP and unix sockets with a PROXY protocol header and TLS.
//! - [`idle_pool`]: idle HTTP connections of a thread; [`http2_pool`]: those of HTTP/2;
//!   [`shared_pool`]: those to FastCGI servers.
//! - [`backlog`]: FastCGI servers whose backlog is full.

pub mod backlog;
pub mod connection;
pub mod http2_pool;
pub mod idle_pool;
pub mod shared_pool;
