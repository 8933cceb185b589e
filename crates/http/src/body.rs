//! Bodies of requests and responses, independent of the protocol version.

pub mod feed;
pub mod file;
pub mod in_kernel;
mod large_buffers;
mod request;
mod response;
pub(crate) mod spilled;
pub mod spool;
pub mod temporary_files;

pub use request::{BodyError, BodySource};
pub use response::{Body, BodyStream, Piece, SendError};
