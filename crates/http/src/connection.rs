//! Parts of a connection that HTTP/1, HTTP/2 and tunnels share.

pub mod drain;
pub mod eviction;
pub mod forward;
pub mod handshake;
pub mod input;
pub mod timer;
pub mod tunnel;
