//! Bytes of requests and responses on their way through a connection.

pub mod duplex;
pub mod response_buffer;
pub mod upload;
