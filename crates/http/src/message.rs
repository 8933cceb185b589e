//! Requests and responses, independent of the protocol version.
//!
//! The head of a request stays in the buffer that it was received in: names and values are slices
//! of it. The header fields of a response are one block of `Name: value\r\n` lines, so that the
//! head of a cached file is shared and not built again. The connection itself writes the fields
//! that belong to it (`Date`, `Server`, `Content-Length`, `Transfer-Encoding`, `Connection`); they
//! are never in the block.

mod encoding;
mod fields;
mod request;
mod response;
mod shown;

pub use encoding::Encoding;
pub use fields::{FieldBlock, Fields, is_internal_field};
pub use request::{
    Additions, ConnectionInfo, ErrorOrigin, Request, RequestCount, ShownAddress, Version,
};
pub use response::{
    CompressedCopies, ConnectionFields, FileFacts, Response, ResponseExtras, Trailer,
};
pub use shown::{ShownRequest, ShownRequestId, keyed_hash, shown_target};
